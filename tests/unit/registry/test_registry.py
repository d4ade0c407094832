"""A registry: what happens when requests meet, the journal fails, or another registry writes."""

from __future__ import annotations

import asyncio
import json

import pytest

from sordini.registry.ports import NotTheWriter
from sordini.registry.records import INT32_MAX, NoopKey, Record, decode
from sordini.registry.state.deleting import delete_subject
from sordini.registry.state.refusals import Refusal
from sordini.registry.state.registering import Judged, Prepared
from sordini.registry.state.settings import set_config
from sordini.registry.state.submission import Submission
from tests.support.registries import RegistryWorld, append, compacted, replayed_state


class HeldJudge:
    """Implements `Judge`: each text is canonical, and compatible with none but itself; the answers can be held."""

    def __init__(self) -> None:
        self.seconds, self.count = 0.0, 0
        self.released = asyncio.Event()
        self.released.set()
        self.judged: list[tuple[str, list[str]]] = []

    async def judge(self, prepared: Prepared, client: str) -> Judged:
        del client
        earlier = [record.text for record in prepared.earlier]
        self.judged.append((prepared.source.text, earlier))
        await self.released.wait()
        return Judged(prepared.source.text, tuple(text for text in earlier if text != prepared.source.text))

    async def prepare(self) -> None:
        return

    async def close(self) -> None:
        return


class YieldingJudge(HeldJudge):
    """Every text is compatible, and its verdict takes some steps of the loop."""

    async def judge(self, prepared: Prepared, client: str) -> Judged:
        del client
        await settled()
        return Judged(prepared.source.text, ())


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_of_two_that_are_not_compatible_and_arrive_together_one_is_refused() -> None:
    judge = HeldJudge()
    world = RegistryWorld(judge=judge)
    judge.released.clear()
    both = [asyncio.create_task(world.registry.register(Submission("s", text), "me")) for text in ("one", "two")]
    await settled()
    judge.released.set()
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [None, 409]
    assert judge.judged == [("one", []), ("two", []), ("two", ["one"])], "the second is compared with the first"
    assert len(world.journal.log) == 1


async def test_all_versions_that_arrive_together_in_one_subject_are_registered() -> None:
    world = RegistryWorld(judge=YieldingJudge())
    texts = [f"version {number}" for number in range(30)]
    records = await asyncio.gather(*(world.registry.register(Submission("s", text), "me") for text in texts))
    assert sorted(record.version for record in records) == list(range(1, 31))
    assert len({record.id for record in records}) == 30
    assert len(world.registry._contended) == 0


async def test_the_same_schema_from_many_has_one_id_and_one_record() -> None:
    world = RegistryWorld(judge=HeldJudge())
    records = await asyncio.gather(*(world.registry.register(Submission("s", "one"), "me") for _ in range(20)))
    assert {record.id for record in records} == {1}
    assert len(world.journal.log) == 1


async def test_a_text_that_is_registered_already_is_not_parsed_again() -> None:
    judge = HeldJudge()
    world = RegistryWorld(judge=judge)
    await world.registry.register(Submission("s", "one"), "me")
    await world.registry.register(Submission("s", "one"), "me")
    await world.registry.find_schema(Submission("s", "one"), "me", deleted=False)
    assert len(judge.judged) == 1


async def test_a_change_that_cannot_be_written_is_answered_with_the_reason() -> None:
    world = RegistryWorld()
    world.journal.failure = "NOT_ENOUGH_REPLICAS"
    with pytest.raises(Refusal, match="NOT_ENOUGH_REPLICAS") as refused:
        await world.registry.change(lambda state: set_config(state, None, {"compatibility": "NONE"}))
    assert refused.value.code == 50001


async def test_a_registry_that_does_not_write_names_the_one_that_does() -> None:
    world = RegistryWorld()
    world.journal.is_writer, world.journal.writer = False, "http://other:8081"
    with pytest.raises(NotTheWriter, match="http://other:8081"):
        await world.registry.register(Submission("s", '"int"'), "me")


async def test_decisions_are_made_one_after_the_other() -> None:
    """The second is decided on a state that has all records of the first."""
    world = RegistryWorld()
    world.journal.gate = asyncio.Event()
    seen: list[int] = []

    async def change(level: str) -> None:
        def decide(state):  # type: ignore[no-untyped-def]
            seen.append(len(state.configs))
            return set_config(state, level.lower(), {"compatibility": level})

        await world.registry.change(decide)

    both = [asyncio.create_task(change(level)) for level in ("NONE", "FULL")]
    await settled()
    assert seen == [0]
    world.journal.gate.set()
    await asyncio.gather(*both)
    assert seen == [0, 1]


async def test_a_change_whose_caller_is_gone_is_completed() -> None:
    world = RegistryWorld()
    world.journal.gate = asyncio.Event()
    change = asyncio.create_task(
        world.registry.change(lambda state: set_config(state, None, {"compatibility": "NONE"}))
    )
    await settled()
    change.cancel()
    await asyncio.wait([change])
    world.journal.gate.set()
    await world.registry.close()
    assert len(world.journal.log) == 1


