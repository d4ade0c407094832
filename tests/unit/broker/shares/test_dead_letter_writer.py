"""Dead letters on their way into their topic, here and on another broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from sordini.broker.coordinators.ports import Ports
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.dead_letters.dead_letter_appends import ALL_REPLICAS, DeadLetterAppends
from sordini.broker.shares.dead_letters.dead_letter_topics import DeadLetterSettings, DeadLetterTopics
from sordini.broker.shares.dead_letters.dead_letter_writer import (
    PAUSE_MS_MAX,
    PAUSE_MS_MIN,
    DeadLetterPorts,
    DeadLetterWriter,
)
from sordini.broker.shares.dead_letters.original_records import OriginalRecords
from sordini.broker.shares.machine.record_states import DeathReason
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.broker.topics.metadata_cache import PartitionMetadata
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.legacy import entries, read_any
from sordini.protocol.records.produced_records import accept_own_batch
from sordini.protocol.types import NO_TOPIC_ID, LeaderEpoch
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import Unreachable
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, known_broker, topic_id_of

GROUP, TOPIC, DEAD = "workers", "orders", "dlq.orders"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
REJECTED = DeathReason.REJECTED


class Bench:
    """Broker 1 leads the source; the dead-letter topic is led here (`lead`) or by broker 2 (`lead_elsewhere`)."""

    def __init__(self, loop: SimLoop, broker: UnitBroker) -> None:
        self.broker = broker
        self.settings = DeadLetterSettings(DEAD, copies=False, prefix="dlq.", creates_topics=False)
        self.links = FakeLinks(loop, self._reply)
        self.code: ErrorCode | None = ErrorCode.NONE
        self.there: list[Record] = []
        """Dead letters at broker 2."""
        self.log = ListLog()
        self.done: list[DeadLetters] = []
        parts = broker.parts
        ports = Ports(SimClock(loop), loop.call_later, loop.create_task, parts.groups._ports.randomness, self.log)
        self.topics = DeadLetterTopics(
            lambda _group: self.settings, parts.metadata, parts.topic_configs, parts.admin.topics
        )
        self.appends = DeadLetterAppends(ME, parts.replicas, parts.metadata, self.links, ports)
        originals = OriginalRecords(parts.record_jobs)
        self.writer = DeadLetterWriter(DeadLetterPorts(self.topics, originals, self.appends), ports)

    async def _reply(self, sent: Sent) -> ProduceResponse:
        await elapse(0.01)
        request: ProduceRequest = sent.request
        assert (request.acks, request.topic_data[0].name) == (ALL_REPLICAS, DEAD)
        (data,) = request.topic_data[0].partition_data
        if self.code is None:
            raise Unreachable("it is down")
        if not self.code:
            assert data.records is not None
            self.there += read_any(data.records, read_header(data.records))
        row = PartitionProduceResponse(index=data.index, error_code=self.code)
        return ProduceResponse(responses=[TopicProduceResponse(name=DEAD, partition_responses=[row])])

    async def lead(self, configs: Mapping[str, str] = ENABLED, partitions: int = 1) -> None:
        self.broker.parts.topic_configs.set(DEAD, configs)
        await self.broker.lead(DEAD, partitions)

    def lead_elsewhere(self) -> None:
        metadata = self.broker.parts.metadata
        metadata.set_brokers(OTHER, [known_broker(ME), known_broker(OTHER)])
        row = PartitionMetadata(OTHER, LeaderEpoch(0), (OTHER,), (OTHER,), ())
        metadata.set_partition(DEAD, NO_TOPIC_ID, 0, row)
        self.broker.parts.topic_configs.set(DEAD, ENABLED)

    def produce(self, count: int, value: bytes = b"v") -> None:
        partition = self.broker.parts.replicas.partition(TOPIC, 0)
        first = partition.log.log_end_offset
        lines = [Record(number, 5, b"%d" % (first + number), value) for number in range(count)]
        accepted = accept_own_batch(bytearray(build_batch(lines)), partition.settings.rules, 5)
        partition.append(accepted, 5, all_replicas=False)

    def die(self, *letters: DeadLetters, group: str = GROUP) -> SharePartitionKey:
        key = SharePartitionKey(group, topic_id_of(TOPIC), 0)
        partition = self.broker.parts.replicas.partition(TOPIC, 0)
        self.writer.add(key, partition, letters, self.done.extend)
        return key

    def here(self, index: int = 0) -> list[Record]:
        """Dead letters at this broker."""
        partition = self.broker.parts.replicas.partition(DEAD, index)
        piece = partition.read(0, 1 << 24, whole_first=True, committed_only=False)
        if piece is None:
            return []
        data = piece.read()
        piece.release()
        found: list[Record] = []
        for entry in entries(memoryview(data)):
            batch = data[entry.position : entry.position + entry.size]
            found += read_any(batch, read_header(batch))
        return found


def on_a_bench(main: Callable[[Bench], Awaitable[None]]) -> None:
    async def run(loop: SimLoop) -> None:
        async with a_broker() as broker:
            await broker.lead(TOPIC)
            bench = Bench(loop, broker)
            await main(bench)
            bench.appends.close()

    in_virtual_time(run, 1)


def offsets(records: Sequence[Record]) -> list[int]:
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in records]


def test_dead_letters_are_appended_here_in_their_order_and_then_reported() -> None:
    async def main(bench: Bench) -> None:
        await bench.lead()
        bench.die(DeadLetters(4, 6, 1, REJECTED), DeadLetters(0, 1, 1, REJECTED))
        assert bench.done == []
        await elapse(0.01)
        assert offsets(bench.here()) == [0, 4, 5]
        assert sorted(bench.done) == [DeadLetters(0, 1, 1, REJECTED), DeadLetters(4, 6, 1, REJECTED)]
        assert (bench.writer.waiting, bench.writer.totals.written) == (0, 3)

    on_a_bench(main)


def test_the_partition_is_that_of_the_record_modulo_the_number_of_partitions() -> None:
    async def main(bench: Bench) -> None:
        await bench.lead(partitions=3)
        for partition, expected in ((0, 0), (4, 1), (5, 2)):
            target = await bench.topics.target(GROUP, partition)
            assert target is not None
            assert target.partition == (DEAD, expected)

    on_a_bench(main)


def test_copies_have_the_records_key_and_value_and_what_is_deleted_meanwhile_has_none() -> None:
    async def main(bench: Bench) -> None:
        bench.settings = bench.settings._replace(copies=True)
        await bench.lead()
        for _ in range(3):
            bench.produce(2)
        bench.broker.parts.replicas.partition(TOPIC, 0).log.advance_log_start(2)
        bench.die(DeadLetters(1, 6, 1, REJECTED))
        await elapse(0.01)
        assert [(record.key, record.value) for record in bench.here()] == [
            (None, None),
            *((b"%d" % offset, b"v") for offset in range(2, 6)),
        ]
        assert offsets(bench.here()) == [1, 2, 3, 4, 5]

    on_a_bench(main)


def test_records_that_take_long_to_open_are_copied_by_a_child_process_in_as_many_batches_as_they_need() -> None:
    async def main(bench: Bench) -> None:
        bench.settings = bench.settings._replace(copies=True)
        await bench.lead({**ENABLED, "max.message.bytes": "20000"})
        bench.produce(1_000, b"x" * 100)
        bench.die(DeadLetters(0, 1_000, 1, REJECTED))
        await elapse(5)
        found = bench.here()
        assert offsets(found) == list(range(1_000))
        assert {record.value for record in found} == {b"x" * 100}
        assert len(bench.broker.records.jobs) > 1

    on_a_bench(main)


def test_another_broker_that_leads_gets_them_by_produce_and_is_tried_again_after_growing_pauses() -> None:
    async def main(bench: Bench) -> None:
        bench.lead_elsewhere()
        bench.code = None
        bench.die(DeadLetters(0, 2, 1, REJECTED))
        await elapse(0.5)
        bench.die(DeadLetters(7, 8, 1, REJECTED))
        await elapse(100)
        gaps = [after.at - before.at for before, after in zip(bench.links.sent, bench.links.sent[1:], strict=False)]
        assert gaps[0] == pytest.approx(PAUSE_MS_MIN / 1_000, abs=0.1)
        assert gaps[-1] == pytest.approx(PAUSE_MS_MAX / 1_000, abs=0.1)
        assert (bench.done, bench.there, bench.writer.waiting, bench.writer.failing) == ([], [], 3, 1)
        bench.code = ErrorCode.NOT_ENOUGH_REPLICAS
        await elapse(40)
        bench.code = ErrorCode.NONE
        await elapse(40)
        assert offsets(bench.there) == [0, 1, 7]
        assert (bench.writer.waiting, bench.writer.failing) == (0, 0)
        lines = [entry[1] for entry in bench.log.lines if "dead letters" in entry[1]]
        assert lines == ["dead letters not written, retrying"] * 2 + ["dead letters written again"]

    on_a_bench(main)


def test_dead_letters_that_come_while_a_batch_is_written_are_in_the_next_one() -> None:
    async def main(bench: Bench) -> None:
        bench.lead_elsewhere()
        bench.die(DeadLetters(4, 6, 1, REJECTED))
        await elapse(0.005)
        bench.die(DeadLetters(0, 1, 1, REJECTED))
        await elapse(1)
        assert offsets(bench.there) == [4, 5, 0]
        assert (len(bench.done), bench.writer.waiting) == (2, 0)

    on_a_bench(main)


def test_a_compacted_topic_takes_none_without_a_key() -> None:
    async def main(bench: Bench) -> None:
        await bench.lead({**ENABLED, "cleanup.policy": "compact"})
        bench.die(DeadLetters(0, 1, 1, REJECTED))
        await elapse(1)
        assert (bench.here(), bench.writer.failing) == ([], 1)

    on_a_bench(main)


def test_a_missing_topic_is_created_where_that_is_allowed() -> None:
    async def main(bench: Bench) -> None:
        bench.settings = bench.settings._replace(creates_topics=True)
        bench.die(DeadLetters(0, 1, 1, REJECTED))
        await elapse(0.1)
        overrides = await read_config(bench.broker.session, f"topics/{DEAD}")
        assert overrides == {**ENABLED, "message.timestamp.type": "CreateTime"}
        await bench.lead()
        await elapse(40)
        assert offsets(bench.here()) == [0]

    on_a_bench(main)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prefix": "dead-"}, "does not begin with dead-"),
        ({"topic": "dlq.other"}, "there is no topic dlq.other"),
        ({}, "does not have errors.deadletterqueue.group.enable=true"),
    ],
)
def test_what_is_wrong_with_the_topic_is_logged_once_and_the_dead_letters_wait(
    change: Mapping[str, str], reason: str
) -> None:
    async def main(bench: Bench) -> None:
        await bench.lead({})
        right, bench.settings = bench.settings, bench.settings._replace(**change)
        bench.die(DeadLetters(0, 2, 1, REJECTED))
        await elapse(100)
        (line,) = [entry for entry in bench.log.lines if entry[1].startswith("dead letters")]
        assert reason in line[2]["reason"]
        assert (bench.done, bench.here()) == ([], [])
        bench.settings = right
        bench.broker.parts.topic_configs.set(DEAD, ENABLED)
        await elapse(40)
        assert offsets(bench.here()) == [0, 1]

    on_a_bench(main)


def test_a_group_that_has_no_dead_letters_any_more_has_its_records_archived_without() -> None:
    async def main(bench: Bench) -> None:
        bench.settings = bench.settings._replace(topic="dlq.missing")
        bench.die(DeadLetters(0, 2, 1, REJECTED))
        await elapse(1.5)
        bench.settings = bench.settings._replace(topic=None)
        await elapse(5)
        assert bench.done == [DeadLetters(0, 2, 1, REJECTED)]
        assert bench.writer.totals.written == 0

    on_a_bench(main)


def test_what_was_dropped_is_neither_written_again_nor_reported() -> None:
    async def main(bench: Bench) -> None:
        bench.lead_elsewhere()
        bench.code = None
        key = bench.die(DeadLetters(0, 2, 1, REJECTED))
        await elapse(1.5)
        bench.writer.drop(key)
        bench.code = ErrorCode.NONE
        await elapse(60)
        assert (bench.done, bench.there, bench.writer.waiting) == ([], [], 0)
        bench.die(DeadLetters(0, 2, 1, REJECTED))
        await elapse(0.005)
        bench.writer.drop(key)
        await elapse(1)
        assert (bench.done, offsets(bench.there)) == ([], [0, 1]), "the request was under way"

    on_a_bench(main)


def test_what_is_dropped_before_its_batch_begins_ends_nothing_else() -> None:
    async def main(bench: Bench) -> None:
        await bench.lead()
        bench.writer.drop(bench.die(DeadLetters(0, 2, 1, REJECTED)))
        await elapse(1)
        assert (bench.done, bench.here(), bench.writer.totals.failures) == ([], [], 0)
        bench.die(DeadLetters(2, 3, 1, REJECTED))
        await elapse(1)
        assert (offsets(bench.here()), bench.writer.waiting) == ([2], 0)

    on_a_bench(main)


def test_groups_have_their_turns_batch_by_batch() -> None:
    async def main(bench: Bench) -> None:
        await bench.lead()
        for number in range(12):
            bench.die(DeadLetters(0, 501, 1, REJECTED), group=f"group-{number}")
        await elapse(10)
        groups = [dict(record.headers)["__dlq.errors.group"] for record in bench.here()]
        assert len(groups) == 12 * 501
        assert len(set(groups[: 500 * 12])) == 12

    on_a_bench(main)
