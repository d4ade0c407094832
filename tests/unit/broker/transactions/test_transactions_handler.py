"""Transactional producers over the wire: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and the markers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.topics.metadata_cache import PartitionMetadata
from sordini.broker.transactions.marker_sender import PARTITIONS_AT_ONCE
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.list_transactions import ListTransactionsRequest
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.partition import Partition
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, answer_of, read_answer, topic_id_of

ID = "mine"
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "inter.broker.protocol.version": "2.8",
}
"""Producer ids come from the store of the test."""
NONE = ErrorCode.NONE


class Producer:
    """A producer of one transactional id."""

    def __init__(self, broker: UnitBroker, transactional_id: str = ID) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1

    async def init(self, *, version: int = 4, timeout_ms: int = 60_000, keeps: bool = False) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if keeps else -1,
            producer_epoch=self.epoch if keeps else -1,
        )
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, version, request)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def add(self, *, version: int = 3, verify: bool = False, **topics: list[int]) -> list[tuple[str, int, int]]:
        rows = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=rows,
            )
            answered = (await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify,
                topics=rows,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
            assert answer.error_code == NONE
            [result] = answer.results_by_transaction
            assert result.transactional_id == self.transactional_id
            answered = result.topic_results
        return [
            (topic.name, row.partition_index, row.partition_error_code)
            for topic in answered
            for row in topic.results_by_partition
        ]

    async def end(self, *, commits: bool = True, version: int = 3) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        return ErrorCode((await self.ask(ApiKey.END_TXN, version, request)).error_code)

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer, at once or when all that was started for it is done."""
        served = self.broker.serve(key, version, request)
        if isinstance(served, DelayedResponse):
            await self.broker.settled()
            return answer_of(served, key, version)
        assert served is not None
        return read_answer(key, version, served)

    def append(self, topic: str = "orders", index: int = 0) -> Partition:
        """Append records of the transaction, as Produce does."""
        partition = self.broker.parts.replicas.partition(topic, index)
        batch = an_idempotent_batch(3, producer_id=self.producer_id, producer_epoch=self.epoch, transactional=True)
        partition.append(checked(batch), 0, all_replicas=False)
        return partition


@asynccontextmanager
async def a_coordinator(
    entries: Mapping[str, str] | None = None, disk: ForgetfulDisk | None = None
) -> AsyncIterator[UnitBroker]:
    """A broker that leads the one partition of __transaction_state, and two of a topic."""
    async with a_broker({**SETTINGS, **(entries or {})}, disk) as broker:
        await broker.lead("orders", 2)
        await broker.lead(TRANSACTIONS_TOPIC)
        await broker.settled()
        yield broker


async def described(broker: UnitBroker, transactional_id: str = ID) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    [row] = broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
    return row


def pass_time(broker: UnitBroker, duration_ms: int) -> None:
    """An overdue timer first lets the loop read its sockets, and then does what is due."""
    broker.clock.ms += duration_ms
    broker.timers.fire()
    broker.timers.fire()


def rows_of(row: Any) -> list[tuple[str, list[int]]]:
    return [(topic.topic, topic.partitions) for topic in row.topics]


async def state_of(broker: UnitBroker) -> str:
    return str((await described(broker)).transaction_state)


async def ready(broker: UnitBroker, transactional_id: str = ID) -> Producer:
    producer = Producer(broker, transactional_id)
    assert await producer.init() is NONE
    return producer


def aborted_ends(partition: Partition) -> list[int]:
    return [one.last_offset for one in partition.log.aborted_transactions(0, partition.log.log_end_offset)]


