"""TxnOffsetCommit: offsets that are part of a producer's transaction (KIP-98, KIP-447)."""

from __future__ import annotations

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sordini.protocol.records.batch import read_header
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import a_stable_group, codes, commit, committed, join
from tests.support.transaction_requests import (
    INTERNAL,
    Producer,
    a_cluster_of_one,
    add_offsets,
    add_partitions,
    end,
    init,
    mark,
    stable_fetch,
    txn_commit,
    txn_commit_request,
)
from tests.support.unit_broker import UnitBroker, a_broker, answer_of

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


async def begun(broker: UnitBroker, transactional_id: str = "t", group_id: str = "g") -> Producer:
    """A producer whose transaction may commit offsets of the group."""
    producer = await init(broker, transactional_id)
    assert add_offsets(broker, producer, group_id) == 0
    return producer


def held_bytes(broker: UnitBroker) -> int:
    return broker.parts.groups.memory.held_bytes


async def test_offsets_of_a_transaction_are_visible_from_its_commit_on() -> None:
    async with a_cluster_of_one() as broker:
        assert commit(broker, {0: 1, 2: 9}) == [0, 0]
        producer = await begun(broker)
        assert txn_commit(broker, producer, {0: 5, 1: 6}) == [0, 0]
        assert committed(broker) == {("orders", 0): 1, ("orders", 2): 9}
        assert stable_fetch(broker, 0, 1, 2) == {0: UNSTABLE, 1: UNSTABLE, 2: (9, 0)}
        assert stable_fetch(broker) == {0: UNSTABLE, 2: (9, 0)}
        assert end(broker, producer, commit=True) == 0
        await broker.settled()
        assert stable_fetch(broker) == {0: (5, 0), 1: (6, 0), 2: (9, 0)}


async def test_offsets_of_an_aborted_transaction_are_discarded() -> None:
    async with a_cluster_of_one() as broker:
        commit(broker, {0: 1})
        before = held_bytes(broker)
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5, 1: 6})
        assert held_bytes(broker) > before
        assert end(broker, producer, commit=False) == 0
        await broker.settled()
        assert stable_fetch(broker) == {0: (1, 0)}
        assert held_bytes(broker) == before


async def test_the_last_offset_of_a_transaction_counts() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        for offset in (5, 6, 4):
            assert txn_commit(broker, producer, {0: offset}) == [0]
        mark(broker, producer.producer_id, commit=True)
        assert committed(broker) == {("orders", 0): 4}


async def test_a_commit_that_follows_is_not_replaced_by_the_transactions() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        commit(broker, {0: 7})
        assert stable_fetch(broker) == {0: UNSTABLE}
        mark(broker, producer.producer_id, commit=True)
        assert stable_fetch(broker) == {0: (7, 0)}


async def test_the_batch_is_the_producers_with_sequence_0() -> None:
    """As Apache Kafka's coordinator writes it: the producer's own sequences are not known to it."""
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        log = broker.parts.replicas.partition(OFFSETS_TOPIC, 0).log
        piece = log.read(log.log_end_offset - 1, 1_000, log.log_end_offset, whole_first=True)
        assert piece is not None
        header = read_header(piece.read())
        piece.release()
        assert header.is_transactional
        assert header[9:12] == (producer.producer_id, producer.epoch, 0)
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset - 1


@pytest.mark.parametrize("version", range(7))
async def test_every_version_commits(version: int) -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        request = txn_commit_request(producer, {0: 5})
        request.topics[0].topic_id = broker.parts.metadata.topics["orders"].topic_id
        assert codes(broker.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)) == [0]
        assert end(broker, producer, commit=True) == 0
        await broker.settled()
        assert committed(broker) == {("orders", 0): 5}


async def test_a_producer_commits_for_a_member_of_the_current_generation_only() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        joined = a_stable_group(broker)
        member = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}

        def attempt(**fields: object) -> list[int]:
            return txn_commit(broker, producer, {0: 5}, **{**member, **fields})

        assert attempt(member_id="another") == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert attempt(generation_id_or_member_epoch=joined.generation_id - 1) == [ErrorCode.ILLEGAL_GENERATION]
        assert attempt(group_instance_id="unknown") == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert attempt() == [0]
        # Old producers do not name the consumer.
        assert txn_commit(broker, producer, {0: 5}, version=2) == [0]


