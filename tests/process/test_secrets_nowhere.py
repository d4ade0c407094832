"""Secrets are nowhere: planted wherever one can be, searched in everything that a broker and the commands write.

The broker runs at its most verbose level with an audit log and metrics; clients log in, fail to, and send secrets in
requests of every kind; starts are refused; the process is ended by an abort that dumps its stacks. Then all files and all
output are searched for each secret as it is, in base64 at each alignment, in hexadecimal, and escaped as in a URL.
"""

from __future__ import annotations

import base64
import os
import signal
import struct
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from sordini.protocol.messages.sasl import SaslAuthenticateRequest
from tests.process.planted_secrets import MODULE, PLANTED, Site, forms
from tests.support.wire_client import PATIENCE_S

BROKER, TOPIC = 4, 2
SIDE_BY_SIDE = 3
"""How many commands run at a time."""


def log_in_and_fail_to(site: Site) -> None:
    assert (
        site.run("users", "set", "carol", "--mechanism", "SCRAM-SHA-256", "--password-file", "-", given=site.carol) == 0
    )
    assert site.run("acls", "add", "--topic", "orders", "--allow", "User:alice") == 0
    assert site.run("topics", "create", "orders") == 0
    for name, status in {"alice": 0, "carol": 0, "wrong": 1, "proof": 1, "open": 2, "module": 2, "bare": 2}.items():
        found = site.run("topics", "list", "--timeout", "3", properties=name)
        assert (found == 0) == (status == 0), (name, found)
    assert site.run("produce", "orders", properties="wrong", given="one\n") != 0
    assert site.run("consume", "orders", "--exit-at-end", properties="proof") != 0
    wrong = PLANTED["a wrong password of PLAIN"].encode()
    for token in (b"\0alice\0" + wrong, b"alice\0alice\0" + wrong, b"\0nobody\0" + wrong):
        answer, frame = site.connect().exchange(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
        assert answer.error_code != 0
        site.keep("a failed login", frame)
    garbage = PLANTED["a token that cannot be read"].encode()
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        for token in (garbage, b"\xff" + garbage, b"\0" + garbage, b"n,,n=" + garbage + b",m=1,r=x", b"p=" + garbage):
            answer, frame = site.connect(mechanism).exchange(
                ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)
            )
            assert answer.error_code != 0
            site.keep("a token", frame)
    for raw in (b"\0alice\0", b"\xff"):
        site.connect("PLAIN", 0).send(raw + PLANTED["a token in a frame of its own"].encode())


def send_secrets_in_requests(site: Site) -> None:
    early = PLANTED["a request before the login"].encode()
    for frame in (early, struct.pack(">hhih", 3, 9, 1, -1) + early, struct.pack(">hhih", 36, 99, 1, -1) + early):
        site.dial().send(frame)
    for key in (38, 39, 40, 41):
        frame = struct.pack(">hhih", key, 0, 1, -1) + PLANTED["a delegation token"].encode()
        site.admin().send(frame)
    admin = site.admin()
    upsertion = ScramCredentialUpsertion(
        name="dave",
        mechanism=1,
        iterations=4096,
        salt=b"no secret",
        salted_password=PLANTED["a salted password over the wire"].encode().ljust(32, b"x"),
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    site.keep("credentials", admin.exchange(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)[1])
    secret, mistaken = PLANTED["a secret setting over the wire"], PLANTED["a secret behind the wrong key"]
    line = f'{MODULE}.plain.PlainLoginModule required user_eve="{secret}";'
    rows = [
        (BROKER, "1", "listener.name.sasl_ssl.plain.sasl.jaas.config", line),
        (BROKER, "1", "sasl.jaas.config", line),
        (BROKER, "1", "listener.name.inside.ssl.key.password", secret),
        (BROKER, "1", "ssl.keystore.password", secret),
        (BROKER, "1", "somebodys.plugin.password", secret),
        (BROKER, "", "message.max.bytes", mistaken),
        (BROKER, "1", "log.dirs", mistaken),
        (TOPIC, "orders", "retention.ms", mistaken),
    ]
    for type_, resource_name, key, value in rows:
        entry = incremental_alter_configs.AlterableConfig(name=key, value=value)
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=type_, resource_name=resource_name, configs=[entry]
        )
        request_ = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer, _ = admin.exchange(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request_)
        assert answer.responses[0].error_code != 0, key
        old = alter_configs.AlterConfigsResource(
            resource_type=type_,
            resource_name=resource_name,
            configs=[alter_configs.AlterableConfig(name=key, value=value)],
        )
        admin.exchange(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest(resources=[old]))


