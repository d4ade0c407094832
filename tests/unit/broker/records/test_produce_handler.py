"""Produce: each partition for itself, and when the answer may leave."""

from __future__ import annotations

import asyncio
import errno

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sordini.protocol.records.batch import read_header
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.replication.leader import Term
from sordini.replication.purgatory import DelayedOperation
from sordini.replication.refused_batches import GAP_MS
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of, topic_id_of

PRODUCE = ApiKey.PRODUCE


def request(*batches: bytes | None, topic: str = "orders", acks: int = -1, **fields: object) -> ProduceRequest:
    """One batch for each of a topic's partitions, by name and by id."""
    rows = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    named = TopicProduceData(name=topic, topic_id=topic_id_of(topic), partition_data=rows)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named], **fields)


def rows_of(answer: ProduceResponse) -> list[PartitionProduceResponse]:
    return [row for topic in answer.responses for row in topic.partition_responses]


def codes_of(answer: ProduceResponse) -> list[int]:
    return [row.error_code for row in rows_of(answer)]


def end_of(broker: UnitBroker, index: int = 0, topic: str = "orders") -> int:
    return broker.parts.replicas.partition(topic, index).log.log_end_offset


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize("version", range(3, 14))
async def test_records_are_answered_with_their_first_offset(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        offsets = [rows_of(broker.ask(PRODUCE, version, request(a_batch())))[0].base_offset for _ in range(3)]
        assert offsets == [0, 3, 6]


async def test_what_is_stored_carries_its_offset_and_the_leaders_epoch() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=4)
        broker.ask(PRODUCE, 9, request(a_batch()))
        broker.ask(PRODUCE, 9, request(a_batch()))
        stored = broker.disk.contents("/logs/orders-0/00000000000000000000.log")
        second = read_header(stored, len(a_batch()))
        assert (second.base_offset, second.partition_leader_epoch) == (3, 4)


async def test_one_partitions_failure_is_its_own() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 3)
        answer = broker.ask(PRODUCE, 9, request(a_batch(), damaged(a_batch()), a_batch(), a_batch()))
        assert codes_of(answer) == [0, ErrorCode.CORRUPT_MESSAGE, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert [row.base_offset for row in rows_of(answer)] == [0, -1, 0, -1]
        assert [end_of(broker, index) for index in range(3)] == [3, 0, 3]


async def test_a_refused_batch_leaves_the_log_as_it_was() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.ask(PRODUCE, 9, request(a_batch()))
        before = broker.disk.tree()
        for batch in (
            damaged(a_batch()),
            a_batch(control=True),
            a_batch() * 2,
            b"",
            None,
            a_batch(value=bytes(2_000_000)),
        ):
            assert codes_of(broker.ask(PRODUCE, 9, request(batch))) != [0]
        assert broker.disk.tree() == before
        assert end_of(broker) == 3


async def test_acks_0_is_stored_and_not_answered() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert broker.serve(PRODUCE, 9, request(a_batch(), acks=0)) is None
        assert end_of(broker) == 3


async def test_acks_0_that_fails_closes_the_connection_and_stores_the_rest() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        with pytest.raises(WireError, match="acks=0 was refused for 1 partitions"):
            broker.serve(PRODUCE, 9, request(damaged(a_batch()), a_batch(), acks=0))
        assert (end_of(broker, 0), end_of(broker, 1)) == (0, 3)


NEEDS_STORE = {"sordini.leader.acks.require.session": "true"}


async def test_where_weak_acks_need_the_store_they_are_refused_from_the_doubt_about_the_session_to_the_registration() -> (
    None
):
    async with a_broker(NEEDS_STORE) as broker:
        await broker.lead("orders")
        broker.contact.disconnected(broker.clock.ms + 100)
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch(), acks=1))) == [0], "the session continues"
        broker.clock.ms += 100
        broker.timers.fire()
        for _ in range(2):
            refused = broker.ask(PRODUCE, 9, request(a_batch(), acks=1))
            assert codes_of(refused) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            with pytest.raises(WireError, match="acks=0 was refused"):
                broker.serve(PRODUCE, 9, request(a_batch(), acks=0))
            assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [0], "acks=all waits for the commit"
            broker.contact.expired()
        assert end_of(broker) == 9
        broker.contact.registered()
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch(), acks=1))) == [0]
        assert broker.serve(PRODUCE, 9, request(a_batch(), acks=0)) is None
        assert end_of(broker) == 15