async def test_a_member_that_was_replaced_is_fenced() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        first = join(broker, version=5, group_instance_id="i")
        second = join(broker, version=5, group_instance_id="i")
        member = {"group_instance_id": "i", "generation_id_or_member_epoch": second.generation_id}
        assert txn_commit(broker, producer, {0: 5}, member_id=first.member_id, **member) == [
            ErrorCode.FENCED_INSTANCE_ID
        ]


async def test_a_member_of_a_removed_group_has_an_illegal_generation() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        fields = {"member_id": "m", "generation_id_or_member_epoch": 3}
        assert txn_commit(broker, producer, {0: 5}, **fields) == [ErrorCode.ILLEGAL_GENERATION]


async def test_invalid_partitions_have_their_own_codes() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        request = txn_commit_request(producer, {0: 5, 1: 6, 9: 7})
        request.topics[0].partitions[1].committed_metadata = "x" * 5_000
        answer = broker.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request)
        assert codes(answer) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        request.topics[0].topic_id = b"unknown topic id"
        assert codes(broker.ask(ApiKey.TXN_OFFSET_COMMIT, 6, request)) == [ErrorCode.UNKNOWN_TOPIC_ID] * 3
        assert txn_commit(broker, producer, {0: 5}, group_id="") == [ErrorCode.INVALID_GROUP_ID]
        assert broker.ask(ApiKey.TXN_OFFSET_COMMIT, 3, txn_commit_request(producer, {})).topics == []


async def test_offsets_need_a_transaction_that_has_the_groups_partition() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        assert txn_commit(broker, producer, {0: 5}, version=3) == [ErrorCode.INVALID_TXN_STATE]
        assert txn_commit(broker, producer, {0: 5}, version=4) == [ErrorCode.TRANSACTION_ABORTABLE]
        add_partitions(broker, producer, 0)
        assert txn_commit(broker, producer, {0: 5}, version=4) == [ErrorCode.TRANSACTION_ABORTABLE]
        stranger = producer._replace(transactional_id="stranger")
        assert txn_commit(broker, stranger, {0: 5}) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert committed(broker) == {}
        assert broker.parts.replicas.partition(OFFSETS_TOPIC, 0).log.log_end_offset == 0


