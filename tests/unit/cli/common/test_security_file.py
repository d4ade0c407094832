"""What --command-config's file says about tokens: where one is, and that it is read for each login."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.broker.configuration.settings import ConfigError
from sordini.cli.common.security_file import read_client_security
from sordini.client.authentication import SaslCredentials

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"
TOKEN_BYTES_MAX = 16_384


def properties(directory: Path, *lines: str) -> str:
    path = directory / "client.properties"
    path.write_text("\n".join(["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", *lines]))
    return str(path)


@pytest.mark.parametrize(
    "line",
    [
        [f"{URL}=file://{{path}}"],
        [f"sasl.jaas.config={MODULE};", f"{URL}=file://{{path}}"],
        [f'sasl.jaas.config={MODULE} oauth.access.token.location="{{path}}";'],
    ],
)
def test_a_token_is_read_from_its_file_at_each_login(tmp_path: Path, line: list[str]) -> None:
    path = tmp_path / "alice.jwt"
    path.write_text("a.b.c\n")
    sasl = read_client_security(properties(tmp_path, *(part.format(path=path) for part in line))).sasl
    assert sasl is not None
    assert sasl() == SaslCredentials("OAUTHBEARER", "", "a.b.c")
    path.write_text(" d.e-f_.g== ")
    assert sasl().password == "d.e-f_.g=="
    assert "d.e-f_" not in repr(sasl())
    path.unlink()
    with pytest.raises(FileNotFoundError):
        sasl()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "sasl.mechanism=OAUTHBEARER needs one file with a token"),
        ([f"sasl.jaas.config={MODULE};"], "needs one file with a token"),
        ([f"{URL}=file:///a", f"sasl.jaas.config={MODULE} oauth.access.token.location=/b;"], "needs one file"),
        ([f"{URL}=https://issuer.example/token"], "allowed is file:///path; no token is requested here"),
        ([f"{URL}=file:relative"], "file:///path with an absolute path"),
        (["sasl.jaas.config=x.PlainLoginModule required;"], "is not valid for OAUTHBEARER"),
    ],
)
def test_a_file_without_a_token_to_use_is_refused(tmp_path: Path, lines: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_client_security(properties(tmp_path, *lines))


@pytest.mark.parametrize(
    "text", ["", "\n", "se cret", "se\ncret", "se\x01cret", "é", "x" * (TOKEN_BYTES_MAX + 1), "token=x"]
)
def test_what_is_no_token_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(ConfigError, match="token is not valid: allowed is a bearer token") as refused:
        read_client_security(properties(tmp_path, f"{URL}={path.as_uri()}"))
    assert not text.strip() or text.strip() not in str(refused.value)


def test_another_mechanism_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n")
    with pytest.raises(
        ConfigError, match=r"sasl\.mechanism='GSSAPI' is not valid: allowed is one of PLAIN, .*OAUTHBEARER"
    ):
        read_client_security(str(path))