async def test_by_default_weak_acks_are_taken_as_by_apache_kafka_whatever_became_of_the_session() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.contact.expired()
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch(), acks=1))) == [0]
        assert broker.serve(PRODUCE, 9, request(a_batch(), acks=0)) is None
        assert end_of(broker) == 6


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
async def test_acks_that_mean_nothing_are_refused_before_anything_is_stored(acks: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch(), acks=acks))) == [ErrorCode.INVALID_REQUIRED_ACKS]
        assert end_of(broker) == 0


async def test_too_few_replicas_in_sync_refuse_acks_all_alone() -> None:
    async with a_broker({"min.insync.replicas": "2"}) as broker:
        await broker.lead("orders", isr=(ME,))
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [0], "of one replica, one is enough"
        broker.parts.replicas.partition("orders", 0).replicas = (ME, OTHER)
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch(), acks=1))) == [0]
        assert OTHER not in broker.parts.replicas.partition("orders", 0).require_leader().isr


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_clients_do_not_write_to_the_brokers_own_topics(topic: str) -> None:
    async with a_broker() as broker:
        await broker.lead(topic)
        refused = broker.ask(PRODUCE, 9, request(a_batch(), topic=topic))
        assert codes_of(refused) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert end_of(broker, topic=topic) == 0
        allowed = broker.ask(PRODUCE, 9, request(a_batch(), topic=topic), client_id="__admin_client")
        assert codes_of(allowed) == [0]


async def test_a_duplicate_is_answered_as_the_first_was_and_not_stored_again() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.ask(PRODUCE, 9, request(a_batch()))
        answers = [rows_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch())))[0] for _ in range(3)]
        assert [(row.error_code, row.base_offset) for row in answers] == [(0, 3)] * 3
        assert end_of(broker) == 6


async def test_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert codes_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch(transactional=True)))) == [refused]
        assert end_of(broker) == 0


async def test_with_acks_0_nothing_is_answered_late_either() -> None:
    async with a_broker({"log.flush.interval.messages": "1"}) as broker:
        await broker.lead("orders")
        assert await broker.ask_later(PRODUCE, 9, request(a_batch(), acks=0)) is None


async def test_delayed_fetches_are_checked_once_per_produce_request() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        woken: list[bool] = []
        DelayedOperation(2 * len(a_batch()), list(broker.parts.replicas), lambda: woken.append(True))
        broker.ask(PRODUCE, 9, request(a_batch()))
        assert woken == []
        broker.ask(PRODUCE, 9, request(a_batch(), a_batch()))
        assert woken == [True]


async def test_flush_messages_holds_the_answer_back_until_the_disk_has_the_records() -> None:
    async with a_broker({"log.flush.interval.messages": "6"}) as broker:
        await broker.lead("orders")
        gate = asyncio.Event()

        async def hold() -> None:
            await gate.wait()

        broker.disk.before_offload = hold
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [0], "three of six are answered at once"
        pending = broker.serve(PRODUCE, 9, request(a_batch()))
        assert isinstance(pending, DelayedResponse)
        await asyncio.sleep(0)
        assert not pending.is_answered
        gate.set()
        await broker.settled()
        assert codes_of(answer_of(pending, PRODUCE, 9)) == [0]
        survivor = broker.disk.power_lost(seed=1)
        assert len(survivor.contents("/logs/orders-0/00000000000000000000.log")) == 2 * len(a_batch())
        broker.disk.before_offload = None
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [0], "the count starts at 0 again"


