"""Schemas that are parsed in child processes: what comes of them, and of those that take too long or too much."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

import pytest

from sordini.registry.judging.inline import JudgeHere
from sordini.registry.judging.judges import (
    COMPARED_CHARACTERS_MAX,
    KEPT_CHARACTERS_MAX,
    OF_A_CLIENT_MAX,
    WAITING_OF_A_CLIENT_MAX,
    Judge,
    JudgingChildren,
)
from sordini.registry.judging.lines import SCHEMAS_AT_ONCE, digest_of, line_of
from sordini.registry.judging.wire import judged_as_wire, judged_from_wire, task_as_wire, task_from_wire
from sordini.registry.records import ConfigKey, Record, SchemaKey, SchemaRecord
from sordini.registry.schema_rules import judge
from sordini.registry.state.refusals import Refusal
from sordini.registry.state.registering import Judged, prepare
from sordini.registry.state.registry_state import RegistryState
from sordini.registry.state.submission import Submission
from sordini.schemas.registered.types import Reference, SchemaType
from tests.support.registries import RegistryWorld, append

BASE = json.dumps({"type": "record", "name": "Base", "fields": []})
BOTH = json.dumps(
    {"type": "record", "name": "Both", "fields": [{"name": name, "type": "Base"} for name in ("one", "two")]}
)
ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"text": json.loads(line)["schemas"][-1]["text"], "problems": []}), flush=True)
"""
COUNTING = """
import json, os, sys
for line in sys.stdin:
    text = json.loads(line)["schemas"][-1]["text"]
    if text == "die":
        os._exit(3)
    print(json.dumps({"text": str(os.getpid()), "problems": []}), flush=True)
"""


def prepared(text: str):  # type: ignore[no-untyped-def]
    return prepare(RegistryState(), Submission("s", text))


async def test_a_child_judges_as_this_process_does() -> None:
    world = RegistryWorld(judge=JudgingChildren())
    await world.registry.register(Submission("base", BASE), "me")
    both = Submission("both", BOTH, references=(Reference("Base", "base", 1),))
    record = await world.registry.register(both, "me")
    here = judge(task_from_wire(task_as_wire(prepare(world.state, both._replace(subject="other")))))
    assert here.text == record.text
    with pytest.raises(Refusal, match="Invalid schema") as refused:
        await world.registry.register(Submission("s", "{"), "me")
    assert refused.value.code == 42201
    await world.registry.close()


@pytest.mark.parametrize(
    "text", ['syntax = "proto3"; message A { int32 x = 1; }', 'syntax = "proto3"; message A { B x = 1; }']
)
async def test_a_child_compiles_protobuf_as_a_process_of_its_own_does(text: str) -> None:
    judging, here = JudgingChildren(), JudgeHere()
    made = prepare(RegistryState(), Submission("s", text, SchemaType.PROTOBUF))

    async def outcome(judge: Judge) -> str:
        try:
            return (await judge.judge(made, "me")).text
        except Refusal as refusal:
            return refusal.text

    assert await outcome(judging) == await outcome(here)
    await judging.close()


async def test_a_child_is_there_before_the_first_schema() -> None:
    judging = JudgingChildren([sys.executable, "-c", COUNTING])
    await judging.prepare()
    (child_id,) = (child.pid for child in judging._children._idle)
    first = await judging.judge(prepared("one"), "me")
    assert (await judging.judge(prepared("two"), "me")).text == first.text == str(child_id)
    await judging.close()


async def test_a_schema_that_takes_too_long_is_refused_and_its_process_killed() -> None:
    judging = JudgingChildren(patience_s=0.001)
    with pytest.raises(Refusal, match=r"takes more than 0\.001 s"):
        await judging.judge(prepared('"int"'), "me")
    await judging.close()


async def test_a_schema_that_took_too_long_on_a_busy_machine_is_parsed_when_it_is_sent_again() -> None:
    judging = JudgingChildren([sys.executable, "-c", ECHO], patience_s=0.0)
    with pytest.raises(Refusal, match="takes more than"):
        await judging.judge(prepared("one"), "me")
    judging._patience_s = 60.0
    assert (await judging.judge(prepared("one"), "me")).text == "one"
    await judging.close()


async def test_a_schema_waits_a_bounded_time_for_a_process() -> None:
    judging = JudgingChildren([sys.executable, "-c", "import signal; signal.pause()"], wait_s=0.0)
    first = [asyncio.create_task(judging.judge(prepared(text), "me")) for text in ("one", "two")]
    await until(lambda: judging._working["me"] == OF_A_CLIENT_MAX)
    with pytest.raises(Refusal, match=r"has waited 0 s") as refused:
        await judging.judge(prepared("three"), "me")
    assert refused.value.status == 429
    await _cancelled(first)
    assert not judging._waiting
    assert not judging._working
    await judging.close()


