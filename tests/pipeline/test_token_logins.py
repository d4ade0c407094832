"""The source's client and both sinks log in with tokens (OAUTHBEARER): of a callback, of an issuer, of Amazon's signer."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pyarrow as pa
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sordini.client.errors import Unauthorized
from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client import EARLIEST, LATEST, Client, ClientSettings
from sordini.pipeline.source.record_writer import write_records
from sordini.pipeline.source.sink_options import read_sink_options
from sordini.pipeline.source.staged_records import stage
from sordini.pipeline.source.transaction_writer import write_once
from sordini.protocol.types import TopicPartition
from tests.outside.bearer_broker import ADMIN, Secured, alices
from tests.support import token_callbacks

HERE = token_callbacks.__name__
CALLBACK = "kafka.sasl.oauthbearer.token.callback"
ARGUMENT = "kafka.sasl.oauthbearer.config"
URL = "kafka.sasl.oauthbearer.token.endpoint.url"
CLIENT = {
    "kafka.sasl.oauthbearer.client.credentials.client.id": "spark",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "p%:",
    "kafka.sasl.oauthbearer.scope": "kafka",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tokens"))
    with made.broker:
        made.prepare()
        yield made


@pytest.fixture(scope="module")
def topic(secured: Secured) -> str:
    name = f"topic-{uuid4().hex[:12]}"
    created = secured.command(
        secured.properties("creator", _file_login(secured)), "topics", "create", name, "--partitions", "1"
    )
    assert created.returncode == 0, created.stderr
    return name


def _file_login(secured: Secured) -> str:
    path = secured.token_file("creator", alices())
    return f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={path.as_uri()}\n"


def options_of(secured: Secured, **more: str) -> dict[str, str]:
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "OAUTHBEARER"}
    return {"kafka.bootstrap.servers": secured.bootstrap, **login, **more}


def connected(secured: Secured, **more: str) -> Client:
    return Client(ClientSettings.from_options(options_of(secured, **more)))


class Issuer:
    """An endpoint for client credentials that issues tokens of alice, or what it is told to answer."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                issuer.requests.append((login, form))
                issued = json.dumps({"access_token": alices(), "token_type": "Bearer", "expires_in": 600}).encode()
                status, body = issuer.answers.pop(0) if issuer.answers else (200, issued)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.mark.long
def test_tokens_of_a_callback_log_in_and_a_session_that_ends_is_followed_by_another(
    secured: Secured, topic: str
) -> None:
    """KIP-368: the broker ends a session with its token; requests go on with a new one, and none fails."""
    at = {TopicPartition(topic, 0): EARLIEST}
    with connected(secured, **{CALLBACK: f"{HERE}:alices", ARGUMENT: "5"}) as client:
        calls = next(token_callbacks.CALLS)
        until = time.monotonic() + 60
        while next(token_callbacks.CALLS) - calls < 3:
            assert client.offsets(at) == {TopicPartition(topic, 0): 0}
            assert time.monotonic() < until, "tokens of five seconds end"
            calls += 1  # The asking is a call itself.
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("function", "error", "complaint"),
    [
        ("raises", Unauthorized, "no token to log in with: the callback .* failed: RuntimeError: the vault is sealed"),
        ("ended", Unauthorized, "gave a token that has ended"),
        ("of_another_issuer", Unauthorized, r"refuses the token \(OAUTHBEARER\)"),
        ("nothing", BadSetting, "cannot be imported"),
    ],
)
def test_a_token_that_does_not_log_in_is_one_sentence(
    secured: Secured, function: str, error: type[Exception], complaint: str
) -> None:
    with (
        connected(secured, **{CALLBACK: f"{HERE}:{function}"}) as client,
        pytest.raises(error, match=complaint) as caught,
    ):
        client.topics()
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_a_missing_right_is_reported_without_a_name_that_only_the_token_has(secured: Secured) -> None:
    with (
        connected(secured, **{CALLBACK: f"{HERE}:alices"}) as client,
        pytest.raises(Unauthorized, match="topic 'secrets': the token's user is not authorized"),
    ):
        client.partitions(["secrets"])