async def test_what_was_flushed_in_a_term_that_is_over_by_then_is_not_acknowledged_by_the_next_one() -> None:
    async with a_broker({"log.flush.interval.messages": "1"}) as broker:
        await broker.lead("orders")
        gate = asyncio.Event()
        broker.disk.before_offload = gate.wait
        pending = broker.serve(PRODUCE, 9, request(a_batch()))
        assert isinstance(pending, DelayedResponse)
        partition = broker.parts.replicas.partition("orders", 0)
        partition.become_follower(OTHER, Term(LeaderEpoch(1), (OTHER,), (ME, OTHER)))
        partition.log.truncate_to(0, 0)
        partition.become_leader(ME, Term(LeaderEpoch(2), (ME,), (ME, OTHER)), 0)
        partition.leader.appended(Offset(3))  # What the other leader had there counts in this term.
        gate.set()
        await broker.settled()
        assert codes_of(answer_of(pending, PRODUCE, 9)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_batch_that_overtakes_another_one_at_a_change_of_leaders_is_asked_for_again() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")

        def code(sequence: int) -> int:
            batch = an_idempotent_batch(1, producer_id=7, sequence=sequence)
            (found,) = codes_of(broker.ask(PRODUCE, 9, request(batch)))
            return found

        assert code(0) == 0
        assert code(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "in one term the producer's requests are in order"
        await broker.lead("orders", epoch=1)
        assert code(2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert end_of(broker) == 1
        assert [code(sequence) for sequence in (1, 2, 4)] == [0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        broker.clock.ms += GAP_MS
        assert code(4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        await broker.lead("orders", epoch=2)
        assert code(9) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.clock.ms += GAP_MS
        assert code(9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer has given the batches between up"


async def test_a_flush_that_fails_is_a_storage_error_for_all_that_was_asked() -> None:
    async with a_broker({"log.flush.interval.messages": "1"}) as broker:
        await broker.lead("orders")
        broker.disk.fail_while(lambda kind, path: kind == "sync", errno.EIO)
        answer = await broker.ask_later(PRODUCE, 9, request(a_batch()))
        assert codes_of(answer) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_a_full_disk_refuses_and_heals() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.disk.fail_while(lambda kind, path: kind == "write", errno.ENOSPC)
        assert codes_of(broker.ask(PRODUCE, 9, request(a_batch()))) == [ErrorCode.KAFKA_STORAGE_ERROR]
        broker.disk.heal()
        assert rows_of(broker.ask(PRODUCE, 9, request(a_batch())))[0].base_offset == 0


async def test_what_comes_behind_a_batch_that_the_disk_refused_is_refused_as_that_was_until_it_comes_in_order() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        sent = [an_idempotent_batch(sequence=number * 3) for number in range(3)]
        assert codes_of(broker.ask(PRODUCE, 9, request(sent[0]))) == [0]
        broker.disk.fail_while(lambda kind, path: kind == "write", errno.ENOSPC)
        refused = [ErrorCode.KAFKA_STORAGE_ERROR]
        assert codes_of(broker.ask(PRODUCE, 9, request(sent[1]))) == refused
        assert codes_of(broker.ask(PRODUCE, 9, request(sent[2]))) == refused, (
            "it is under way when the first is refused"
        )
        broker.disk.heal()
        assert codes_of(broker.ask(PRODUCE, 9, request(sent[2]))) == refused, "its sequence is out of order"
        answers = [rows_of(broker.ask(PRODUCE, 9, request(batch)))[0] for batch in (*sent[1:], sent[1])]
        assert [(row.error_code, row.base_offset) for row in answers] == [(0, 3), (0, 6), (0, 3)]


@pytest.mark.parametrize("version", [9, 13])
async def test_what_comes_behind_the_refused_first_batch_of_a_producer_is_refused_as_that_was(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        sent = [an_idempotent_batch(sequence=number * 3) for number in range(3)]
        broker.disk.fail_while(lambda kind, path: kind == "write", errno.ENOSPC)
        refused = [ErrorCode.KAFKA_STORAGE_ERROR]
        assert codes_of(broker.ask(PRODUCE, version, request(sent[0]))) == refused
        broker.disk.heal()
        behind = rows_of(broker.ask(PRODUCE, version, request(sent[1])))[0]
        assert behind.error_code == refused[0]
        assert "sent sequence 3, and sequence 0 was refused: send both again" in str(behind.error_message)
        asked = [request(sent[0]), request(sent[1], acks=1), request(sent[2])]  # The second is not prepared.
        answers = [rows_of(broker.ask(PRODUCE, version, message))[0] for message in asked]
        assert [(row.error_code, row.base_offset) for row in answers] == [(0, 0), (0, 3), (0, 6)]


async def test_what_comes_behind_a_batch_that_too_few_replicas_refused_is_refused_as_that_was() -> None:
    async with a_broker({"min.insync.replicas": "2"}) as broker:
        await broker.lead("orders")
        partition = broker.parts.replicas.partition("orders", 0)
        partition.replicas = (ME, OTHER)
        assert codes_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch(sequence=0), acks=1))) == [0]
        refused = [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert codes_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch(sequence=3)))) == refused
        partition.replicas = (ME,)
        assert codes_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch(sequence=6)))) == refused
        assert codes_of(broker.ask(PRODUCE, 9, request(an_idempotent_batch(sequence=3)))) == [0]


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)]
)
async def test_what_comes_behind_a_batch_for_a_partition_that_a_started_broker_does_not_know_yet_is_refused_as_that_was(
    version: int, code: ErrorCode
) -> None:
    disk = ForgetfulDisk()
    sent = [an_idempotent_batch(sequence=number * 3) for number in range(3)]
    async with a_broker(disk=disk) as broker:
        await broker.lead("orders")
        assert codes_of(broker.ask(PRODUCE, version, request(sent[0]))) == [0]
        await broker.logs.close()
    async with a_broker(disk=disk) as broker:
        assert codes_of(broker.ask(PRODUCE, version, request(sent[1]))) == [code]
        await broker.lead("orders", epoch=1)
        assert codes_of(broker.ask(PRODUCE, version, request(sent[2]))) == [code], "its sequence is out of order"
        assert [codes_of(broker.ask(PRODUCE, version, request(batch))) for batch in sent[1:]] == [[0], [0]]