async def test_a_client_whose_schemas_wait_leaves_room_for_those_of_others() -> None:
    judging = JudgingChildren([sys.executable, "-c", "import signal; signal.pause()"])
    count = OF_A_CLIENT_MAX + WAITING_OF_A_CLIENT_MAX
    many = [asyncio.create_task(judging.judge(prepared(f"{number}"), "many")) for number in range(count)]
    await until(lambda: judging._waiting["many"] == WAITING_OF_A_CLIENT_MAX)
    with pytest.raises(Refusal, match="of one client"):
        await judging.judge(prepared("one more"), "many")
    other = asyncio.create_task(judging.judge(prepared("other"), "other"))
    await until(lambda: judging._working["other"] == 1)
    await _cancelled([*many, other])
    await judging.close()


async def test_what_is_kept_of_large_schemas_has_a_bound() -> None:
    judging = JudgingChildren([sys.executable, "-c", ECHO])
    large = [str(number) * (KEPT_CHARACTERS_MAX // 3) for number in range(5)]
    for text in large:
        await judging.judge(prepared(text), "me")
    assert judging._kept_characters == sum(len(answer["text"]) for answer in judging._kept.values())
    assert 0 < judging._kept_characters <= KEPT_CHARACTERS_MAX
    count = judging.count
    await judging.judge(prepared(large[-1]), "me")
    assert judging.count == count, "the newest is kept"
    await judging.close()


async def test_a_line_for_a_child_is_the_task_and_its_digest_is_of_all_its_parts() -> None:
    tasks = [task_as_wire(made) for made in (prepared("one"), prepared("two"), prepared("one")._replace(format="a"))]
    assert [json.loads(await line_of(task)) for task in tasks] == tasks
    assert len({await digest_of(task) for task in tasks}) == 3


async def test_versions_with_the_same_references_are_sent_with_one_of_each_and_in_pieces() -> None:
    state, base = RegistryState(), json.dumps({"type": "record", "name": "Base", "doc": "d" * 10_000, "fields": []})
    append(state, Record(ConfigKey(None), {"compatibilityLevel": "FULL_TRANSITIVE"}))
    append(state, Record(SchemaKey("base", 1), SchemaRecord("base", 1, 1, base)))
    for number in range(1, 101):
        text = json.dumps({"type": "array", "items": "Base", "number": number})
        record = SchemaRecord("s", number, number + 1, text, references=(Reference("Base", "base", 1),))
        append(state, Record(SchemaKey("s", number), record))
    task = task_as_wire(prepare(state, Submission("s", '"int"')))
    assert sum(schema["text"] == base for schema in task["schemas"]) == 1
    assert len(task["schemas"]) == 102
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    line = await line_of(task)
    counting.cancel()
    assert json.loads(line) == task
    assert steps >= 102 // SCHEMAS_AT_ONCE
    assert len(line) < 50_000


async def test_a_schema_that_would_be_compared_with_too_much_is_refused_before_it_is_sent() -> None:
    judging = JudgingChildren([sys.executable, "-c", ECHO])
    with pytest.raises(Refusal, match="versions that it is compared with") as refused:
        await judging.judge(prepared("x" * (COMPARED_CHARACTERS_MAX + 1)), "me")
    assert (refused.value.code, judging.count) == (42201, 0)
    await judging.close()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - there is no event for it.
        await asyncio.sleep(0)


async def _cancelled(tasks: list[asyncio.Task[Judged]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_schema_that_ends_its_process_is_refused_and_the_next_one_is_not() -> None:
    judging = JudgingChildren([sys.executable, "-c", COUNTING])
    with pytest.raises(Refusal, match="limits of memory"):
        await judging.judge(prepared("die"), "me")
    assert (await judging.judge(prepared("live"), "me")).text.isdigit()
    await judging.close()


async def test_a_client_has_few_processes_at_once_and_what_came_of_a_schema_is_kept() -> None:
    judging = JudgingChildren([sys.executable, "-c", COUNTING])
    answers = await asyncio.gather(*(judging.judge(prepared(f"schema {number}"), "me") for number in range(8)))
    assert len({answer.text for answer in answers}) <= OF_A_CLIENT_MAX
    count = judging.count
    assert await judging.judge(prepared("schema 0"), "me") == answers[0]
    assert judging.count == count
    await judging.close()


def test_what_is_sent_between_the_processes_is_what_arrives() -> None:
    made = prepared('"int"')
    task = task_from_wire(json.loads(json.dumps(task_as_wire(made))))
    assert (task.source, task.level, task.normalizes, task.format) == (made.source, made.level, False, "")
    judged = Judged("text", ("one", "two"))
    assert judged_from_wire(json.loads(json.dumps(judged_as_wire(judged)))) == judged


def test_a_schema_that_several_refer_to_is_sent_once() -> None:
    source = prepared('"int"').source
    shared = source._replace(text=BASE)
    referring = source._replace(
        text=BOTH,
        references=(Reference("a", "a", 1), Reference("b", "b", 1)),
        resolved={"a": shared, "b": shared},
    )
    wire = task_as_wire(prepared('"int"')._replace(source=referring))
    assert len(wire["schemas"]) == 2
    assert task_from_wire(json.loads(json.dumps(wire))).source == referring
