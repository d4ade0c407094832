"""Requests that are refused before a handler: their size, their login, what their sender may do; and lines in the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sordini.registry.http.application import BODY_BYTES_MAX, LOGINS_BURST, all_routes
from sordini.registry.http.calls import Operation, Rule, Visitor
from sordini.registry.http.logins import Anyone
from sordini.registry.http.responses import PLAIN_JSON, REGISTRY_JSON
from sordini.registry.http.shapes import SCHEMA_CHARACTERS_MAX
from sordini.registry.state.refusals import Refusal
from tests.support.registries import OneOf, RegistryWorld

ALICE = {"authorization": "Basic alice"}
INT = {"schema": '"int"'}


async def status(world: RegistryWorld, method: str, target: str, body: Any = None) -> int:
    return (await world.send(method, target, body, ALICE)).status


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", REGISTRY_JSON),
        ("*/*", REGISTRY_JSON),
        ("application/json", PLAIN_JSON),
        ("application/json; q=0.5, text/plain", PLAIN_JSON),
        ("application/vnd.schemaregistry.v1+json, application/json", REGISTRY_JSON),
    ],
)
async def test_an_answer_is_in_the_media_type_that_the_client_accepts(accept: str, kind: str) -> None:
    assert (await RegistryWorld().send("GET", "/subjects", headers={"accept": accept})).kind == kind


async def test_a_body_of_another_media_type_is_refused() -> None:
    answer = await RegistryWorld().send("PUT", "/config", {}, {"content-type": "text/plain"})
    assert answer.status == 415


async def test_bodies_addresses_and_schemas_have_limits() -> None:
    world = RegistryWorld()
    assert (await world.send("PUT", "/config", b" " * (BODY_BYTES_MAX + 1))).status == 413
    assert (await world.send("GET", "/subjects/" + "a" * 9_000)).status == 414
    assert (await world.send("GET", "/subjects/" + "a" * 2_000 + "/versions")).status == 422
    assert (await world.send("GET", "/subjects?" + "&".join(["a=1"] * 200))).status == 400
    large = await world.json("POST", "/subjects/s/versions", {"schema": "x" * (SCHEMA_CHARACTERS_MAX + 1)})
    assert large["error_code"] == 42209


@pytest.mark.parametrize(
    "body",
    [
        b'{"schema":"\\"int\\"","metadata":{"properties":{"a":"\\ud800"}}}',
        b'{"schema":"\\"int\\"","metadata":{"properties":{"a":"\xed\xa0\x80"}}}',
        b'{"schema":"\\"int\\"","ruleSet":{"domainRules":[{"name":"\\uDFFF"}]}}',
    ],
)
async def test_no_record_is_written_that_other_registries_cannot_read(body: bytes) -> None:
    world = RegistryWorld()
    answer = await world.send("POST", "/subjects/s/versions", body)
    assert (answer.status, world.journal.log) == (400, [])


async def test_a_whole_surrogate_pair_is_a_character() -> None:
    world = RegistryWorld()
    body = b'{"schema":"\\"int\\"","metadata":{"properties":{"a":"\\ud83d\\ude00"}}}'
    assert (await world.send("POST", "/subjects/s/versions", body)).status == 200
    assert (world.state.versions("s")[0].metadata or {})["properties"] == {"a": "\U0001f600"}


async def test_without_a_login_a_request_is_refused_with_the_way_to_log_in() -> None:
    answer = await RegistryWorld(OneOf({})).send("GET", "/subjects")
    assert answer.status == 401
    assert ("www-authenticate", 'Basic realm="sordini registry"') in answer.headers


async def test_no_body_is_read_of_a_request_without_a_login() -> None:
    world = RegistryWorld(OneOf({}))
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("a client without a login could fill the memory with bodies")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "raw_path": b"/subjects/s", "query_string": b"", "headers": []}
    await world.app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    assert sent[0]["status"] == 401


async def test_an_address_whose_logins_fail_too_often_has_to_wait() -> None:
    world = RegistryWorld(OneOf({}))
    statuses = [(await world.send("GET", "/subjects")).status for _ in range(LOGINS_BURST + 5)]
    assert statuses[:LOGINS_BURST] == [401] * LOGINS_BURST
    assert statuses[-1] == 429


class SlowLogins:
    """Implements `Logins`: `alice` is known, `bob` logs in when he is let, others are refused."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.waiting = 0
        self.has_logged_in = False

    async def visitor(self, headers: Mapping[str, str], attempt: Callable[[], None]) -> Visitor:
        name = headers.get("authorization", "")
        if name == "bob" and not self.has_logged_in:
            self.waiting += 1
            await self.is_open.wait()
            if not self.has_logged_in:
                attempt()
                self.has_logged_in = True
        elif name not in ("alice", "bob"):
            attempt()
            raise Refusal(401, "log in")
        return Anyone()

    def close(self) -> None:
        return