@pytest.mark.parametrize("commits", [True, False])
async def test_the_end_of_a_transaction_reaches_each_partition_and_completes_it(commits: bool) -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        assert (producer.producer_id, producer.epoch) == (0, 0)
        assert await producer.add(orders=[0, 1]) == [("orders", 0, NONE), ("orders", 1, NONE)]
        partitions = [producer.append(index=index) for index in range(2)]
        assert await state_of(broker) == "Ongoing"
        assert [one.readable_end(committed_only=True) for one in partitions] == [0, 0]
        assert await producer.end(commits=commits) is NONE
        assert [one.readable_end(committed_only=True) for one in partitions] == [4, 4]
        assert [aborted_ends(one) for one in partitions] == [[] if commits else [3]] * 2
        assert await state_of(broker) == ("CompleteCommit" if commits else "CompleteAbort")


async def test_partitions_are_added_all_or_none() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        assert await producer.add(orders=[0, 9], bills=[0]) == [
            ("orders", 0, ErrorCode.OPERATION_NOT_ATTEMPTED),
            ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bills", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert await state_of(broker) == "Empty"
        assert rows_of(await described(broker)) == []


async def test_a_client_may_not_add_internal_topics_by_itself() -> None:
    async with a_coordinator() as broker:
        await broker.lead(OFFSETS_TOPIC)
        producer = await ready(broker)
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await producer.add(**{OFFSETS_TOPIC: [0]}) == [(OFFSETS_TOPIC, 0, refused)]
        assert await producer.add(version=4, **{OFFSETS_TOPIC: [0]}) == [(OFFSETS_TOPIC, 0, NONE)]


@pytest.mark.parametrize(
    ("init", "add", "end", "code"),
    [(3, 1, 1, ErrorCode.INVALID_PRODUCER_EPOCH), (4, 2, 2, ErrorCode.PRODUCER_FENCED)],
)
async def test_a_fenced_producer_is_answered_by_the_code_that_its_version_knows(
    init: int, add: int, end: int, code: ErrorCode
) -> None:
    async with a_coordinator() as broker:
        await broker.lead(OFFSETS_TOPIC)
        old = await ready(broker)
        await ready(broker)
        assert await old.add(version=add, orders=[0]) == [("orders", 0, code)]
        assert await old.end(version=end) is code
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=old.producer_id, producer_epoch=old.epoch, group_id="g"
        )
        assert (await old.ask(ApiKey.ADD_OFFSETS_TO_TXN, add, request)).error_code == code
        old.epoch = 99
        assert await old.init(version=init, keeps=True) is code


async def test_a_new_producer_aborts_the_transaction_of_the_former_one() -> None:
    async with a_coordinator() as broker:
        old = await ready(broker)
        await old.add(orders=[0])
        partition = old.append()
        new = Producer(broker)
        assert await new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert aborted_ends(partition) == [3]
        assert await new.init() is NONE
        assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 2)
        assert await old.end() is ErrorCode.PRODUCER_FENCED


async def test_a_transaction_that_takes_too_long_is_aborted_at_its_deadline() -> None:
    async with a_coordinator() as broker:
        producer = Producer(broker)
        await producer.init(timeout_ms=10_000)
        await producer.add(orders=[0])
        partition = producer.append()
        pass_time(broker, 9_000)
        assert await state_of(broker) == "Ongoing"
        pass_time(broker, 1_000)
        assert await state_of(broker) == "CompleteAbort"
        assert aborted_ends(partition) == [3]
        assert await producer.end() is ErrorCode.PRODUCER_FENCED
        [(_, fields)] = [line for line in broker.log.at("info") if line[0] == "transaction timed out"]
        assert (fields["transactional_id"], fields["timeout_ms"]) == (ID, 10_000)


async def test_offsets_of_a_group_are_part_of_the_transaction_once_its_partition_is() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, group_id="g")
        refused = broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await broker.lead(OFFSETS_TOPIC)
        await broker.settled()
        assert broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request).error_code == NONE
        assert rows_of(await described(broker)) == [(OFFSETS_TOPIC, [0])]
        assert await producer.end() is NONE
        assert broker.parts.replicas.partition(OFFSETS_TOPIC, 0).log.log_end_offset == 1


