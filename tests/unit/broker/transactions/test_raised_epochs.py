"""Producers of transaction.version 2 (KIP-890 part 2) on a broker of an exclusive cluster, which raises their epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.transactions import records
from sordini.broker.transactions.held_requests import HELD_MS_MAX
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC, TransactionValue
from sordini.broker.transactions.verification import PartitionsQuestion
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sordini.protocol.records.batch import read_header, read_records
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import codes
from tests.support.transaction_requests import (
    Producer,
    a_cluster_of_one,
    add_partitions,
    end,
    init,
    produce_request,
    produced,
    stable_fetch,
    txn_commit,
    txn_commit_request,
)
from tests.support.unit_broker import UnitBroker, a_peer, answer_of

EXCLUSIVE = {"sordini.cluster.exclusive": "true"}
NONE = ErrorCode.NONE
PRODUCE_VERSION = 12


class Ended(NamedTuple):
    """The answer to EndTxn v5."""

    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def ended(broker: UnitBroker, producer: Producer, *, commit: bool = True) -> Ended:
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    answer = broker.ask(ApiKey.END_TXN, 5, request)
    return Ended(ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch)


def produce(
    broker: UnitBroker, producer: Producer, sequences: Mapping[int, int] = {0: 0}, version: int = PRODUCE_VERSION
) -> dict[int, int]:
    return produced(broker.ask(ApiKey.PRODUCE, version, produce_request(producer, sequences)))


def in_epoch(producer: Producer, epoch: int) -> Producer:
    return producer._replace(epoch=epoch)


def partitions_of(broker: UnitBroker) -> set[TopicPartition]:
    transaction = broker.parts.transactions.transaction("t")
    assert transaction is not None
    return set(transaction.partitions)


def state_of(broker: UnitBroker) -> tuple[str, int]:
    transaction = broker.parts.transactions.transaction("t")
    assert transaction is not None
    return transaction.state_name, transaction.producer_epoch


# ApiVersions.


@pytest.mark.parametrize("version", [2, 3, 4, 5])
async def test_clients_learn_of_the_transaction_version_in_a_pure_cluster_only(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        answer = broker.ask(ApiKey.API_VERSIONS, version, request)
        supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
        assert supported == ([("transaction.version", 0, 2)] if version >= 4 else [])
        finalized = [(one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features]
        assert finalized == ([("transaction.version", 2, 2)] if version >= 3 else [])
        assert answer.finalized_features_epoch == (1 if version >= 3 else -1)
    async with a_cluster_of_one() as broker:
        answer = broker.ask(ApiKey.API_VERSIONS, version, request)
        assert (answer.supported_features, answer.finalized_features) == ([], [])
        assert answer.finalized_features_epoch == (0 if version >= 3 else -1)


# One transaction after the other.


@pytest.mark.parametrize("commit", [True, False])
async def test_records_begin_a_transaction_and_its_end_raises_the_epoch(commit: bool) -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        for epoch in range(3):
            sender = in_epoch(producer, epoch)
            assert produce(broker, sender, {0: 0, 1: 0}) == {0: 0, 1: 0}
            assert partitions_of(broker) == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
            assert produce(broker, sender, {0: 1}) == {0: 0}
            assert ended(broker, sender, commit=commit) == (NONE, producer.producer_id, epoch + 1)
            assert state_of(broker) == ("CompleteCommit" if commit else "CompleteAbort", epoch + 1)
            log = broker.parts.replicas.partition("orders", 0).log
            assert log.producers.known() == {producer.producer_id: epoch + 1}
            assert not log.producers.has_open(producer.producer_id, epoch)


async def test_a_record_of_an_earlier_transaction_is_refused_before_and_after_the_next_one_begins() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        first = await init(broker)
        second = in_epoch(first, 1)
        assert produce(broker, first) == {0: 0}
        assert ended(broker, first).error is NONE
        fenced = {0: ErrorCode.INVALID_PRODUCER_EPOCH, 1: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert produce(broker, first, {0: 1, 1: 0}) == fenced
        assert produce(broker, second) == {0: 0}
        assert produce(broker, first, {0: 1, 1: 0}) == fenced
        assert partitions_of(broker) == {TopicPartition("orders", 0)}


async def test_an_end_is_repeated_after_the_coordinator_has_moved() -> None:
    disk = ForgetfulDisk()
    async with a_cluster_of_one(EXCLUSIVE, disk) as broker:
        producer = await init(broker)
        assert produce(broker, producer) == {0: 0}
        assert ended(broker, producer) == (NONE, producer.producer_id, 1)
    async with a_cluster_of_one(EXCLUSIVE, disk.killed(), epoch=1) as broker:
        assert ended(broker, producer) == (NONE, producer.producer_id, 1)
        assert ended(broker, producer, commit=False) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
        assert state_of(broker) == ("CompleteCommit", 1)


async def test_an_abort_without_a_transaction_raises_the_epoch_and_a_commit_is_refused() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        assert ended(broker, producer) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
        assert ended(broker, producer, commit=False) == (NONE, producer.producer_id, 1)
        assert ended(broker, in_epoch(producer, 1), commit=False) == (NONE, producer.producer_id, 2)
        assert produce(broker, in_epoch(producer, 2)) == {0: 0}


async def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        [shard] = broker.parts.transactions.runtime.shards()
        shard.state.transactions["t"] = replace(shard.state.transactions["t"], producer_epoch=32_766)
        last = in_epoch(producer, 32_766)
        assert produce(broker, last) == {0: 0}
        answer = ended(broker, last)
        assert answer == (NONE, producer.producer_id + 1, 0)
        known = broker.parts.replicas.partition("orders", 0).log.producers.known()
        assert known == {producer.producer_id: 32_767}
        assert ended(broker, last) == answer, "repeated"
        following = Producer("t", *answer[1:])
        assert produce(broker, following) == {0: 0}
        assert ended(broker, following) == (NONE, following.producer_id, 1)


async def test_a_producer_whose_transaction_timed_out_is_fenced() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        assert produce(broker, producer) == {0: 0}
        pass_time(broker, 60_000)
        assert state_of(broker) == ("CompleteAbort", 2)
        for commit in (True, False):
            assert ended(broker, producer, commit=commit) == (ErrorCode.PRODUCER_FENCED, -1, -1)
        assert produce(broker, producer, {0: 1}) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


# Adding partitions.


async def test_partitions_are_added_where_verification_is_switched_off_too() -> None:
    async with a_cluster_of_one({**EXCLUSIVE, "transaction.partition.verification.enable": "false"}) as broker:
        producer = await init(broker)
        for epoch in range(2):  # The second time in the prepared way.
            sender = in_epoch(producer, epoch)
            assert produce(broker, sender) == {0: 0}
            assert partitions_of(broker) == {TopicPartition("orders", 0)}
            assert ended(broker, sender).error is NONE


async def test_the_first_batch_of_a_producer_in_a_partition_has_the_first_sequence() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        assert produce(broker, producer, {0: 5}) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
        assert produce(broker, producer, {0: 0}) == {0: 0}
        assert ended(broker, producer).error is NONE
        assert produce(broker, in_epoch(producer, 1), {0: 1}) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
        assert produce(broker, in_epoch(producer, 1), {0: 0}) == {0: 0}


async def test_offsets_are_committed_without_adding_their_group_before() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        assert txn_commit(broker, producer, {0: 7}, version=5) == [0]
        assert partitions_of(broker) == {TopicPartition(OFFSETS_TOPIC, 0)}
        assert stable_fetch(broker, 0) == {0: (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}
        assert ended(broker, producer).error is NONE
        assert stable_fetch(broker, 0) == {0: (7, 0)}
        assert txn_commit(broker, producer, {0: 5}, version=5) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert txn_commit(broker, in_epoch(producer, 1), {0: 9}, version=5) == [0]
        assert ended(broker, in_epoch(producer, 1), commit=False).error is NONE
        assert stable_fetch(broker, 0) == {0: (7, 0)}


async def test_a_leader_on_another_broker_adds_partitions() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=0,
            topics=[AddPartitionsToTxnTopic(name="orders", partitions=[2])],
        )
        answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, AddPartitionsToTxnRequest(transactions=[transaction]))
        [row] = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert (row.partition_index, row.partition_error_code) == (2, 0)
        assert partitions_of(broker) == {TopicPartition("orders", 2)}


class Elsewhere:
    """A coordinator that answers all additions with one code. Fakes the port `TransactionVerifier`."""

    def __init__(self, broker: UnitBroker) -> None:
        self.code = NONE
        self.added: list[tuple[int, int]] = []
        broker.parts.verification.gate._verifier = self

    def ask(self, question: PartitionsQuestion) -> None:
        assert question.adds
        self.added.append(tuple(question.producer))
        question.answer(self.code)


@pytest.mark.parametrize("verifies", ["true", "false"])
async def test_records_of_the_next_transaction_are_not_appended_before_the_marker_of_the_last_one(
    verifies: str,
) -> None:
    async with a_cluster_of_one({**EXCLUSIVE, "transaction.partition.verification.enable": verifies}) as broker:
        coordinator, log = Elsewhere(broker), broker.parts.replicas.partition("orders", 0).log
        producer = Producer("t", 7)
        for sequence in range(3):  # From the second on in the prepared way.
            assert produce(broker, producer, {0: sequence}) == {0: 0}
        coordinator.code = ErrorCode.CONCURRENT_TRANSACTIONS
        for _ in range(2):
            assert produce(broker, in_epoch(producer, 1)) == {0: ErrorCode.CONCURRENT_TRANSACTIONS}
        assert coordinator.added == [(7, 0), (7, 1), (7, 1)]
        assert log.log_end_offset == 3
        assert mark(broker, in_epoch(producer, 1), transaction_version=2) == 0
        coordinator.code = NONE
        assert produce(broker, in_epoch(producer, 1)) == {0: 0}
        assert coordinator.added[3:] == [(7, 1)]


async def prepared(broker: UnitBroker) -> Producer:
    """The producer of the transaction after one that is not completed: the leader of a partition is missing."""
    producer = await init(broker)
    assert produce(broker, producer, {0: 0, 1: 0}) == {0: 0, 1: 0}
    partition = broker.parts.replicas.partition("orders", 1)
    partition.resign()
    assert ended(broker, producer) == (NONE, producer.producer_id, 1)
    assert state_of(broker) == ("PrepareCommit", 1)
    return in_epoch(producer, 1)


def pass_time(broker: UnitBroker, duration_ms: int) -> None:
    """An overdue timer first lets the loop read its sockets, and then does what is due."""
    broker.clock.ms += duration_ms
    broker.timers.fire()
    broker.timers.fire()


async def test_records_of_the_next_transaction_wait_until_the_last_one_is_completed() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        following = await prepared(broker)
        timers, broker.timers.waiting = broker.timers.waiting, []
        waiting = broker.serve(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(following, {0: 0, 2: 0}))
        offsets = broker.serve(ApiKey.TXN_OFFSET_COMMIT, 5, txn_commit_request(following, {0: 7}))
        assert isinstance(waiting, DelayedResponse)
        assert isinstance(offsets, DelayedResponse)
        await broker.run_round()
        assert not waiting.is_answered
        await broker.lead("orders", 3, epoch=2)
        broker.timers.waiting = timers
        pass_time(broker, 1_000)
        await broker.settled()
        assert produced(answer_of(waiting, ApiKey.PRODUCE, PRODUCE_VERSION)) == {0: 0, 2: 0}
        assert codes(answer_of(offsets, ApiKey.TXN_OFFSET_COMMIT, 5)) == [0]
        assert state_of(broker) == ("Ongoing", 1)
        assert len(partitions_of(broker)) == 3


async def test_records_that_have_waited_for_long_are_answered_with_a_code_at_which_producers_resend() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        following = await prepared(broker)
        assert produce(broker, in_epoch(following, 0), {2: 0}) == {2: ErrorCode.INVALID_PRODUCER_EPOCH}, "not held"
        broker.timers.waiting = []
        waiting = broker.serve(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(following, {0: 0, 2: 0}))
        assert isinstance(waiting, DelayedResponse)
        await broker.run_round()
        assert not waiting.is_answered
        [deadline] = broker.timers.waiting
        assert deadline.seconds * 1000 == HELD_MS_MAX
        deadline.action()
        await broker.settled()
        answer = produced(answer_of(waiting, ApiKey.PRODUCE, PRODUCE_VERSION))
        assert answer == dict.fromkeys((0, 2), ErrorCode.CONCURRENT_TRANSACTIONS)


# What comes late.


def mark(broker: UnitBroker, producer: Producer, *, transaction_version: int) -> int:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
        transaction_version=transaction_version,
    )
    answer = broker.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest(markers=[marker]))
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


async def test_a_marker_that_comes_again_does_not_end_the_next_transaction() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        following = in_epoch(producer, 1)
        assert produce(broker, producer) == {0: 0}
        assert ended(broker, producer).error is NONE
        assert mark(broker, following, transaction_version=2) == 0, "repeated; there is nothing to end"
        assert produce(broker, following) == {0: 0}
        assert mark(broker, following, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert broker.parts.replicas.partition("orders", 0).log.producers.has_open(*following[1:])
        assert mark(broker, following, transaction_version=0) == 0, "as by a coordinator that raises no epochs"


async def test_markers_with_a_raised_epoch_may_come_on_any_connection() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = Producer("t", 7)
        for epoch, connection in ((1, 9), (2, 3)):
            broker.peer = a_peer(number=connection)
            assert mark(broker, in_epoch(producer, epoch), transaction_version=2) == 0
        broker.peer = a_peer(number=9)
        assert mark(broker, in_epoch(producer, 2), transaction_version=0) == 0
        broker.peer = a_peer(number=3)
        with pytest.raises(WireError):
            mark(broker, in_epoch(producer, 2), transaction_version=0)
        assert mark(broker, in_epoch(producer, 3), transaction_version=2) == 0


async def test_connections_do_not_matter_to_a_producer_whose_epochs_rise() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        broker.peer = a_peer(number=7)
        assert produce(broker, producer) == {0: 0}
        assert txn_commit(broker, producer, {0: 7}, version=5) == [0]
        broker.peer = a_peer(number=2)
        assert txn_commit(broker, producer, {0: 7}, version=5) == [0]
        assert ended(broker, producer).error is NONE
        following = in_epoch(producer, 1)
        assert ended(broker, producer).error is NONE
        assert produce(broker, following) == {0: 0}
        assert txn_commit(broker, following, {0: 8}, version=5) == [0]
        assert ended(broker, following).error is NONE
        request = InitProducerIdRequest(
            transactional_id="t", transaction_timeout_ms=1, producer_id=producer.producer_id, producer_epoch=2
        )
        assert broker.ask(ApiKey.INIT_PRODUCER_ID, 4, request).producer_epoch == 3


async def test_a_late_init_producer_id_does_not_fence_a_producer_whose_epochs_rise() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        broker.peer = a_peer(number=7)
        producer = await init(broker)
        assert produce(broker, producer) == {0: 0}
        assert ended(broker, producer).error is NONE
        broker.peer = a_peer(number=2)
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        with pytest.raises(WireError):
            broker.serve(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert produce(broker, in_epoch(producer, 1)) == {0: 0}


# Other clients and clusters.


async def test_older_clients_keep_their_epoch_in_a_pure_cluster() -> None:
    async with a_cluster_of_one(EXCLUSIVE) as broker:
        producer = await init(broker)
        for _ in range(2):
            sequence = broker.parts.replicas.partition("orders", 0).log.log_end_offset // 2
            assert produce(broker, producer, {0: sequence}, version=11) == {0: ErrorCode.TRANSACTION_ABORTABLE}
            assert add_partitions(broker, producer, 0) == [0]
            assert produce(broker, producer, {0: sequence}, version=11) == {0: 0}
            assert end(broker, producer, commit=True) == 0
            assert state_of(broker) == ("CompleteCommit", 0)


async def test_where_the_cluster_is_not_pure_nothing_is_added_and_no_epoch_raised() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        assert produce(broker, producer) == {0: ErrorCode.TRANSACTION_ABORTABLE}
        assert add_partitions(broker, producer, 0) == [0]
        assert produce(broker, producer) == {0: 0}
        assert ended(broker, producer) == (NONE, producer.producer_id, 0)
        assert state_of(broker) == ("CompleteCommit", 0)


def values_of(broker: UnitBroker) -> list[tuple[int, TransactionValue]]:
    """The records of __transaction_state, each with its version."""
    log = broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0).log
    piece = log.read(0, 100_000, log.log_end_offset, whole_first=True)
    data, found, position = memoryview(bytearray(piece.read())), [], 0
    piece.release()
    while position < len(data):
        header = read_header(data[position:])
        for record in read_records(data[position:], header):
            assert record.value is not None
            value = records.read_value(record.value)
            assert isinstance(value, TransactionValue)
            found.append((int.from_bytes(record.value[:2], "big"), value))
        position += header.size
    return found


async def test_records_have_version_1_in_a_pure_cluster_only_and_are_read_by_any_broker() -> None:
    disk = ForgetfulDisk()
    async with a_cluster_of_one(EXCLUSIVE, disk) as broker:
        producer = await init(broker)
        assert produce(broker, producer) == {0: 0}
        assert ended(broker, producer).error is NONE
        assert {version for version, _ in values_of(broker)} == {1}
        assert [(value.state_name, value.client_version) for _, value in values_of(broker)] == [
            ("Empty", 0),
            ("Ongoing", 2),
            ("PrepareCommit", 2),
            ("CompleteCommit", 2),
        ]
    async with a_cluster_of_one(disk=disk.killed(), epoch=1) as broker:
        assert state_of(broker) == ("CompleteCommit", 1)
        assert (await init(broker)).epoch == 2
        assert [version for version, _ in values_of(broker)] == [1, 1, 1, 1, 0]


async def test_a_decision_with_a_new_producer_id_is_completed_by_a_broker_of_a_cluster_that_is_pure_no_more() -> None:
    disk = ForgetfulDisk()
    async with a_cluster_of_one(EXCLUSIVE, disk) as broker:
        producer = await init(broker)
        [shard] = broker.parts.transactions.runtime.shards()
        shard.state.transactions["t"] = replace(shard.state.transactions["t"], producer_epoch=32_766)
        last = in_epoch(producer, 32_766)
        assert produce(broker, last, {0: 0, 1: 0}) == {0: 0, 1: 0}
        broker.parts.replicas.partition("orders", 1).resign()
        assert ended(broker, last).producer_id == producer.producer_id + 1
        assert state_of(broker) == ("PrepareCommit", 32_767)
    async with a_cluster_of_one(disk=disk.killed(), epoch=1) as broker:
        transaction = broker.parts.transactions.transaction("t")
        assert transaction is not None
        assert transaction.state_name == "CompleteCommit"
        assert (transaction.producer_id, transaction.producer_epoch) == (producer.producer_id + 1, 0)
