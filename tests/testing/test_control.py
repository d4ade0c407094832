"""The control itself: its paths, the requests that are wrong, and its bounds."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from sordini.testing.control.controlled import FAULTS_MAX
from sordini.testing.control.endpoints import ENDPOINTS
from sordini.testing.control.fields import shown
from sordini.testing.control.server import LIMITS
from sordini.testing.control.shapes import ACTIONS
from tests.testing.conftest import Controlled
from tests.testing.packs.made_packs import plain, write

PAGE = Path(__file__).resolve().parents[2] / "docs" / "control.md"
FAULT = {"api": "Produce", "do": "fail", "code": "NOT_ENOUGH_REPLICAS"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "where", "allowed"),
    [
        ("GET", "/broker", None, 404, "there is no path '/broker'", "path", "/, /controller, /brokers, "),
        ("GET", "/brokers/", None, 404, "there is no path '/brokers/'", "path", "/, /controller, /brokers, "),
        ("GET", "/brokers/7", None, 404, "there is no broker '7'", "path", "1"),
        ("POST", "/brokers/7/kill", None, 404, "there is no broker '7'", "path", "1"),
        ("GET", "/faults/7", None, 404, "there is no fault '7'", "path", "none: no fault is in force"),
        ("DELETE", "/faults/7", None, 404, "there is no fault '7'", "path", "none: no fault is in force"),
        ("GET", "/topics/a/partitions/x", None, 404, "there is no partition 'x'", "path", "a whole number from 0 to"),
        ("PUT", "/faults", None, 405, "PUT /faults is not served", "method", "GET, POST, DELETE"),
        ("POST", "/faults", b"{", 400, "the body is not JSON: ", "body", "a JSON object"),
        ("POST", "/faults", b"[" * 60_000, 400, "the body is not JSON: ", "body", "a JSON object"),
        ("POST", "/faults", [1], 400, "the body is [1]", "body", "a JSON object"),
        ("POST", "/faults", None, 400, "api is missing in POST /faults", "api", "a text"),
        ("POST", "/faults", {"api": "Produce"}, 400, "do is missing in POST /faults", "do", "one of fail, "),
        ("POST", "/faults", {**FAULT, "do": "fale"}, 400, 'do="fale" in POST /faults: ', "do", "one of fail, delay"),
        ("POST", "/faults", {**FAULT, "api": "Prodduce"}, 400, "api: there is no API 'Prodduce': did you mean Produce", "api", ""),
        ("POST", "/faults", {**FAULT, "code": "NONE_SUCH"}, 400, "code: there is no error code 'NONE_SUCH'", "code", ""),
        ("POST", "/faults", {**FAULT, "times": -1}, 400, "times=-1 in POST /faults: ", "times", "a whole number from 1"),
        ("POST", "/faults", {**FAULT, "times": True}, 400, "times=true in POST /faults: ", "times", "a whole number"),
        ("POST", "/faults", {**FAULT, "times": 1.5}, 400, "times=1.5 in POST /faults: ", "times", "a whole number"),
        ("POST", "/faults", {**FAULT, "broker": 2}, 400, "broker=2 in POST /faults: ", "broker", "one of the brokers: 1"),
        ("POST", "/faults", {**FAULT, "topic": 5}, 400, "topic=5 in POST /faults: ", "topic", "a text"),
        ("POST", "/faults", {**FAULT, "tims": 2}, 400, '"tims" is not a field of POST /faults', "POST /faults", "times"),
        ("POST", "/faults", {**FAULT, "ms": 2}, 400, '"ms" is not a field of POST /faults', "POST /faults", "code"),
        ("POST", "/faults", {"api": "Produce", "do": "delay", "ms": "1"}, 400, 'ms="1" in ', "ms", "a number from 0"),
        ("POST", "/faults", b'{"api": "Produce", "do": "delay", "ms": NaN}', 400, "ms=NaN in ", "ms", "a number"),
        ("POST", "/faults", {"api": "Produce", "do": "hold", "before": 1}, 400, "before=1 in ", "before", "true or false"),
        ("GET", "/groups/", None, 404, "there is no path '/groups/'", "path", "/groups/{group}"),
        ("GET", "/groups/shop?x=1", None, 400, '"x" is not a field of GET /groups/{group}', "GET /groups/{group}", "no field"),
        ("POST", "/groups/shop/fence", None, 400, "member=null in POST /groups/{group}/fence: ", "member", "the id of a member"),
        ("POST", "/groups/shop/fence", {"member": ["a"]}, 400, 'member=["a"] in ', "member", "a text"),
        ("POST", "/groups/shop/fence", {"member": "a", "instance_id": "b"}, 400, 'instance_id="b" in ', "instance_id", "None beside member="),
        ("POST", "/groups/shop/fence", {"members": "a"}, 400, '"members" is not a field of ', "POST /groups/{group}/fence", "member, instance_id"),
        ("POST", "/groups/shop/hold-heartbeats", {"before": 1}, 400, "before=1 in ", "before", "true or false"),
        ("POST", "/groups/shop/refuse-assignor", {"assignor": ""}, 400, 'assignor="" in ', "assignor", "a text"),
        ("GET", "/requests?limit=0", None, 400, "limit=0 in GET /requests: ", "limit", "a whole number from 1"),
        ("GET", "/requests?api=Nothing", None, 400, "api: there is no API 'Nothing'", "api", ""),
        ("GET", "/requests?since=1", None, 400, '"since" is not a field of GET /requests', "GET /requests", "after"),
        ("GET", "/brokers?id=1", None, 400, '"id" is not a field of GET /brokers', "GET /brokers", "no field"),
        ("POST", "/brokers/1/kill", {"hard": True}, 400, '"hard" is not a field of POST ', "POST /brokers/{broker}/kill", "no field"),
        ("POST", "/brokers/1/partition", {"from": [1]}, 400, "from=[1] in POST ", "from", "a list of"),
        ("POST", "/brokers/1/disk", {"full": "yes"}, 400, 'full="yes" in POST ', "full", "true or false"),
        ("POST", "/clock", {"advance_s": -1}, 400, "advance_s=-1 in POST /clock: ", "advance_s", "a number from 0"),
        ("POST", "/topics", {"config": {"a": [1]}}, 400, "config={", "config", "an object of texts"),
        ("POST", "/load", None, 400, "path is missing in POST /load", "path", "a text"),
        ("POST", "/load", {"path": "/no/such"}, 400, "/no/such: no such file or directory", "path", "a file that `sord"),
        ("POST", "/load", {"path": "a", "offsets": "x"}, 400, 'offsets="x" in POST /load: ', "offsets", "one of keep, dense"),
        ("POST", "/load", {"path": "a", "topics": ["a"]}, 400, 'topics=["a"] in POST /load: ', "topics", "an object of"),
    ],
)  # fmt: skip
def test_the_response_to_a_wrong_request_says_what_is_wrong_and_what_is_allowed(
    controlled: Controlled, method: str, path: str, body: object, status: int, error: str, where: str, allowed: str
) -> None:
    answer = controlled.ask(method, path, body)
    assert (answer.status, answer.value["where"]) == (status, where), answer
    assert answer.value["error"].startswith(error), answer
    assert allowed in answer.value["allowed"], answer
    assert (controlled.get("/faults"), controlled.log.lines) == ([], [])
    assert answer.headers.get("Allow") == ("GET, POST, DELETE" if status == 405 else None)


def test_what_the_brokers_refuse_is_a_conflict(controlled: Controlled) -> None:
    orders = controlled.post("/topics")["name"]
    for path, body, said in (
        ("/topics", {"name": orders}, f"topic {orders!r}: .*TOPIC_ALREADY_EXISTS"),
        ("/topics", {"name": "a/b"}, "topic 'a/b': .*INVALID_TOPIC_EXCEPTION"),
        ("/topics", {"config": {"retention": 1}}, "INVALID_CONFIG"),
        (f"/topics/{orders}/partitions/0/leader", None, "has no other replica in sync than 1"),
        ("/groups/shop/expel", {"member": "none"}, "UNKNOWN_MEMBER_ID"),
        ("/groups/shop/fence", {"member": "none"}, "group 'shop' has no member 'none': there is none"),
        ("/groups/shop/hold-heartbeats", {"instance_id": "x"}, "group 'shop' has no member with the instance id 'x'"),
    ):
        answer = controlled.ask("POST", path, body)
        assert answer.status == 409, answer
        assert re.search(said, answer.value["error"]), answer


def test_a_share_group_is_described_its_locks_expire_and_its_acknowledgements_are_refused(
    controlled: Controlled,
) -> None:
    jobs, group = controlled.post("/topics")["name"], "control-workers"
    assert controlled.get("/share-groups/none")["members"] == []
    assert controlled.ask("POST", f"/share-groups/{group}/expire-locks").status == 409, "no record is locked"
    controlled.kafka.share_group(group).configure({"share.auto.offset.reset": "earliest"})
    controlled.kafka.produce(jobs, ["one", "two"])
    settings = {"group.id": group, "share.acknowledgement.mode": "explicit", "log_level": 0}
    worker = ShareConsumer({"bootstrap.servers": controlled.bootstrap_servers, **settings})
    worker.subscribe([jobs])
    try:
        held = [message.offset() for message in polled(worker, 2)]
        path = f"/share-groups/{group}"
        assert [len(member["assigned"]) for member in controlled.get(path)["members"]] == [1]
        assert {row["topic"] for row in controlled.get(path)["partitions"]} == {jobs}
        found = controlled.get(f"{path}/in-flight")
        assert ([row["offset"] for row in found["records"]], found["more"]) == (held, False)
        refused = controlled.ask("POST", f"{path}/refuse-acknowledgements", {"times": 1})
        assert (refused.status, len(refused.value["faults"])) == (201, 2)
        expired = controlled.post(f"{path}/expire-locks", topic=jobs)["expired"]
        assert [row["offset"] for row in expired] == held
        assert {row["state"] for row in controlled.get(f"{path}/in-flight")["records"]} <= {"available", "acquired"}
    finally:
        worker.close()


def polled(worker: ShareConsumer, count: int) -> list[Any]:
    """So many records of a few polls."""
    found: list[Any] = []
    for _ in range(100):
        if len(found) >= count:
            break
        found += [message for message in worker.poll(timeout=0.5) if message.error() is None]
    return found


def test_a_pack_is_loaded_by_its_path(controlled: Controlled, tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.pack", {("orders", 1): plain(b"one", b"two", start=5)}, partitions=2))
    fields = {"path": path, "topics": {"orders": "loaded"}}
    answer = controlled.ask("POST", "/load", {**fields, "config": {"segment.ms": 600_000}})
    assert (answer.status, answer.value) == (200, {"records": {"loaded": {"1": 2}}})
    assert [(one.offset, one.text) for one in controlled.kafka.records("loaded", 1)] == [(5, "one"), (6, "two")]
    assert controlled.ask("POST", "/load", {**fields, "offsets": "dense"}).value == answer.value
    assert controlled.kafka.end_offsets("loaded") == {0: 0, 1: 9}
    wrong = controlled.ask("POST", "/load", {**fields, "topics": {"order": "x"}})
    assert (wrong.status, wrong.value["where"]) == (400, "topics")
    assert "'order' is not in the pack; these are: orders" in wrong.value["error"]
    conflict = controlled.ask("POST", "/load", fields)
    assert (conflict.status, "ends at offset 9, and the pack begins at 5" in conflict.value["error"]) == (409, True)


def test_a_request_of_a_web_page_is_refused(controlled: Controlled) -> None:
    answer = controlled.ask("POST", "/brokers/1/kill", headers={"Origin": "https://example.org"})
    assert (answer.status, answer.value["error"]) == (403, "the request comes from a web page")
    assert controlled.get("/brokers/1")["running"]


def test_a_body_that_is_too_large_is_refused(controlled: Controlled) -> None:
    answer = controlled.ask("POST", "/faults", b" " * (LIMITS.body_bytes_max + 1))
    assert answer.status == 413


def test_faults_have_a_bound(controlled: Controlled) -> None:
    for _ in range(FAULTS_MAX):
        controlled.fault("Produce", "hold", topic="none")
    answer = controlled.ask("POST", "/faults", FAULT)
    assert (answer.status, answer.value["error"]) == (409, f"{FAULTS_MAX} faults are in force")
    controlled.delete(f"/faults/{controlled.get('/faults')[0]['id']}")
    assert controlled.ask("POST", "/groups/shop/hold-heartbeats").status == 409, "it would be two faults"
    assert len(controlled.delete("/faults")) == FAULTS_MAX - 1
    controlled.fault("Produce", "hold")


def test_requests_come_in_pages_with_their_messages(controlled: Controlled) -> None:
    host, _, port = controlled.get("/brokers/1")["bootstrap_server"].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        for _ in range(3):
            client.sendall(bytes.fromhex("0000000e 0012 0000 00000007 0004 74696c6c"))  # ApiVersions v0 of `till`.
            assert client.recv(65_536)
    page = controlled.get("/requests?limit=2")
    assert (len(page["requests"]), page["more"]) == (2, True)
    rest = controlled.get(f"/requests?after={page['requests'][-1]['number']}")
    assert (len(rest["requests"]), rest["more"]) == (1, False)
    assert rest["requests"][0]["api"] == "ApiVersions"
    assert rest["requests"][0]["client_id"] == "till"
    assert rest["requests"][0]["body"] == {}
    assert controlled.get("/requests?message=none")["requests"][0].keys() == rest["requests"][0].keys() - {
        "body",
        "sequences",
    }
    assert controlled.get("/requests?api=Fetch") == {"requests": [], "more": False}
    controlled.delete("/requests")
    assert controlled.get("/requests")["requests"] == []


def test_the_log_of_the_brokers_can_be_read(controlled: Controlled) -> None:
    lines = controlled.get("/log?lines=3")["lines"]
    assert len(lines) == 3
    assert all("broker 1" in line for line in lines)


def test_the_page_has_every_path_and_every_action() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(GET|POST|DELETE) (/\S*)`", page, re.MULTILINE)
    assert rows == [(one.method, one.path) for one in ENDPOINTS]
    assert re.findall(r"^\| `\"(\w+)\"`", page, re.MULTILINE) == list(ACTIONS)


def test_a_value_in_an_error_is_not_too_long() -> None:
    assert len(shown("x" * 1000)) < 200