async def test_a_fenced_producer_commits_nothing() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        newer = await init(broker)
        assert newer.epoch > producer.epoch
        assert txn_commit(broker, producer, {0: 6}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        await broker.settled()
        assert stable_fetch(broker, 0) == {0: (-1, 0)}


async def test_open_transactions_are_loaded_and_their_markers_applied() -> None:
    disk = ForgetfulDisk()
    async with a_cluster_of_one(disk=disk) as broker:
        commit(broker, {0: 1, 1: 1})
        producers = [await begun(broker, f"t{number}") for number in range(3)]
        for number, producer in enumerate(producers):
            txn_commit(broker, producer, {0: 10 + number, 2: 101 + number})
        commit(broker, {1: 2})
        assert mark(broker, producers[0].producer_id, commit=True) == 0
    async with a_broker(INTERNAL, disk.killed()) as broker:
        await broker.lead("orders", 3, epoch=1)
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await broker.settled()
        assert committed(broker) == {("orders", 0): 10, ("orders", 1): 2, ("orders", 2): 101}
        assert stable_fetch(broker, 0, 1, 2) == {0: UNSTABLE, 1: (2, 0), 2: UNSTABLE}
        assert mark(broker, producers[2].producer_id, commit=True) == 0
        assert mark(broker, producers[1].producer_id, commit=True) == 0
        assert stable_fetch(broker) == {0: (12, 0), 1: (2, 0), 2: (103, 0)}


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("is_later", [True, False])
async def test_the_loading_decides_as_the_coordinator_did(*, is_commit: bool, is_later: bool) -> None:
    """A commit beside the transaction, before or after its offset; then the marker."""
    disk = ForgetfulDisk()
    async with a_cluster_of_one(disk=disk) as broker:
        producer = await begun(broker)
        for is_transactional in (is_later, not is_later):
            done = txn_commit(broker, producer, {0: 5}) if is_transactional else commit(broker, {0: 7})
            assert done == [0]
        mark(broker, producer.producer_id, commit=is_commit)
        expected = 5 if is_commit and not is_later else 7
        assert committed(broker) == {("orders", 0): expected}
    async with a_broker(INTERNAL, disk.killed()) as broker:
        await broker.lead("orders", 3, epoch=1)
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await broker.settled()
        assert committed(broker) == {("orders", 0): expected}


async def test_a_marker_is_refused_while_the_partition_is_loaded() -> None:
    """Its sender retries; the loading ends where the log ended before the marker."""
    disk = ForgetfulDisk()
    async with a_cluster_of_one(disk=disk) as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
    async with a_broker(INTERNAL, disk.killed()) as broker:
        await broker.lead("orders", 3, epoch=1)
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        assert broker.parts.groups.is_loading
        assert mark(broker, producer.producer_id, commit=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await broker.settled()
        assert mark(broker, producer.producer_id, commit=True) == 0
        assert committed(broker) == {("orders", 0): 5}


async def test_a_request_during_the_loading_waits_for_its_end() -> None:
    disk = ForgetfulDisk()
    async with a_cluster_of_one(disk=disk) as broker:
        commit(broker, {1: 1})
        producer = await begun(broker)
    async with a_cluster_of_one(disk=disk.killed(), epoch=1) as broker:
        broker.parts.replicas.resign_all()
        await broker.lead(OFFSETS_TOPIC, epoch=2)
        waiting = broker.serve(ApiKey.TXN_OFFSET_COMMIT, 3, txn_commit_request(producer, {0: 5}))
        assert isinstance(waiting, DelayedResponse)
        await broker.settled()
        # The coordinator of transactions resigned with all others: its code is one at which the producer retries.
        assert codes(answer_of(waiting, ApiKey.TXN_OFFSET_COMMIT, 3)) == [ErrorCode.NOT_COORDINATOR]


async def test_deleted_offsets_are_not_restored_by_a_later_marker() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        commit(broker, {1: 1})
        txn_commit(broker, producer, {0: 5})
        rows = [OffsetDeleteRequestPartition(partition_index=0)]
        request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="orders", partitions=rows)])
        assert broker.ask(ApiKey.OFFSET_DELETE, 0, request).error_code == 0
        assert stable_fetch(broker, 0) == {0: (-1, 0)}
        mark(broker, producer.producer_id, commit=True)
        assert committed(broker) == {("orders", 1): 1}


async def test_a_deleted_group_has_no_offsets_after_the_marker_either() -> None:
    async with a_cluster_of_one() as broker:
        before = held_bytes(broker)
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        [result] = broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"])).results
        assert result.error_code == 0
        mark(broker, producer.producer_id, commit=True)
        assert committed(broker) == {}
        assert held_bytes(broker) == before


async def test_offsets_of_open_transactions_do_not_expire_nor_does_their_group() -> None:
    async with a_cluster_of_one({"offsets.retention.minutes": "1"}) as broker:
        commit(broker, {0: 1, 1: 1})
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        broker.clock.ms += 3_600_000
        state = broker.parts.groups.runtime.led_shard("g").state
        state.expire("g")
        assert committed(broker) == {("orders", 0): 1}
        mark(broker, producer.producer_id, commit=False)
        state.expire("g")
        assert committed(broker) == {}
        assert broker.parts.groups.group("g") is None


async def test_a_group_that_only_an_aborted_transaction_knew_is_gone() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        assert broker.parts.groups.group("g") is not None
        mark(broker, producer.producer_id, commit=False)
        assert broker.parts.groups.group("g") is None


async def test_the_memory_limit_holds_for_offsets_of_transactions() -> None:
    async with a_cluster_of_one({"sordini.group.memory.bytes.max": "3000"}) as broker:
        producer = await begun(broker)
        assert txn_commit(broker, producer, {0: 5}) == [0]
        assert txn_commit(broker, producer, {0: 5, 1: 5, 2: 5}) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 3


async def test_a_marker_of_another_partition_or_producer_changes_nothing() -> None:
    async with a_cluster_of_one() as broker:
        producer = await begun(broker)
        txn_commit(broker, producer, {0: 5})
        mark(broker, producer.producer_id + 1, commit=True)
        mark(broker, producer.producer_id, commit=True, topic="orders")
        assert stable_fetch(broker, 0) == {0: UNSTABLE}
        assert broker.parts.groups.offsets("g").is_unstable(TopicPartition("orders", 0))