@pytest.mark.parametrize(("version", "code"), [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)])
async def test_a_leader_verifies_that_a_partition_is_in_the_transaction(version: int, code: ErrorCode) -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        await producer.add(orders=[0])
        assert await producer.add(version=version, verify=True, orders=[0, 1]) == [
            ("orders", 0, NONE),
            ("orders", 1, code),
        ]
        assert rows_of(await described(broker)) == [("orders", [0])], "a verification adds nothing"


async def test_only_brokers_send_several_transactions() -> None:
    async with a_coordinator(
        {
            "listeners": "PLAINTEXT://:9092,CLIENTS://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
        }
    ) as broker:
        broker.peer = a_peer("CLIENTS")
        answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, AddPartitionsToTxnRequest())
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_several_transactions_of_one_request_are_answered_each() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        rows = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        mine = AddPartitionsToTxnTransaction(transactional_id=ID, producer_id=0, producer_epoch=0, topics=rows)
        other = AddPartitionsToTxnTransaction(transactional_id="", producer_id=0, producer_epoch=0, topics=rows)
        request = AddPartitionsToTxnRequest(transactions=[mine, other])
        results = (await producer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, request)).results_by_transaction
        codes = [result.topic_results[0].results_by_partition[0].partition_error_code for result in results]
        assert codes == [NONE, ErrorCode.INVALID_REQUEST]
        assert (await producer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, AddPartitionsToTxnRequest())).error_code == NONE


async def test_requests_to_a_broker_that_does_not_coordinate_the_id_are_sent_on() -> None:
    async with a_broker(SETTINGS) as broker:
        await broker.lead("orders")
        producer = Producer(broker)
        assert await producer.init() is ErrorCode.NOT_COORDINATOR
        assert await producer.add(orders=[0]) == [("orders", 0, ErrorCode.NOT_COORDINATOR)]
        assert await producer.end() is ErrorCode.NOT_COORDINATOR
        assert (await described(broker)).error_code == ErrorCode.NOT_COORDINATOR
        for partition in range(1):
            assert await producer.add(version=4, verify=True, orders=[partition]) == [
                ("orders", partition, ErrorCode.NOT_COORDINATOR)
            ]


async def test_two_phase_commit_is_refused() -> None:
    async with a_coordinator() as broker:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1, enable_2pc=True)
        assert broker.ask(ApiKey.INIT_PRODUCER_ID, 6, request).error_code == ErrorCode.INVALID_REQUEST


# The next coordinator.


async def test_the_next_coordinator_continues_where_the_last_one_stopped() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(None, disk) as broker:
        producer = await ready(broker)
        await producer.add(orders=[0])
        producer.append()
        await producer.end()
        await producer.add(orders=[1])
        producer.append(index=1)
    async with a_coordinator(None, disk.killed()) as broker:
        row = await described(broker)
        assert (row.transaction_state, row.producer_id, row.producer_epoch) == ("Ongoing", 0, 0)
        assert rows_of(row) == [("orders", [1])]
        producer.broker = broker
        assert await producer.end() is NONE
        assert broker.parts.replicas.partition("orders", 1).readable_end(committed_only=True) == 4


async def test_the_next_coordinator_writes_the_markers_of_a_decided_transaction() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(None, disk) as broker:
        producer = await ready(broker)
        await producer.add(orders=[0])
        producer.append()
        broker.parts.replicas.partition("orders", 0).resign()
        without_leader(broker, "orders", 0)
        assert await producer.end() is NONE
        assert await state_of(broker) == "PrepareCommit"
    async with a_coordinator(None, disk.killed()) as broker:
        assert await state_of(broker) == "CompleteCommit"
        assert broker.parts.replicas.partition("orders", 0).readable_end(committed_only=True) == 4