async def test_a_visitor_whose_requests_come_all_at_once_logs_in_once() -> None:
    logins = SlowLogins()
    world = RegistryWorld(logins)
    bob = {"authorization": "bob"}
    count = 3 * LOGINS_BURST
    requests = [asyncio.create_task(world.send("GET", "/subjects", headers=bob)) for _ in range(count)]
    while logins.waiting < count and not any(one.done() for one in requests):  # noqa: ASYNC110 - it has no event.
        await asyncio.sleep(0)
    logins.is_open.set()
    assert {answer.status for answer in await asyncio.gather(*requests)} == {200}


async def test_the_failed_logins_of_an_address_keep_none_out_that_is_logged_in() -> None:
    world = RegistryWorld(SlowLogins())
    statuses = [
        (await world.send("GET", "/subjects", headers={"authorization": "eve"})).status for _ in range(2 * LOGINS_BURST)
    ]
    assert statuses[:LOGINS_BURST] == [401] * LOGINS_BURST
    assert statuses[-1] == 429
    assert (await world.send("GET", "/subjects", headers={"authorization": "alice"})).status == 200


async def test_probes_and_metrics_need_no_login() -> None:
    world = RegistryWorld(OneOf({}))
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await world.send("GET", path)).status == 200
    world.journal.is_writer = False
    assert (await world.send("GET", "/readyz")).status == 503
    assert (await world.send("GET", "/healthz")).status == 200


async def test_a_visitor_does_what_it_is_allowed_with_each_subject() -> None:
    every = {"a-value", "b-value", ":.x:a-value"}
    owner = RegistryWorld()
    for subject in sorted(every):
        await owner.json("POST", f"/subjects/{subject}/versions", INT)
    world = RegistryWorld(OneOf({Operation.READ: {"a-value"}, Operation.WRITE: {"a-value"}}), owner.journal.log)
    await world.journal.wait_until_current()
    assert await status(world, "GET", "/subjects/a-value/versions") == 200
    assert await status(world, "POST", "/subjects/a-value/versions", INT) == 200
    assert await status(world, "DELETE", "/subjects/a-value") == 403
    assert await status(world, "PUT", "/config/a-value", {"compatibility": "NONE"}) == 403
    assert await status(world, "GET", "/subjects/b-value/versions/1") == 403
    assert await status(world, "POST", "/subjects/b-value", INT) == 403
    assert await status(world, "PUT", "/config", {"compatibility": "NONE"}) == 403
    assert await status(world, "PUT", "/config/:.x:", {"compatibility": "NONE"}) == 403
    assert await status(world, "PUT", "/contexts/.x/mode", {"mode": "READONLY"}) == 403
    assert json.loads((await world.send("GET", "/subjects", headers=ALICE)).body) == ["a-value"]
    assert json.loads((await world.send("GET", "/schemas", headers=ALICE)).body)[0]["subject"] == "a-value"
    assert json.loads((await world.send("GET", "/contexts", headers=ALICE)).body) == ["."]
    assert json.loads((await world.send("GET", "/schemas/ids/1/subjects", headers=ALICE)).body) == ["a-value"]


async def test_an_id_is_not_shown_to_one_that_may_read_none_of_its_subjects() -> None:
    owner = RegistryWorld()
    await owner.json("POST", "/subjects/b-value/versions", INT)
    world = RegistryWorld(OneOf({Operation.READ: {"a-value"}, Operation.WRITE: {"a-value"}}), owner.journal.log)
    await world.journal.wait_until_current()
    guid = owner.state.versions("b-value")[0].guid
    for path in ("/schemas/ids/1", "/schemas/ids/1/schema", "/schemas/ids/1/versions", f"/schemas/guids/{guid}"):
        assert await status(world, "GET", path) == 404