async def test_the_noop_of_a_writer_that_takes_over_does_not_remove_the_highest_ids() -> None:
    world = RegistryWorld(judge=HeldJudge())
    await world.registry.register(Submission("s", "one"), "me")
    for permanent in (False, True):
        await world.registry.change(lambda state, p=permanent: delete_subject(state, "s", permanent=p))  # type: ignore[misc]
    append(world.state, Record(NoopKey(), None), world.journal.log)
    await world.journal.wait_until_current()
    kept = compacted(world.journal.log)
    assert [type(decode(*stored).key).__name__ for stored in kept] == ["DeleteSubjectKey", "HighestIdsKey"]
    assert json.loads(kept[1][1] or b"") == {"highestIds": {".": 1}}
    assert replayed_state(kept).next_id(".") == 2


async def test_highest_ids_that_an_earlier_version_noted_in_a_noop_are_noted_again_with_the_next_change() -> None:
    world = RegistryWorld(judge=HeldJudge())
    append(world.state, Record(NoopKey(), {"highestIds": {".": 4}}), world.journal.log)
    append(world.state, Record(NoopKey(), None), world.journal.log)
    await world.journal.wait_until_current()
    assert (await world.registry.register(Submission("t", "two"), "me")).id == 5
    for permanent in (False, True):
        await world.registry.change(lambda state, p=permanent: delete_subject(state, "t", permanent=p))  # type: ignore[misc]
    assert replayed_state(compacted(world.journal.log)).next_id(".") == 6


async def test_a_read_only_registry_refuses_changes_and_does_not_forward_them() -> None:
    world = RegistryWorld(is_read_only=True)
    world.journal.is_writer, world.journal.writer = False, "http://other:8081"
    answer = await world.json("PUT", "/config", {"compatibility": "NONE"})
    assert answer["error_code"] == 42205


@pytest.mark.parametrize("last", [{"id": INT32_MAX, "version": 1}, {"id": 1, "version": INT32_MAX}])
async def test_no_id_and_no_version_is_given_that_a_record_cannot_have(last: dict[str, int]) -> None:
    world = RegistryWorld()
    await world.json("PUT", "/mode/s", {"mode": "IMPORT"})
    assert await world.json("POST", "/subjects/s/versions", {"schema": '"int"', **last}) == {"id": last["id"]}
    await world.json("PUT", "/mode/s", {"mode": "READWRITE"})
    length = len(world.journal.log)
    refused = await world.json("POST", "/subjects/s/versions", {"schema": '"long"'})
    assert refused["error_code"] == 42205
    assert len(world.journal.log) == length
    assert world.state.malformed == 0


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
async def test_a_schema_that_is_registered_is_found_where_nothing_may_be_registered(mode: str) -> None:
    world = RegistryWorld()
    spaced = {"schema": '{ "type": "int" }'}
    assert await world.json("POST", "/subjects/s/versions", spaced) == {"id": 1}
    await world.json("PUT", "/mode?force=true", {"mode": mode})
    length = len(world.journal.log)
    assert await world.json("POST", "/subjects/s/versions", spaced) == {"id": 1}
    assert (await world.json("POST", "/subjects/s/versions", {**spaced, "id": 2}))["error_code"] == 42205
    assert (await world.json("POST", "/subjects/s/versions", {"schema": '"long"'}))["error_code"] == 42205
    assert (await world.json("POST", "/subjects/t/versions", spaced))["error_code"] == 42205
    assert len(world.journal.log) == length


async def test_a_schema_without_its_id_is_found_in_a_subject_that_takes_ids_of_another_registry() -> None:
    world = RegistryWorld()
    await world.json("PUT", "/mode/s", {"mode": "IMPORT"})
    await world.json("POST", "/subjects/s/versions", {"schema": '"int"', "id": 7})
    assert await world.json("POST", "/subjects/s/versions", {"schema": '{"type":"int"}'}) == {"id": 7}
    assert (await world.json("POST", "/subjects/s/versions", {"schema": '"long"'}))["error_code"] == 42205
    assert len(world.state.versions("s")) == 1


@pytest.mark.parametrize(("is_read_only", "code"), [(True, 42205), (False, 50004)])
async def test_a_registry_without_a_writer_finds_what_is_registered(is_read_only: bool, code: int) -> None:
    owner = RegistryWorld()
    await owner.json("POST", "/subjects/s/versions", {"schema": '"int"'})
    world = RegistryWorld(log=owner.journal.log, is_read_only=is_read_only)
    await world.journal.wait_until_current()
    world.journal.is_writer = False
    assert await world.json("POST", "/subjects/s/versions", {"schema": '{"type":"int"}'}) == {"id": 1}
    assert (await world.json("POST", "/subjects/s/versions", {"schema": '"long"'}))["error_code"] == code