async def test_the_response_to_an_end_leaves_before_the_markers_are_written() -> None:
    async with a_coordinator() as broker:
        later: list[Callable[[], object]] = []
        broker.parts.transactions.send_markers_by(later.append)
        producer = await ready(broker)
        await producer.add(orders=[0])
        partition = producer.append()
        assert await producer.end() is NONE
        assert partition.readable_end(committed_only=True) == 0
        assert await state_of(broker) == "PrepareCommit"
        assert rows_of(await described(broker)) == [("orders", [0])]
        [send_markers] = later
        send_markers()
        assert partition.readable_end(committed_only=True) == 4
        assert await state_of(broker) == "CompleteCommit"


async def test_a_coordinator_that_has_resigned_meanwhile_writes_no_markers() -> None:
    async with a_coordinator() as broker:
        later: list[Callable[[], object]] = []
        broker.parts.transactions.send_markers_by(later.append)
        producer = await ready(broker)
        await producer.add(orders=[0])
        partition = producer.append()
        assert await producer.end() is NONE
        broker.parts.transactions.runtime.resigned(broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0))
        [send_markers] = later
        send_markers()
        assert partition.log.log_end_offset == 3


def without_leader(broker: UnitBroker, topic: str, index: int, leader: int = -1) -> None:
    metadata = PartitionMetadata(BrokerId(leader), LeaderEpoch(1), (ME, OTHER), (ME,), ())
    broker.parts.metadata.set_partition(topic, topic_id_of(topic), index, metadata)


async def test_markers_wait_for_a_leader_and_the_transaction_stays_prepared() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        await producer.add(orders=[0, 1])
        partition = producer.append()
        broker.parts.replicas.partition("orders", 1).resign()
        without_leader(broker, "orders", 1)
        assert await producer.end() is NONE
        assert partition.readable_end(committed_only=True) == 4
        assert rows_of(await described(broker)) == [("orders", [1])], "only partitions without a marker"
        assert await producer.end() is ErrorCode.CONCURRENT_TRANSACTIONS
        pass_time(broker, 1_000)
        assert await state_of(broker) == "PrepareCommit"
        await broker.lead("orders", 2, epoch=2)
        pass_time(broker, 1_000)
        assert await state_of(broker) == "CompleteCommit"


async def test_a_deleted_topic_needs_no_marker_once_the_store_says_that_it_is_deleted() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        await producer.add(orders=[0])
        broker.parts.replicas.partition("orders", 0).resign()
        broker.parts.metadata.drop_partition("orders", 0)
        assert await producer.end() is NONE
        await broker.settled()
        assert await state_of(broker) == "CompleteCommit"


async def test_a_topic_that_only_the_metadata_lacks_gets_its_marker_later() -> None:
    async with a_coordinator() as broker:
        await broker.session.create("/brokers/topics/orders", b'{"version":2,"partitions":{"0":[1],"1":[1]}}')
        producer = await ready(broker)
        await producer.add(orders=[0])
        broker.parts.replicas.partition("orders", 0).resign()
        broker.parts.metadata.drop_partition("orders", 0)
        await producer.end()
        await broker.settled()
        assert await state_of(broker) == "PrepareCommit"
        await broker.lead("orders", 2, epoch=2)
        pass_time(broker, 1_000)
        assert await state_of(broker) == "CompleteCommit"


async def test_many_partitions_are_marked_in_slices() -> None:
    async with a_coordinator() as broker:
        count = 2 * PARTITIONS_AT_ONCE + 1
        await broker.lead("many", count)
        producer = await ready(broker)
        await producer.add(many=list(range(count)))
        pending = broker.serve(
            ApiKey.END_TXN, 3, EndTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, committed=True)
        )
        assert not isinstance(pending, DelayedResponse), "the producer does not wait for the markers"
        await asyncio.sleep(0)
        ends = [broker.parts.replicas.partition("many", index).log.log_end_offset for index in range(count)]
        assert 0 < sum(ends) < count
        await broker.settled()
        assert await state_of(broker) == "CompleteCommit"


