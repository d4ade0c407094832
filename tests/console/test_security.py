"""What a request has to pass: login, session, CSRF, host, sizes and rates; what the cluster's access control decides."""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from sordini.broker.process.secure_start.authority import issue, make_authority
from sordini.cli.__main__ import main
from sordini.console.security.request_limits import BODY_BYTES_MAX, POLICY
from sordini.system.clock import SystemClock
from sordini.testing import Kafka, make_kafka
from tests.console.console_process import ConsoleProcess, words
from tests.console.scene import until

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
PAGES = (
    "/",
    "/topics",
    "/topic?name=orders",
    "/topic/segments?name=orders",
    "/groups",
    "/acls",
    "/users",
    "/quotas",
    "/transactions",
    "/mirrors",
    "/pipelines",
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 2}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def console(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap_servers) as process:
        yield process


def test_nothing_is_shown_without_a_login(console: ConsoleProcess) -> None:
    visitor = console.visitor()
    for path in PAGES:
        answer = visitor.get(path)
        assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert visitor.get("/live/cluster", accept="text/event-stream").status == 401
    assert visitor.post("/topics/create", {"name": "x"}).headers["location"] == "/login"


def test_the_token_begins_a_session_and_a_logout_ends_it(console: ConsoleProcess) -> None:
    visitor = console.visitor()
    assert visitor.log_in(token="0" * 32).status == 403
    answer = visitor.log_in(token=console.token)
    (cookie,) = answer.cookies
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    for path in PAGES:
        assert visitor.get(path).status == 200
    kept = visitor.cookie
    assert visitor.change("/logout").status == 303
    visitor.cookie = kept
    assert visitor.get("/topics").status == 303, "the cookie of a session that was ended"


