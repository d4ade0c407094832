"""A broker is killed between the steps of a dead letter; the next one on its files continues. Nothing here is a fake.

What a process has appended outlives kill -9: it is in the page cache.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sordini.broker.configuration.group_config import group_entity
from sordini.broker.share_state.ports import ReadState, SharePartitionKey
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.share_state.state_apis import INITIALIZE, READ, InitialState
from sordini.broker.shares.led_share_partition import LedSharePartition
from sordini.broker.shares.machine.acknowledgement import Acknowledgement
from sordini.broker.shares.machine.acquisition import AcquisitionRequest, Extent
from sordini.broker.shares.machine.record_states import AckType, RecordState
from sordini.broker.shares.machine.sessions import Target
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import read_header
from sordini.protocol.records.legacy import entries, read_any
from sordini.protocol.served_apis import APIS
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, some_records
from tests.support.share_world import append
from tests.support.unit_broker import UnitBroker, a_broker, topic_id_of

TOPIC, DEAD, GROUP = "orders", "dlq.orders", "workers"
KEY = SharePartitionKey(GROUP, topic_id_of(TOPIC), 0)
SETTINGS = {
    "errors.deadletterqueue.topic.name": DEAD,
    "errors.deadletterqueue.copy.record.enable": "true",
    "share.auto.offset.reset": "earliest",
}


class Life:
    """A broker from its start to its kill."""

    def __init__(self, broker: UnitBroker, epoch: int) -> None:
        self.broker = broker
        self.epoch = epoch

    async def begin(self) -> None:
        epoch = self.epoch
        await self.broker.lead(TOPIC, epoch=epoch)
        await self.broker.lead(SHARE_STATE_TOPIC, epoch=epoch)
        await self.broker.settled()
        self.broker.parts.group_configs.changed(group_entity(GROUP), SETTINGS)

    async def lead_dead_letters(self, epoch: int = 0) -> None:
        self.broker.parts.topic_configs.set(DEAD, {"errors.deadletterqueue.group.enable": "true"})
        await self.broker.lead(DEAD, epoch=epoch)

    def initialize(self) -> None:
        topic = INITIALIZE.topic(topic_id=KEY.topic_id, partitions=[INITIALIZE.row(0, InitialState(1, None))])
        request = INITIALIZE.request(group_id=GROUP, topics=[topic])
        self.broker.ask(INITIALIZE.key, APIS[INITIALIZE.key].max_version, request)

    def stored(self) -> ReadState:
        topic = READ.topic(topic_id=KEY.topic_id, partitions=[READ.row(0, self.epoch)])
        request = READ.request(group_id=GROUP, topics=[topic])
        response = self.broker.ask(READ.key, APIS[READ.key].max_version, request)
        found = READ.answer_of(response.results[0].partitions[0])
        assert isinstance(found, ReadState)
        return found

    async def open(self) -> LedSharePartition:
        """As the first fetch of the group does."""
        opened = self.broker.parts.led_shares.partitions.open(GROUP, Target(KEY.topic_id, 0))
        await self.broker.settled()
        return opened

    async def reject(self, first: int, end: int) -> None:
        opened = await self.open()
        opened.acquire(AcquisitionRequest("a", 500, 500, is_by_records=False), [Extent(0, 3)], [])
        codes: list[ErrorCode] = []
        opened.acknowledge("a", [Acknowledgement(first, end, (AckType.REJECT,))], codes.append)
        await self.broker.settled()
        assert codes == [ErrorCode.NONE]

    def dead_letters(self) -> list[tuple[int, bytes | None]]:
        """Offset and copied value of each."""
        partition = self.broker.parts.replicas.partition(DEAD, 0)
        piece = partition.read(0, 1 << 20, whole_first=True, committed_only=False)
        if piece is None:
            return []
        data = memoryview(piece.read())
        piece.release()
        batches = [data[entry.position : entry.position + entry.size] for entry in entries(data)]
        found = [record for batch in batches for record in read_any(batch, read_header(batch))]
        return [(int(dict(record.headers)["__dlq.errors.offset"] or b""), record.value) for record in found]


@asynccontextmanager
async def a_life(disk: ForgetfulDisk, epoch: int) -> AsyncIterator[Life]:
    async with a_broker({"share.coordinator.state.topic.num.partitions": "1"}, disk) as broker:
        life = Life(broker, epoch)
        await life.begin()
        yield life
        for task in list(broker.tasks):
            task.cancel()
        broker.tasks.clear()


async def a_rejection_without_a_topic(life: Life) -> None:
    append(life.broker, TOPIC, a_batch(some_records(3)))
    life.initialize()
    await life.reject(0, 2)
    (run,) = life.stored().runs
    assert (run.first, run.end, run.state) == (0, 2, RecordState.ARCHIVING)
    assert any(event == "dead letters not written, retrying" for _, event, _ in life.broker.log.lines)


async def test_a_broker_killed_before_the_dead_letter_is_written_leaves_it_to_the_next() -> None:
    disk = ForgetfulDisk()
    async with a_life(disk, 0) as first:
        await a_rejection_without_a_topic(first)
    async with a_life(disk.killed(), 1) as second:
        await second.lead_dead_letters()
        opened = await second.open()
        assert second.dead_letters() == [(0, b"value-0"), (1, b"value-1")]
        assert opened.machine.start == 2
        assert [(run.first, run.end, run.state) for run in second.stored().runs] == [(0, 2, RecordState.ARCHIVED)]


async def test_a_broker_killed_before_it_is_stored_as_archived_writes_it_once_more_and_no_third_time() -> None:
    disk = ForgetfulDisk()
    async with a_life(disk, 0) as first:
        await a_rejection_without_a_topic(first)
        await first.broker.follow(SHARE_STATE_TOPIC, epoch=1)
        await first.lead_dead_letters()
        first.broker.clock.ms += 60_000
        for _ in range(5):  # An overdue timer lets sockets be read first.
            first.broker.timers.fire()
            for _ in range(50):
                await first.broker.run_round()
        assert [offset for offset, _ in first.dead_letters()] == [0, 1]
    disk = disk.killed()
    async with a_life(disk, 2) as second:
        await second.lead_dead_letters(epoch=1)
        opened = await second.open()
        assert [offset for offset, _ in second.dead_letters()] == [0, 1, 0, 1]
        assert opened.machine.start == 2
    async with a_life(disk.killed(), 3) as third:
        await third.lead_dead_letters(epoch=2)
        opened = await third.open()
        assert len(third.dead_letters()) == 4
        assert opened.machine.start == 2
