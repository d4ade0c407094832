"""A coordinator that keeps a number for each key: what `CoordinatorRuntime` does for any `ShardState`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from sordini.broker.coordinators.internal_topic import InternalTopic, InternalTopicSpec
from sordini.broker.coordinators.journal import OnDone
from sordini.broker.coordinators.loading import ReplayRecord
from sordini.broker.coordinators.runtime import CoordinatorRuntime
from sordini.broker.coordinators.shard import Shard, ShardSettings
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import Offset, TopicPartition
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.unit_broker import UnitBroker, a_broker

NUMBERS = "__numbers"


class Numbers:
    """The last number of each key; a key without a number is one with a tombstone."""

    def __init__(self, shard: Shard[Numbers]) -> None:
        self.shard = shard
        self.values: dict[str, int] = {}
        self.events: list[object] = []

    def replay(self, key: bytes, value: bytes) -> str | None:
        if not value.isdigit():
            return "no number"
        self.values[key.decode()] = int(value)
        return None

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        self.events.append(("open", producer_id, key, value))
        return None

    def finish_replay(self) -> Iterator[None]:
        self.events.append("replayed")
        yield

    def on_loaded(self, records: int, took_ms: int) -> None:
        self.events.append(("loaded", records))

    def known_keys(self) -> list[str]:
        return list(self.values)

    def tick(self, key: str, late_ms: int) -> None:
        self.events.append(("tick", key, late_ms))

    def expire(self, key: str) -> None:
        self.put(key, None, lambda _: None)

    def unload(self) -> None:
        self.events.append("unloaded")

    def put(self, key: str, value: int | None, on_done: OnDone) -> None:
        def apply() -> None:
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value

        line = key.encode(), None if value is None else str(value).encode()
        self.shard.journal.append_batches([line], apply, on_done)


@asynccontextmanager
async def a_runtime(disk: ForgetfulDisk | None = None) -> AsyncIterator[tuple[UnitBroker, CoordinatorRuntime[Numbers]]]:
    """A broker that leads the one partition of the topic, while that is loaded."""
    async with a_broker({}, disk) as broker:
        ports = broker.parts.groups._ports
        spec = InternalTopicSpec(NUMBERS, 1, 1, {})
        topic = InternalTopic(
            spec, broker.config, broker.parts.admin.topics, broker.parts.metadata, ports.spawn, broker.log
        )
        runtime = CoordinatorRuntime(topic, ShardSettings(0, 5_000, 1_000, 60_000), ports, Numbers)
        broker.parts.replicas.leadership_listeners.append(runtime)
        await broker.lead(NUMBERS)
        yield broker, runtime


def error_of(runtime: CoordinatorRuntime[Numbers]) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        runtime.loaded_shard("a")
    return refusal.value.code


async def written() -> ForgetfulDisk:
    """The disk of a killed broker: a is 2, b has a tombstone, c is no number."""
    disk = ForgetfulDisk()
    async with a_runtime(disk) as (_, runtime):
        shard, codes = runtime.loaded_shard("a"), list[ErrorCode]()
        for key, value in (("a", 1), ("b", 7), ("b", None), ("a", 2)):
            shard.state.put(key, value, codes.append)
        shard.journal.append([(b"c", b"three")], lambda: None, codes.append)
        assert codes == [ErrorCode.NONE] * 5
        assert shard.state.values == {"a": 2}
    return disk.killed()


async def test_the_last_value_of_each_key_is_replayed_and_what_cannot_be_read_is_skipped() -> None:
    async with a_runtime(await written()) as (broker, runtime):
        assert error_of(runtime) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await broker.settled()
        state = runtime.loaded_shard("a").state
        assert (state.values, state.events) == ({"a": 2}, ["replayed", ("loaded", 2)])
        skipped = [fields for event, fields in broker.log.at("warning") if event == "records skipped"]
        assert skipped == [{"partition": f"{NUMBERS}-0", "count": 1, "first": "no number"}]


async def test_requests_that_wait_for_the_loading_continue_after_it() -> None:
    async with a_runtime(await written()) as (broker, runtime):
        shard, done = runtime.led_shard("a"), list[object]()
        shard.wait_until_loaded(lambda: done.append(shard.state.values["a"]), done.append)
        assert not done
        await broker.settled()
        assert done == [2]


async def test_the_end_of_the_leadership_unloads_the_state_and_fails_what_waits() -> None:
    async with a_runtime(await written()) as (broker, runtime):
        shard, done = runtime.led_shard("a"), list[object]()
        shard.wait_until_loaded(lambda: done.append("loaded"), done.append)
        broker.parts.replicas.stop_replica(TopicPartition(NUMBERS, 0), delete=False)
        await broker.settled()
        assert (shard.state.events, done) == (["unloaded"], [ErrorCode.NOT_COORDINATOR])
        assert error_of(runtime) == ErrorCode.NOT_COORDINATOR


async def test_deadlines_reach_the_state_of_their_key_while_the_partition_is_led() -> None:
    async with a_runtime() as (broker, runtime):
        shard = runtime.loaded_shard("a")
        shard.schedule("a", broker.clock.ms + 10)
        shard.schedule("b", broker.clock.ms + 10)
        shard.unschedule("b")
        broker.clock.ms += 10
        broker.timers.fire()
        assert ("tick", "a", 0) in shard.state.events
        assert not any("b" in event for event in shard.state.events if isinstance(event, tuple))
        shard.schedule("a", broker.clock.ms + 10)
        broker.parts.replicas.resign_all()
        broker.clock.ms += 10
        broker.timers.fire()
        assert shard.state.events[-1] == "unloaded"


async def test_keys_expire_by_their_tombstones() -> None:
    async with a_runtime(await written()) as (broker, runtime):
        await broker.settled()
        broker.timers.fire()
        await broker.settled()
        await asyncio.sleep(0)
        assert runtime.loaded_shard("a").state.values == {}


class Changes(Numbers):
    """Every number of each key, in their order."""

    def begin_replay(self) -> ReplayRecord:
        self.events.append("begun")

        def take(key: bytes, value: bytes | None, batch_offset: Offset) -> str | None:
            if value is not None and not value.isdigit():
                return "no number"
            self.events.append((key, value, batch_offset))
            return None

        return take


async def test_a_coordinator_whose_records_are_changes_is_given_each_of_them_in_its_order() -> None:
    async with a_broker({}, await written()) as broker:
        ports = broker.parts.groups._ports
        topic = InternalTopic(
            InternalTopicSpec(NUMBERS, 1, 1, {}),
            broker.config,
            broker.parts.admin.topics,
            broker.parts.metadata,
            ports.spawn,
            broker.log,
        )
        settings = ShardSettings(0, 5_000, 100, 60_000)  # A slice for each batch.
        runtime = CoordinatorRuntime(topic, settings, ports, Changes, Changes.begin_replay)
        broker.parts.replicas.leadership_listeners.append(runtime)
        await broker.lead(NUMBERS)
        await broker.settled()
        assert runtime.loaded_shard("a").state.events == [
            "begun",
            (b"a", b"1", 0),
            (b"b", b"7", 1),
            (b"b", None, 2),
            (b"a", b"2", 3),
            "replayed",
            ("loaded", 5),
        ]
        skipped = [fields for event, fields in broker.log.at("error") if event == "damaged records skipped"]
        assert skipped == [{"partition": f"{NUMBERS}-0", "count": 1, "first": "no number"}]