def test_each_login_has_a_session_of_its_own_and_ends_the_former(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    former = visitor.cookie
    visitor.log_in(token=console.token)
    assert visitor.cookie != former
    visitor.cookie = former
    assert visitor.get("/topics").status == 303


def test_every_response_has_the_policy_and_no_page_is_stored(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    for path in (*PAGES, "/topic?name=none", "/static/console.css", "/login", "/nowhere"):
        headers = visitor.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert ("no-store" in headers.get("cache-control", "")) is not path.startswith("/static/")
    assert "unsafe" not in POLICY
    for path in PAGES:
        text = visitor.get(path).text
        assert not re.search(r"<script(?! src=)|<style|\son\w+=|\sstyle=|javascript:|https?://", text), path


def test_a_form_without_the_token_of_its_session_changes_nothing(console: ConsoleProcess, kafka: Kafka) -> None:
    visitor, other = console.logged_in(), console.logged_in()
    for csrf in ("", "0" * 64, other.csrf):
        assert visitor.post("/topics/create", {"csrf": csrf, "name": "forged"}).status == 403
    assert visitor.get("/topic?name=forged").status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
def test_a_form_of_another_site_changes_nothing(console: ConsoleProcess, headers: dict[str, str]) -> None:
    visitor = console.logged_in()
    fields = {"csrf": visitor.csrf, "name": "forged"}
    assert visitor.post("/topics/create", fields, **headers).status == 403
    assert visitor.post("/login", {"token": console.token}, **headers).status == 403


def test_a_get_changes_nothing(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    for path in ("/topic/configuration?name=orders&key=retention.ms&value=1&action=set", "/topic/delete?name=orders"):
        assert visitor.get(path).status == 200
    assert visitor.get("/group/reset/plan?name=x").status == 405
    assert "604800000" in visitor.get("/topic/configuration?name=orders").text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_is_not_the_consoles_is_refused(console: ConsoleProcess, host: str) -> None:
    assert console.visitor().get("/login", host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9080", "LOCALHOST"])
def test_addresses_and_localhost_are_the_consoles(console: ConsoleProcess, host: str) -> None:
    assert console.visitor().get("/login", host=host).status == 200


def test_sizes_are_bounded(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    fields = {"csrf": visitor.csrf, "name": "orders", "value": "x" * BODY_BYTES_MAX}
    assert visitor.post("/topic/produce", fields).status == 413
    assert visitor.get("/topics?find=" + "x" * 9_000).status == 414
    assert visitor.get("/topics?find=" + "x" * 3_000).status == 400
    many = {f"field{number}": "x" for number in range(200)}
    assert visitor.post("/topic/produce", {"csrf": visitor.csrf, **many}).status == 400
    assert visitor.post("/topic/produce", {"csrf": visitor.csrf}, content_type="application/json").status == 415


@pytest.mark.parametrize(
    "path",
    [
        "/topic",
        "/topic/records?name=orders&partition=9",
        "/topic/records?name=orders&partition=-5",
        "/topic/records?name=orders&start=offset&at=1e9",
        "/topic/records?name=orders&start=offset&at=99999999999999999999",
        "/topic/records?name=orders&start=time&at=yesterday",
        "/topic/records?name=orders&limit=100000",
        "/topic/records?name=orders&where=everywhere",
        "/topic/records?name=orders&where=json&text=a..b",
        "/topic/record?name=orders&partition=0&offset=0",
        "/topics?page=0",
        "/group",
    ],
)
def test_a_query_that_is_not_valid_is_answered_with_what_is_allowed(console: ConsoleProcess, path: str) -> None:
    answer = console.logged_in().get(path)
    assert answer.status == 400
    assert "This request is not valid" in words(answer.text)


def test_failed_logins_of_an_address_are_limited_and_others_are_not(kafka: Kafka, tmp_path: Path) -> None:
    with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
        for _ in range(12):
            assert console.logged_in().get("/users").status == 200
        statuses = [console.visitor().log_in(token="wrong").status for _ in range(12)]
        assert statuses[0] == 403
        assert statuses[-1] == 429


def test_a_read_only_console_offers_no_change_and_makes_none(kafka: Kafka, tmp_path: Path) -> None:
    with ConsoleProcess(tmp_path, kafka.bootstrap_servers, "--read-only") as console:
        assert console.words == "read-only"
        visitor = console.logged_in()
        assert "Create a topic" not in visitor.get("/topics").text
        changes = {
            "/topics/create": {"name": "made"},
            "/topic/delete": {"name": "orders", "confirmation": "orders"},
            "/topic/configuration": {"name": "orders", "key": "retention.ms", "value": "1", "action": "set"},
            "/topic/partitions": {"name": "orders", "count": "9"},
            "/topic/produce": {"name": "orders", "value": "x"},
            "/group/reset": {"name": "g", "topics": "orders", "target": "to_latest", "plan": "x"},
            "/group/reset/plan": {"name": "g", "topics": "orders", "target": "to_latest"},
            "/group/remove-member": {"name": "g", "member": "m"},
        }
        for path, fields in changes.items():
            answer = visitor.change(path, **fields)
            assert (answer.status, "This console is read-only" in answer.text) == (403, True), path
        assert visitor.get("/topic?name=orders").status == 200
        assert console.output().count("refused: read-only") == len(changes)


@pytest.mark.parametrize(
    ("options", "words_expected"),
    [
        (["--host", "0.0.0.0"], "passwords would cross the network in plain text"),
        (["--tls-key", "key.pem"], "give both or none"),
        (["--sasl-login", "PLAIN"], "needs --command-config"),
        (["--token-file", "short"], "allowed are 16 or more"),
    ],
)
def test_what_would_be_less_protected_than_it_seems_does_not_start(
    tmp_path: Path, options: list[str], words_expected: str
) -> None:
    (tmp_path / "short").write_text("short\n")
    given = [str(tmp_path / "short") if option == "short" else option for option in options]
    done = CliRunner().invoke(main, ["console", *given], prog_name="sordini")
    assert done.exit_code == 2
    assert words_expected in " ".join(done.stderr.split())


@pytest.mark.slow
def test_where_others_reach_it_changes_are_off_unless_they_are_allowed(kafka: Kafka, tmp_path: Path) -> None:
    for options, expected in (((), "read-only"), (("--allow-changes",), "changes are allowed")):
        folder = tmp_path / expected.partition(" ")[0]
        given = ("--host", "0.0.0.0", "--plain-http", "--host-name", "console.example", *options)
        with ConsoleProcess(folder, kafka.bootstrap_servers, *given) as console:
            assert console.words == expected


def test_with_tls_the_cookie_is_secure_and_of_this_host_alone(kafka: Kafka, tmp_path: Path) -> None:
    now_ms = SystemClock().now_ms()
    authority = make_authority("console test", now_ms)
    issued = issue(authority, "console", ("127.0.0.1", "localhost"), now_ms)
    (tmp_path / "chain.pem").write_bytes(issued.certificate_pem + authority.certificate_pem)
    (tmp_path / "key.pem").write_bytes(issued.key_pem)
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    options = ("--tls-certificate", str(tmp_path / "chain.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with ConsoleProcess(tmp_path, kafka.bootstrap_servers, *options) as console:
        visitor = console.visitor(context)
        answer = visitor.log_in(token=console.token)
        (cookie,) = answer.cookies
        assert cookie.startswith("__Host-sordini_console=")
        assert "Secure" in cookie
        assert "max-age" in answer.headers["strict-transport-security"]
        assert visitor.get("/topics").status == 200


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console whose visitors are users of a cluster with access control."""
    folder = tmp_path_factory.mktemp("secured")
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # The kit's own listener has no logins.
        "allow.everyone.if.no.acl.found": "false",
    }
    with make_kafka(sasl=PASSWORDS, config=config, topics=()) as cluster:
        properties = folder / "client.properties"
        properties.write_text("security.protocol=SASL_PLAINTEXT\n")
        options = ("--command-config", str(properties), "--sasl-login", "SCRAM-SHA-256")
        with ConsoleProcess(folder, cluster.bootstrap_servers, *options) as process:
            yield process


def test_users_of_the_cluster_log_in_with_their_passwords(secured: ConsoleProcess) -> None:
    visitor = secured.visitor()
    assert "SCRAM-SHA-256" in visitor.get("/login").text
    for username, password in (("alice", "wrong"), ("nobody", "x"), ("alice", "")):
        assert visitor.log_in(username=username, password=password).status in (400, 403)
        assert visitor.get("/topics").status == 303
    assert visitor.log_in(username="alice", password=PASSWORDS["alice"]).status == 303
    assert "alice" in words(visitor.get("/users").text)


def test_the_access_control_of_the_cluster_decides_for_each_visitor(secured: ConsoleProcess) -> None:
    admin, alice = secured.visitor(), secured.visitor()
    admin.log_in(username="admin", password=PASSWORDS["admin"])
    alice.log_in(username="alice", password=PASSWORDS["alice"])
    assert admin.change("/topics/create", name="salaries", partitions="1").status == 303
    assert admin.change("/topic/produce", name="salaries", value="forty-two").status == 303
    assert "forty-two" in admin.get("/topic/records?name=salaries").text
    assert "salaries" in admin.get("/topics").text

    assert "salaries" not in alice.get("/topics").text
    for path in (
        "/topic?name=salaries",
        "/topic/segments?name=salaries",
        "/topic/records?name=salaries",
        "/topic/record?name=salaries&partition=0&offset=0",
    ):
        answer = alice.get(path)
        assert answer.status in (403, 404)
        assert "forty-two" not in answer.text
    refused = [
        alice.change("/topics/create", name="mine", partitions="1"),
        alice.change("/topic/produce", name="salaries", partition="0", value="0"),
        alice.change("/topic/delete", name="salaries", confirmation="salaries"),
    ]
    assert all(answer.status in (403, 404, 409) for answer in refused)
    assert admin.get("/topic?name=salaries").status == 200
    assert "CLUSTER_AUTHORIZATION_FAILED" in alice.get("/acls").text
    until(lambda: re.search(r"Sordini \d\S+ [\d.]+ m?s [\d.]+ % \d+", words(admin.get("/").text)))
    assert words(alice.get("/").text).count("not reported") == 3, "uptime, CPU time and connections"
    assert "started" not in words(alice.get("/").text)
    assert "principal=alice" in secured.output()


def test_no_secret_is_in_a_page_or_in_the_log(secured: ConsoleProcess) -> None:
    visitor = secured.visitor()
    visitor.log_in(username="admin", password=PASSWORDS["admin"])
    for path in (*PAGES, "/login"):
        text = visitor.get(path).text
        assert not any(password in text for password in PASSWORDS.values())
        assert visitor.cookie.partition("=")[2] not in text
    assert not any(password in secured.output() for password in PASSWORDS.values())


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_said_and_found_when_it_is(tmp_path: Path) -> None:
    with make_kafka(topics={"orders": 1}) as cluster:
        bootstrap = cluster.bootstrap_servers
        with ConsoleProcess(tmp_path, bootstrap) as console:
            visitor = console.logged_in()
            assert visitor.get("/topics").status == 200
            cluster.brokers[0].stop()
            answer = visitor.get("/topics")
            assert answer.status in (502, 504)
            assert "cannot be reached" in words(answer.text) or "is slow" in words(answer.text)
            cluster.brokers[0].start()
            assert visitor.get("/topics").status == 200


def test_an_action_is_one_line_in_the_log(console: ConsoleProcess, kafka: Kafka) -> None:
    visitor = console.logged_in()
    assert visitor.change("/topics/create", name="logged", partitions="1").status == 303
    assert visitor.change("/topics/create", name="logged", partitions="1").status == 409
    lines = [line for line in console.output().splitlines() if "console change" in line and "topic=logged" in line]
    assert len(lines) == 2
    assert "outcome=done" in lines[0]
    assert "failed" in lines[1]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("logged", b"x")
    assert producer.flush(10) == 0


def test_it_stops_at_once_while_pages_are_live(kafka: Kafka, tmp_path: Path) -> None:
    with ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
        visitor = console.logged_in()
        connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=10)
        connection.request("GET", "/live/cluster", headers={"Cookie": visitor.cookie})
        with connection.getresponse() as response:
            assert response.status == 200
            assert response.readline().startswith(b"retry:")
            console.terminate()
            assert console.wait_for_exit(6) == 0
        connection.close()