async def test_a_record_that_too_few_replicas_have_is_answered_to_be_retried() -> None:
    async with a_broker(SETTINGS) as broker:
        await broker.lead("orders")
        await broker.lead(TRANSACTIONS_TOPIC, isr=(ME, OTHER))
        await broker.settled()
        producer = Producer(broker)
        pending = broker.serve(
            ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1_000)
        )
        assert isinstance(pending, DelayedResponse)
        await broker.settled()
        assert not pending.is_answered, "the other replica has not fetched it"
        assert await producer.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        pass_time(broker, 30_000)
        answer = answer_of(pending, ApiKey.INIT_PRODUCER_ID, 4)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def fetched_by_the_other(broker: UnitBroker, topic: str = TRANSACTIONS_TOPIC) -> None:
    """The other replica fetches from the end: all of it is committed."""
    partition = broker.parts.replicas.partition(topic, 0)
    position = FetchPosition(Offset(partition.log.log_end_offset), LeaderEpoch(0), LeaderEpoch(0))
    partition.update_follower_fetch_state(OTHER, position, broker.clock.ms)


def next_iteration(broker: UnitBroker) -> None:
    """What was scheduled for the next iteration of the loop."""
    for timer in [timer for timer in broker.timers.waiting if timer.seconds == 0]:
        timer.cancel()
        timer.action()


async def test_what_follows_a_commit_is_appended_after_the_fetch_that_made_it() -> None:
    """A Fetch reads partition by partition: what is appended meanwhile to one that it has read, it would miss."""
    async with a_broker(SETTINGS) as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        await broker.lead(TRANSACTIONS_TOPIC, isr=(ME, OTHER))
        await broker.settled()
        requests: list[tuple[ApiKey, int, Any]] = [
            (ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)),
            (
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=ID,
                    v3_and_below_producer_epoch=0,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
                ),
            ),
            (
                ApiKey.END_TXN,
                3,
                EndTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, committed=True),
            ),
        ]
        for key, version, request in requests:
            pending = broker.serve(key, version, request)
            assert isinstance(pending, DelayedResponse)
            await broker.settled()
            fetched_by_the_other(broker)
            assert pending.is_answered
        assert await state_of(broker) == "PrepareCommit"
        orders = broker.parts.replicas.partition("orders", 0)
        state = broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0)
        assert (orders.log.log_end_offset, state.log.log_end_offset) == (0, 3)
        next_iteration(broker)
        assert (orders.log.log_end_offset, state.log.log_end_offset) == (1, 3)
        fetched_by_the_other(broker, "orders")
        assert state.log.log_end_offset == 3
        next_iteration(broker)
        assert state.log.log_end_offset == 4
        fetched_by_the_other(broker)
        assert await state_of(broker) == "CompleteCommit"


async def test_a_coordinator_that_resigns_answers_what_waits_and_forgets_the_ids() -> None:
    async with a_broker(SETTINGS) as broker:
        await broker.lead(TRANSACTIONS_TOPIC, isr=(ME, OTHER))
        await broker.settled()
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1_000)
        pending = broker.serve(ApiKey.INIT_PRODUCER_ID, 4, request)
        await broker.settled()
        broker.parts.replicas.resign_all()
        assert isinstance(pending, DelayedResponse)
        assert answer_of(pending, ApiKey.INIT_PRODUCER_ID, 4).error_code == ErrorCode.NOT_COORDINATOR
        counts = broker.parts.transactions.counts
        assert (counts.ids, counts.ongoing) == (0, 0)


async def test_a_coordinator_that_resigned_writes_no_markers() -> None:
    async with a_coordinator() as broker:
        producer = await ready(broker)
        await producer.add(orders=[0])
        broker.parts.replicas.partition("orders", 0).resign()
        without_leader(broker, "orders", 0)
        await producer.end()
        broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0).resign()
        broker.parts.transactions.runtime.resigned(broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0))
        await broker.lead("orders", 2, epoch=2)
        pass_time(broker, 1_000)
        assert broker.parts.replicas.partition("orders", 0).log.log_end_offset == 0