async def test_a_schema_cannot_refer_to_one_that_its_sender_may_not_read() -> None:
    world = RegistryWorld(OneOf({Operation.READ: {"a"}, Operation.WRITE: {"a"}}))
    referring = {**INT, "references": [{"name": "n", "subject": "secret", "version": 1}]}
    assert await status(world, "POST", "/subjects/a/versions", referring) == 403
    assert await status(world, "POST", "/compatibility/subjects/a/versions", referring) == 403
    assert await status(world, "POST", "/subjects/a", referring) == 403


async def test_ids_and_aliases_are_shown_of_subjects_that_a_visitor_may_read() -> None:
    owner = RegistryWorld()
    base = {"schema": '{"type":"record","name":"Base","fields":[]}'}
    await owner.json("POST", "/subjects/a/versions", base)
    for subject, text in (("mine", '{"type":"array","items":"Base"}'), ("secret", '{"type":"map","values":"Base"}')):
        body = {"schema": text, "references": [{"name": "Base", "subject": "a", "version": 1}]}
        assert "id" in await owner.json("POST", f"/subjects/{subject}/versions", body)
    for subject in ("mine-alias", "secret-alias"):
        await owner.json("PUT", f"/config/{subject}", {"alias": "a"})
    world = RegistryWorld(OneOf({Operation.READ: {"a", "mine", "mine-alias"}}), owner.journal.log)
    await world.journal.wait_until_current()
    ids = (await world.send("GET", "/subjects/a/versions/1/referencedby", None, ALICE)).body
    assert json.loads(ids) == [2], "3 is the secret one's"
    (schema, _) = json.loads((await world.send("GET", "/schemas?aliases=true", None, ALICE)).body)
    assert schema["aliases"] == ["mine-alias"]


async def test_an_alias_gives_no_right_to_the_other_subject() -> None:
    owner = RegistryWorld()
    await owner.json("POST", "/subjects/secret-value/versions", INT)
    await owner.json("PUT", "/config/mine-value", {"alias": "secret-value"})
    mine = {operation: {"mine-value"} for operation in Operation}
    world = RegistryWorld(OneOf(mine), owner.journal.log)
    await world.journal.wait_until_current()
    assert await status(world, "GET", "/subjects/mine-value/versions") == 403
    assert await status(world, "POST", "/subjects/mine-value/versions", INT) == 403
    assert await status(world, "DELETE", "/subjects/mine-value") == 403
    assert await status(world, "GET", "/schemas/ids/1?subject=mine-value") == 404
    assert json.loads((await world.send("GET", "/schemas?subjectPrefix=mine&aliases=true", None, ALICE)).body) == []
    assert await status(world, "GET", "/config/mine-value") == 200


async def test_an_alias_that_is_another_one_after_reading_on_is_checked_again() -> None:
    writer = RegistryWorld()
    await writer.json("PUT", "/config/mine-value", {"alias": "gone-value"})
    reader = RegistryWorld(OneOf({Operation.READ: {"mine-value", "gone-value"}}), writer.journal.log)
    reader.journal.is_writer = False
    await reader.journal.wait_until_current()
    await writer.json("POST", "/subjects/secret-value/versions", INT)
    await writer.json("PUT", "/config/mine-value", {"alias": "secret-value"})
    assert await status(reader, "GET", "/subjects/mine-value/versions") == 403


async def test_one_that_may_change_all_changes_settings_of_all_and_of_contexts() -> None:
    world = RegistryWorld(OneOf({}, alters_all=True))
    assert await status(world, "PUT", "/config", {"compatibility": "NONE"}) == 200
    assert await status(world, "PUT", "/mode/:.x:", {"mode": "READONLY"}) == 200
    assert await status(world, "PUT", "/mode/a", {"mode": "READONLY"}) == 403


def test_every_route_that_changes_something_has_a_rule() -> None:
    for route in all_routes(""):
        if route.method != "GET" and route.path != "/":
            assert route.rule is not Rule.NOTHING, route.path
        if "{subject}" in route.path or "{scope}" in route.path:
            assert route.rule is not Rule.NOTHING, route.path