@pytest.mark.long
def test_client_credentials_are_exchanged_for_a_token_once(secured: Secured, topic: str) -> None:
    with Issuer() as issuer:
        issuer.answers = [(503, b"")]
        for _ in range(2):
            with connected(secured, **CLIENT, **{URL: issuer.url}) as client:
                assert topic in client.topics()
        assert issuer.requests == [("spark:p%25%3A", {"grant_type": ["client_credentials"], "scope": ["kafka"]})] * 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (401, b'{"error": "invalid_client", "error_description": "no such client"}', "no such client (HTTP 401)"),
        (400, b'{"error": "invalid_scope"}', "invalid_scope (HTTP 400)"),
        (302, b"", "HTTP 302"),
        (200, b"<html>", "answered without an access_token"),
        (200, b'{"access_token": 1}', "an access_token that is no text"),
        (200, b'{"access_token": "two words"}', "gave no bearer token"),
    ],
)
def test_an_issuer_that_refuses_is_one_sentence(secured: Secured, status: int, body: bytes, complaint: str) -> None:
    with Issuer() as issuer, connected(secured, **CLIENT, **{URL: issuer.url}) as client:
        issuer.answers = [(status, body)]
        with pytest.raises(Unauthorized) as caught:
            client.topics()
    assert complaint in str(caught.value)
    assert "p%:" not in str(caught.value)


def rows() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": pa.array([b"one", b"two"])})


def test_both_sinks_log_in_with_tokens(secured: Secured, topic: str, tmp_path: Path) -> None:
    login = options_of(secured, topic=topic, **{CALLBACK: f"{HERE}:alices"})
    allowed = secured.properties("admin2", "sasl.mechanism=PLAIN\nsasl.jaas.config=" + f"{ADMIN}\n")
    done = secured.command(allowed, "acls", "add", "--transactional-id", "tx", "--allow", "User:alice")
    assert done.returncode == 0, done.stderr
    assert write_records(rows(), read_sink_options(login, {"value": "binary"})) == 2
    within = {"kafka.transactional.id": "tx", "stagingLocation": str(tmp_path / "staging")}
    options = read_sink_options({**login, **within}, {"value": "binary"})
    file = stage(rows(), "x", options)
    assert file is not None
    write_once([file], "x", options)
    with connected(secured, **{CALLBACK: f"{HERE}:alices"}) as client:
        assert client.offsets({TopicPartition(topic, 0): LATEST}) == {TopicPartition(topic, 0): 5}, "and a marker"


KEY: Final = "AKIDEXAMPLE"
SECRET: Final = "wJalrXUtnFEMI"
AMAZONS: Final = {CALLBACK: "aws_msk_iam_sasl_signer.MSKAuthTokenProvider:generate_auth_token", ARGUMENT: "eu-west-1"}


@pytest.mark.long
class TestAmazonsSigner:
    """aws-msk-iam-sasl-signer-python's function is a callback as it is."""

    def verified(self, token: str) -> None:
        """As Amazon's brokers do: the URL in the token, signed once more with the secret, has the same signature."""
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc, parts.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["Action"] == "kafka-cluster:Connect"
        assert query["X-Amz-Algorithm"] == "AWS4-HMAC-SHA256"
        assert query["X-Amz-Credential"].startswith(f"{KEY}/")
        assert query["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
        signer = SigV4QueryAuth(Credentials(KEY, SECRET), "kafka-cluster", "eu-west-1", expires=900)
        signed = {name: query[name] for name in query if name not in {"X-Amz-Signature", "User-Agent"}}
        request = AWSRequest("GET", f"{parts.scheme}://{parts.netloc}/", params=signed)
        request.context["timestamp"] = query["X-Amz-Date"]
        canonical = signer.canonical_request(request)
        assert signer.signature(signer.string_to_sign(request, canonical), request) == query["X-Amz-Signature"]

    def test_its_tokens_are_those_that_amazon_verifies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        settings = ClientSettings.from_options(
            {
                "kafka.bootstrap.servers": "one:9098",
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "OAUTHBEARER",
                **AMAZONS,
            }
        )
        assert settings.sasl is not None
        source: Any = settings.sasl
        self.verified(source.credentials().password)
        assert source.credentials() == source.credentials(), "a token is valid for a quarter of an hour"

    def test_credentials_that_are_not_there_are_one_sentence(
        self, secured: Secured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with (
            connected(secured, **{**AMAZONS, ARGUMENT: "us-east-1"}) as client,
            pytest.raises(Unauthorized, match="no token to log in with: the callback aws_msk_iam_sasl_signer"),
        ):
            client.topics()