async def test_a_record_that_is_too_large_is_refused_and_the_transactional_id_served_further() -> None:
    async with a_coordinator({"message.max.bytes": "300"}) as broker:
        await broker.lead("many", 100)
        producer = await ready(broker)
        refused = await producer.add(many=list(range(100)))
        assert {code for _, _, code in refused} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert await producer.add(orders=[0]) == [("orders", 0, NONE)]
        assert await producer.end() is NONE


# Limits and administrators.


async def test_new_ids_beyond_the_limit_are_refused_and_known_ones_served() -> None:
    async with a_coordinator({"sordini.transactional.ids.max": "2"}) as broker:
        known = [await ready(broker, name) for name in ("a", "b")]
        assert await Producer(broker, "c").init() is ErrorCode.POLICY_VIOLATION
        assert await known[0].init() is NONE
        assert await Producer(broker, "d").init() is ErrorCode.POLICY_VIOLATION
        [(_, fields)] = broker.log.at("warning")
        assert fields["reason"] == "sordini.transactional.ids.max=2 is reached"


async def test_a_timeout_above_the_brokers_is_refused() -> None:
    async with a_coordinator({"transaction.max.timeout.ms": "30000"}) as broker:
        assert await Producer(broker, "a").init(timeout_ms=30_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await Producer(broker, "a").init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await Producer(broker, "a").init(timeout_ms=30_000) is NONE


async def test_transactions_beyond_the_limit_are_refused_until_one_ends() -> None:
    async with a_coordinator({"sordini.transactions.ongoing.max": "1"}) as broker:
        first, second = [await ready(broker, name) for name in ("a", "b")]
        assert await first.add(orders=[0]) == [("orders", 0, NONE)]
        assert await second.add(orders=[0]) == [("orders", 0, ErrorCode.POLICY_VIOLATION)]
        assert await first.add(orders=[1]) == [("orders", 1, NONE)]
        assert await first.end() is NONE
        assert await second.add(orders=[0]) == [("orders", 0, NONE)]


async def test_transactions_are_listed_by_state_producer_duration_and_name() -> None:
    async with a_coordinator() as broker:
        for name in ("orders-1", "orders-2", "bills"):
            producer = await ready(broker, name)
        await producer.add(orders=[0])
        broker.clock.ms += 5_000

        def listed(**filters: Any) -> list[str]:
            answer = broker.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(**filters))
            assert answer.error_code == NONE
            return sorted(row.transactional_id for row in answer.transaction_states)

        assert listed() == ["bills", "orders-1", "orders-2"]
        assert listed(state_filters=["Ongoing"]) == ["bills"]
        assert listed(producer_id_filters=[0, 99]) == ["orders-1"]
        assert listed(transactional_id_pattern="orders-.*") == ["orders-1", "orders-2"]
        assert listed(duration_filter=4_999, state_filters=["Ongoing"]) == ["bills"]
        assert listed(duration_filter=5_000, state_filters=["Ongoing"]) == []
        unknown = broker.ask(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest(state_filters=["Odd"]))
        assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Odd"], [])
        wrong = broker.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern="("))
        assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_an_id_that_does_not_exist_is_not_described() -> None:
    async with a_coordinator() as broker:
        assert (await described(broker, "other")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_an_id_that_is_not_used_for_a_long_time_is_removed() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator({"transactional.id.expiration.ms": "1000"}, disk) as broker:
        await ready(broker)
        pass_time(broker, 1_000)
        await broker.settled()
        assert (await described(broker)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert broker.parts.transactions.counts.ids == 0
    async with a_coordinator(None, disk.killed()) as broker:
        assert (await described(broker)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