async def test_a_request_for_the_writer_without_one_is_an_error_of_its_own() -> None:
    world = RegistryWorld()
    world.journal.is_writer = False
    assert (await world.json("POST", "/subjects/s/versions", INT))["error_code"] == 50004


async def test_a_request_that_was_forwarded_is_not_forwarded_again() -> None:
    world = RegistryWorld()
    world.journal.is_writer, world.journal.writer = False, "http://127.0.0.1:1"
    answer = await world.send("POST", "/subjects/s/versions", INT, {"x-forward": "false"})
    assert json.loads(answer.body)["error_code"] == 50003


async def test_a_registry_that_is_behind_finds_what_another_one_has_just_written() -> None:
    writer = RegistryWorld()
    reader = RegistryWorld(log=writer.journal.log)
    reader.journal.is_writer = False
    await writer.json("POST", "/subjects/s/versions", INT)
    assert reader.state.subjects == {}
    assert (await reader.json("GET", "/schemas/ids/1"))["schema"] == '"int"'
    assert (await reader.send("GET", "/schemas/ids/2")).status == 404


async def test_the_log_has_a_line_for_each_request_and_another_one_for_each_change() -> None:
    world = RegistryWorld(OneOf({Operation.WRITE: {"s"}}))
    await world.send("POST", "/subjects/s/versions", INT, ALICE)
    await world.send("DELETE", "/subjects/s", None, ALICE)
    await world.send("GET", "/subjects", None, ALICE)
    await world.send("GET", "/healthz")
    lines = [(event, fields["method"], fields["status"], fields["principal"]) for _, event, fields in world.lines.lines]
    assert lines == [
        ("registry change", "POST", 200, "alice"),
        ("registry change", "DELETE", 403, "alice"),
        ("registry request", "GET", 200, "alice"),
    ]


async def test_metrics_have_bounded_labels() -> None:
    world = RegistryWorld()
    await world.json("POST", "/subjects/s/versions", INT)
    for number in range(5):
        await world.send("GET", f"/nowhere/{number}")
        await world.send(f"WORD{number}", "/subjects")
    text = (await world.send("GET", "/metrics")).body.decode()
    assert 'sordini_registry_requests_total{method="other",path="other",status="405"} 5.0' in text
    assert "WORD" not in text
    assert 'sordini_registry_requests_total{method="GET",path="other",status="404"} 5.0' in text
    assert "sordini_registry_schemas 1.0" in text
    assert "sordini_registry_is_writer 1.0" in text


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/schemas/ids/" + "0" * 5_000, None),
        ("GET", "/subjects/s/versions/" + "0" * 4_000 + "1", None),
        ("GET", "/subjects/s/versions/00000000001" + "9" * 4_500, None),
        ("GET", "/subjects?limit=" + "9" * 5_000, None),
        ("GET", "/subjects?offset=-1&limit=-5", None),
        ("GET", "/subjects/%ED%A0%80/versions", None),
        ("GET", "/contexts//subjects", None),
        ("GET", "//", None),
        ("GET", "/subjects//versions", None),
        ("POST", "/subjects/s/versions", b"[" * 200_000),
        ("POST", "/subjects/s/versions", b'{"schema":' + b"9" * 5_000 + b"}"),
        ("POST", "/subjects/s/versions", b'{"schema":"\\ud800"}'),
        ("POST", "/subjects/s/versions", b'{"schema":"\\"int\\"","version":true}'),
        ("POST", "/subjects/s/versions", b'{"schema":"\\"int\\"","metadata":{"properties":{"a":"\\ud800"}}}'),
        ("POST", "/subjects/s/versions", b'{"schema":"\\"int\\"","schemaType":["AVRO"]}'),
        ("POST", "/subjects/s/versions", b'{"schema":"' + b"[" * 500_000 + b'"}'),
        ("PUT", "/mode", b'{"mode":["READONLY"]}'),
        ("PUT", "/config", b'{"compatibility":{}}'),
        ("PUT", "/config", b'{"alias":"\\ud800"}'),
        ("POST", "/subjects/s/versions", b"\xff"),
    ],
)
async def test_hostile_requests_are_answered_and_no_mistake_of_ours(method: str, target: str, body: Any) -> None:
    world = RegistryWorld()
    answer = await world.send(method, target, body)
    assert answer.status < 500, answer.body
    assert world.lines.at("error") == []