def ask_for_everything(site: Site) -> None:
    admin = site.admin()
    for kind, name in ((BROKER, "1"), (BROKER, ""), (TOPIC, "orders")):
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=True
        )
        answer, frame = admin.exchange(ApiKey.DESCRIBE_CONFIGS, 4, request)
        assert answer.results[0].error_code == 0
        site.keep("DescribeConfigs", frame)
    commands = (
        "configs describe --broker 1 --all",
        "configs describe --broker 1",
        "users list",
        "acls list",
        "cluster status",
        "topics describe orders",
        "groups list",
        "ping",
    )
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        assert list(pool.map(lambda words: site.run(*words.split()), commands)) == [0] * len(commands)
    for path in ("metrics", "health"):
        with urllib.request.urlopen(f"http://127.0.0.1:{site.metrics_port}/{path}", timeout=PATIENCE_S) as page:
            site.keep(path, page.read())


def refuse_starts(site: Site) -> None:
    secret = PLANTED["a start that is refused"]
    plain = f"{MODULE}.plain.PlainLoginModule required"
    line = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    store = "listener.name.sasl_ssl.ssl.keystore.password"
    starts = {
        "wrong-store": {store: secret, "listener.name.sasl_ssl.ssl.key.password": secret},
        "wrong-trust": {"ssl.truststore.password": secret},
        "wrong-key": {"listener.name.inside.ssl.key.password": secret},
        "no-key": {"listener.name.inside.ssl.keystore.key": secret},
        "no-chain": {"listener.name.inside.ssl.keystore.certificate.chain": secret},
        "open-line": {line: f'{plain} username="admin" password="{secret}'},
        "no-end": {line: f'{plain} username="admin" password="{secret}"'},
        "module": {line: f'x.Y required username="admin" password="{secret}";'},
        "bare-line": {line: secret},
        "unnamed": {line: f'{plain} password="{secret}";'},
        "unknown-listener": {"listener.name.nobody.ssl.key.password": secret},
        "encoder": {"delegation.token.secret.key": secret, "delegation.token.master.key": secret},
        "number": {"num.partitions": "none", store: secret},
        "torn": {"\n": f'"{secret}"'},
    }
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(lambda name: site.refused(name, **starts[name]), starts))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("secrets"))
    try:
        made.broker.start()
        log_in_and_fail_to(made)
        send_secrets_in_requests(made)
        ask_for_everything(made)
        made.broker.restart()
        refuse_starts(made)
        os.kill(made.broker.pid, signal.SIGABRT)
        made.broker.wait_for_exit(20)
        yield made
    finally:
        made.broker.kill()
        made.connections.close()


def test_the_search_would_find_each_form_of_a_secret() -> None:
    secret = PLANTED["a token that cannot be read"]
    data = secret.encode()
    for before in (b"", b"a", b"ab"):
        for after in (b"", b"z", b"zy"):
            text = base64.b64encode(before + data + after)
            assert any(form in text for form in forms(secret).values()), (before, after)
    assert all(any(form in written for form in forms(secret).values()) for written in (data, data.hex().encode()))
    assert len(set(PLANTED.values())) == len(PLANTED)


def test_what_was_to_be_written_is_there(site: Site) -> None:
    """So that the search has something to search."""
    log = site.broker.log_path.read_text(errors="replace")
    for text in (
        "authentication failed",
        "Fatal Python error: Aborted",
        "settings changed",
        "my.metrics.reporter.password",
    ):
        assert text in log, text
    audit = (site.written / "audit.log").read_text()
    for text in ("login failed", '"login"', "change", "ALTER_USER_SCRAM_CREDENTIALS", "(hidden)"):
        assert text in audit, text


@pytest.mark.parametrize("what", PLANTED)
def test_a_secret_is_in_no_file_and_no_output(site: Site, what: str) -> None:
    files = [file for file in site.written.rglob("*") if file.is_file()]
    assert len(files) > 40
    found = [
        (str(file.relative_to(site.written)), form)
        for file in files
        for form, text in forms(PLANTED[what]).items()
        if text in file.read_bytes()
    ]
    assert found == []


def test_answers_to_those_who_were_refused_say_nothing_of_the_secret_either(site: Site) -> None:
    kept = [
        file for file in site.written.glob("output-*") if file.read_bytes().startswith((b"a failed login", b"a token"))
    ]
    assert len(kept) == 13
    assert all(b"Kx7" not in file.read_bytes() for file in kept)