async def test_a_failed_directory_takes_its_own_partitions_only() -> None:
    async with a_broker({"log.dirs": "/a,/b"}) as broker:
        await broker.lead("orders", 2)
        lost = broker.parts.replicas.partition("orders", 0).log.log_dir.path
        broker.disk.fail_while(lambda kind, path: kind == "write" and path.startswith(lost + "/"), errno.EIO)
        codes = codes_of(broker.ask(PRODUCE, 9, request(a_batch(), a_batch())))
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
        codes = codes_of(broker.ask(PRODUCE, 9, request(a_batch(), a_batch())))
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


async def test_where_compressed_batches_are_opened_a_bomb_is_too_large() -> None:
    bomb = a_batch(value=bytes(900_000), codec=1)
    assert len(bomb) < 10_000
    async with a_broker({"sordini.validate.compressed": "true", "sordini.expanded.bytes.max": "1000000"}) as broker:
        await broker.lead("orders")
        assert codes_of(broker.ask(PRODUCE, 9, request(bomb))) == [ErrorCode.MESSAGE_TOO_LARGE]
        assert end_of(broker) == 0
    async with a_broker() as broker:
        await broker.lead("orders")
        assert codes_of(broker.ask(PRODUCE, 9, request(bomb))) == [0], "without validation it is not decompressed"


async def test_an_unknown_topic_id_is_refused() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert codes_of(broker.ask(PRODUCE, 13, request(a_batch(), topic="nothing"))) == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_an_old_clients_empty_message_set_is_nothing_written() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        (row,) = rows_of(broker.ask(PRODUCE, 2, request(b"")))
        assert (row.error_code, row.base_offset) == (0, -1)
        assert end_of(broker) == 0
