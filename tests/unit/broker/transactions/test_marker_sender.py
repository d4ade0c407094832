"""The markers of decided transactions, sent to other brokers until every partition has its marker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.broker.transactions.local_markers import LocalMarkers
from sordini.broker.transactions.machine.events import ProducerIdentity, SendMarkers
from sordini.broker.transactions.marker_sender import MarkerSender
from sordini.broker.transactions.markers import MarkerLog
from sordini.broker.transactions.remote_markers import RemoteMarkers
from sordini.broker.transactions.transaction_end import RETRY_MS_MAX, TransactionEnd
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.ports import Unreachable
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time
from tests.support.fake_ports import ListLog
from tests.support.parts import examples
from tests.support.unit_broker import CLUSTER_ID, ME, a_broker

SECOND, THIRD = BrokerId(2), BrokerId(3)
ORDERS = [TopicPartition("orders", index) for index in range(4)]
VERSION = 1
Code = Callable[[BrokerId, TopicPartition], int]


class Bench:
    """Broker 1 sends; the leaders 2 and 3 answer by `code`, after ten milliseconds."""

    def __init__(self, loop: SimLoop, sender_of: Callable[[Bench], MarkerSender]) -> None:
        self.loop = loop
        self.links = FakeLinks(loop, self._reply)
        self.metadata = MetadataCache(CLUSTER_ID)
        self.metadata.set_brokers(SECOND, [BrokerMetadata(one, {}, None) for one in (ME, SECOND, THIRD)])
        self.code: Code = lambda _broker, _partition: ErrorCode.NONE
        self.log = ListLog()
        self.marked: Counter[tuple[TopicPartition, bool]] = Counter()
        self.done: list[str] = []
        self.epoch = 5
        self.exists = True
        self.sender = sender_of(self)

    def lead(self, leader: BrokerId, *partitions: TopicPartition) -> None:
        for topic, index in partitions:
            row = PartitionMetadata(leader, LeaderEpoch(0), (leader,), (leader,), ())
            self.metadata.set_partition(topic, NO_TOPIC_ID, index, row)

    def end(self, name: str, *partitions: TopicPartition, producer_id: int = 7, commits: bool = True) -> TransactionEnd:
        markers = SendMarkers(ProducerIdentity(producer_id, 2), commits, frozenset(partitions))
        end = TransactionEnd(name, markers, lambda: self.epoch, lambda: self.done.append(name))
        self.sender.send(end)
        return end

    async def count(self, _topic: str) -> int:
        if not self.exists:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")
        return len(ORDERS)

    def requests(self) -> list[tuple[BrokerId, WriteTxnMarkersRequest]]:
        return [(sent.broker_id, sent.request) for sent in self.links.sent]

    async def _reply(self, sent: Sent) -> WriteTxnMarkersResponse:
        await elapse(0.01)
        assert sent.version == VERSION
        response = WriteTxnMarkersResponse()
        for marker in sent.request.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                rows = WritableTxnMarkerTopicResult(name=topic.name)
                result.topics.append(rows)
                for index in topic.partition_indexes:
                    partition = TopicPartition(topic.name, index)
                    code = self.code(sent.broker_id, partition)
                    if not code:
                        self.marked[partition, marker.transaction_result] += 1
                    rows.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        return response


def on_a_bench(main: Callable[[Bench], Awaitable[None]], seed: int = 1) -> None:
    async def run(loop: SimLoop) -> None:
        async with a_broker() as broker:  # Its replica set leads nothing here.

            def sender_of(bench: Bench) -> MarkerSender:
                ports = Ports(
                    SimClock(loop), loop.call_later, loop.create_task, broker.parts.groups._ports.randomness, bench.log
                )
                groups: GroupCoordinator = broker.parts.groups
                local = LocalMarkers(broker.parts.replicas, MarkerLog(groups), ports)
                remote = RemoteMarkers(ME, bench.links, VERSION, 30_000, ports)
                return MarkerSender(bench.metadata, local, remote, bench.count, ports)

            bench = Bench(loop, sender_of)
            await main(bench)
            bench.sender.close()

    in_virtual_time(run, seed)


def test_markers_travel_to_each_leader_in_one_request_with_the_epoch_of_the_coordinator() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS[:2])
        bench.lead(THIRD, *ORDERS[2:])
        bench.end("t", *ORDERS)
        await elapse(0.05)
        assert bench.done == ["t"]
        assert {broker for broker, _ in bench.requests()} == {SECOND, THIRD}
        for _, request in bench.requests():
            [marker] = request.markers
            assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 2, True)
            assert marker.coordinator_epoch == bench.epoch
        assert bench.marked == Counter({(partition, True): 1 for partition in ORDERS})

    on_a_bench(main)


def test_markers_that_come_while_a_request_is_in_flight_share_the_next_one() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        bench.end("a", ORDERS[0], producer_id=1)
        await elapse(0.001)
        for number, partition in enumerate(ORDERS[1:], 2):
            bench.end(f"t{number}", partition, producer_id=number, commits=False)
        await elapse(0.05)
        assert [len(request.markers) for _, request in bench.requests()] == [1, 3]
        assert sorted(bench.done) == ["a", "t2", "t3", "t4"]

    on_a_bench(main)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_refused_marker_is_sent_again_to_the_leader_of_that_time(code: ErrorCode) -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        bench.code = lambda broker, partition: code if broker == SECOND and partition == ORDERS[0] else 0
        bench.end("t", *ORDERS)
        await elapse(0.05)
        assert bench.done == []
        bench.lead(THIRD, ORDERS[0])
        await elapse(1)
        assert bench.done == ["t"]
        assert bench.marked == Counter({(partition, True): 1 for partition in ORDERS})

    on_a_bench(main)


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_partition_in_which_nothing_can_be_open_needs_no_marker(code: ErrorCode) -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        bench.code = lambda _broker, _partition: code
        bench.end("t", *ORDERS)
        await elapse(0.05)
        assert bench.done == ["t"]

    on_a_bench(main)


def test_a_coordinator_that_is_fenced_stops_and_says_so_once() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        bench.code = lambda _broker, _partition: ErrorCode.TRANSACTION_COORDINATOR_FENCED
        bench.end("t", *ORDERS)
        await elapse(60)
        assert bench.done == []
        assert len(bench.requests()) == 1
        [(event, _)] = bench.log.at("warning")
        assert event == "markers refused"

    on_a_bench(main)


def test_a_coordinator_that_resigns_sends_nothing_more() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(BrokerId(-1), ORDERS[0])
        bench.lead(SECOND, ORDERS[1])
        end = bench.end("t", *ORDERS[:2])
        end.is_cancelled = True
        bench.lead(SECOND, ORDERS[0])
        await elapse(60)
        assert bench.requests() == []
        assert bench.done == []

    on_a_bench(main)


def test_an_unreachable_leader_is_one_line_at_the_begin_and_one_at_the_end() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        answers = bench.links.answer

        async def away(_sent: Sent) -> WriteTxnMarkersResponse:
            raise Unreachable("connection refused")

        bench.links.answer = away
        bench.end("t", *ORDERS)
        await elapse(30)
        assert [event for event, _ in bench.log.at("warning")] == ["markers not sent, retrying"]
        assert 10 < len(bench.requests()) < 40, "the pauses grow up to their bound"
        bench.links.answer = answers
        await elapse(RETRY_MS_MAX / 1000 + 0.1)
        assert bench.done == ["t"]
        assert [event for event, _ in bench.log.at("info")] == ["markers sent again"]

    on_a_bench(main)


def test_a_deleted_topic_is_dropped_when_the_store_confirms_that() -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, ORDERS[0])
        bench.end("t", *ORDERS[:2])
        await elapse(1)
        assert bench.done == [], "the store still has the partition"
        bench.exists = False
        await elapse(RETRY_MS_MAX / 1000)
        assert bench.done == ["t"]

    on_a_bench(main)


CODES = st.sampled_from(
    [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, None]
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([SECOND, THIRD, BrokerId(-1)]), CODES), max_size=12), st.booleans())
def test_whatever_leaders_answer_every_partition_gets_the_marker_of_the_decision_and_no_other(
    weather: list[tuple[BrokerId, ErrorCode | None]], commits: bool
) -> None:
    async def main(bench: Bench) -> None:
        bench.lead(SECOND, *ORDERS)
        now: list[ErrorCode | None] = [ErrorCode.NONE]

        def code(_broker: BrokerId, _partition: TopicPartition) -> int:
            if now[0] is None:
                raise Unreachable("the connection was closed")
            return now[0]

        bench.code = code
        if weather:
            now[0] = weather[0][1]
        bench.end("t", *ORDERS, commits=commits)
        for number, (leader, answer) in enumerate(weather):
            bench.lead(leader, ORDERS[number % len(ORDERS)])
            now[0] = answer
            await elapse(0.15)
        now[0] = ErrorCode.NONE
        bench.lead(THIRD, *ORDERS)
        await elapse(2 * RETRY_MS_MAX / 1000)
        assert bench.done == ["t"]
        assert {partition for partition, _ in bench.marked} == set(ORDERS)
        assert {outcome for _, outcome in bench.marked} == {commits}

    on_a_bench(main)


def test_the_answer_of_a_leader_counts_once() -> None:
    done: list[str] = []
    markers = SendMarkers(ProducerIdentity(1, 0), True, frozenset(ORDERS[:1]))
    end = TransactionEnd("t", markers, lambda: 0, lambda: done.append("t"))
    end.done(ORDERS[:1])
    end.done(ORDERS[:1])
    assert done == ["t"]


def test_a_marker_has_the_transaction_version_of_its_producer() -> None:
    for version in (0, 2):
        markers = SendMarkers(ProducerIdentity(1, 3), True, frozenset(ORDERS[:1]), version)
        marker = TransactionEnd("t", markers, lambda: 5, lambda: None).marker(ORDERS[:1])
        assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version) == (3, 5, version)
