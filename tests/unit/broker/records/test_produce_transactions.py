"""Transactional batches enter a log only in an ongoing transaction that has its partition (KIP-890)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.broker.transactions.verification import OnVerified, PartitionsQuestion
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.types import LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import LeaderAndIsr, PartitionInfo, PartitionState
from sordini.replication.partition import Partition
from tests.support.parts import examples
from tests.support.transaction_requests import (
    UNVERIFIED,
    Producer,
    a_cluster_of_one,
    add_partitions,
    end,
    init,
    mark,
    produce_request,
    produced,
)
from tests.support.unit_broker import ME, OTHER, UnitBroker, answer_of, led, topic_id_of

PRODUCE = ApiKey.PRODUCE
VERSION = 9
ROUNDS_MAX = 100


class HeldVerifier:
    """A coordinator that answers when the test says so. Fakes the port `TransactionVerifier`."""

    def __init__(self, broker: UnitBroker) -> None:
        self.asked: list[tuple[int, int, tuple[TopicPartition, ...], OnVerified]] = []
        broker.parts.verification.gate._verifier = self

    def ask(self, question: PartitionsQuestion) -> None:
        assert not question.adds
        self.asked.append((*question.producer, tuple(question.partitions), question.on_done))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest question."""
        _, _, partitions, on_done = self.asked.pop(0)
        on_done(dict.fromkeys(partitions, code))


def orders(broker: UnitBroker, index: int = 0) -> Partition:
    return broker.parts.replicas.partition("orders", index)


def ends(broker: UnitBroker) -> list[int]:
    return [orders(broker, index).log.log_end_offset for index in range(3)]


def produce(
    broker: UnitBroker, producer: Producer, sequences: dict[int, int], version: int = VERSION
) -> dict[int, int]:
    """The codes of a request that is answered at once."""
    return produced(broker.ask(PRODUCE, version, produce_request(producer, sequences)))


def produce_later(broker: UnitBroker, producer: Producer, sequences: dict[int, int], **fields: int) -> DelayedResponse:
    pending = broker.serve(PRODUCE, VERSION, produce_request(producer, sequences, **fields))
    assert isinstance(pending, DelayedResponse)
    return pending


async def codes_of(broker: UnitBroker, pending: DelayedResponse) -> dict[int, int]:
    await broker.settled()
    return produced(answer_of(pending, PRODUCE, VERSION))


async def test_a_batch_of_an_ongoing_transaction_is_appended_at_once() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        assert add_partitions(broker, producer, 0, 1) == [0, 0]
        for sequence in range(3):
            assert produce(broker, producer, {0: sequence, 1: sequence}) == {0: 0, 1: 0}
        assert not broker.tasks
        assert ends(broker) == [3, 3, 0]
        assert end(broker, producer, commit=True) == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_a_batch_outside_of_the_transaction_is_refused(version: int, code: ErrorCode) -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        assert produce(broker, producer, {0: 0}, version) == {0: code}
        add_partitions(broker, producer, 1)
        assert produce(broker, producer, {0: 0, 1: 0}, version) == {0: code, 1: 0}
        assert ends(broker) == [0, 1, 0]


async def follow(broker: UnitBroker, index: int = 0) -> None:
    """Another broker is elected leader of a partition of `orders`, which this one follows."""
    state = PartitionState(OTHER, LeaderEpoch(1), (ME, OTHER), 1)
    info = PartitionInfo(TopicPartition("orders", index), topic_id_of("orders"), (ME, OTHER), state, 0)
    answer = await broker.parts.receiver.receive(LeaderAndIsr(ME, 1, -1, (info,), ()))
    assert (answer.error, dict(answer.partitions)) == (0, {})


@pytest.mark.parametrize("version", [9, 11])
async def test_a_broker_that_does_not_lead_says_so_of_a_transactional_batch(version: int) -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0, 1)
        await follow(broker)
        answer = produce(broker, producer, {0: 0, 1: 0}, version)
        assert answer == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: 0}
        assert produce(broker, producer, {0: 0}, version) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_broker_that_lost_its_leadership_while_the_coordinator_was_asked_says_so() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        pending = produce_later(broker, Producer("t", 7), {0: 0})
        await follow(broker)
        verifier.answer(ErrorCode.INVALID_TXN_STATE)
        for _ in range(ROUNDS_MAX):  # The replica fetcher never ends.
            await broker.run_round()
        assert produced(answer_of(pending, PRODUCE, VERSION)) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_after_the_end_of_a_transaction_the_next_one_is_verified_again() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 0}) == {0: 0}
        assert end(broker, producer, commit=True) == 0
        await broker.settled()
        assert produce(broker, producer, {0: 1}) == {0: ErrorCode.INVALID_TXN_STATE}
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 1}) == {0: 0}


async def test_a_fenced_producer_writes_nothing() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0)
        newer = await init(broker)
        assert produce(broker, producer, {0: 0}) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
        add_partitions(broker, newer, 0)
        assert produce(broker, newer, {0: 0}) == {0: 0}
        assert ends(broker)[0] == 2  # The abort of the former one is a marker.


async def test_a_batch_of_an_epoch_that_was_never_given_keeps_no_other_from_the_log() -> None:
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0)
        assert produce(broker, producer._replace(epoch=9), {0: 0}) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
        unknown = producer._replace(transactional_id="unknown", epoch=9)
        assert produce(broker, unknown, {0: 0}) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert produce(broker, producer, {0: 0}) == {0: 0}


async def test_nothing_is_verified_where_that_is_switched_off() -> None:
    async with a_cluster_of_one(UNVERIFIED) as broker:
        assert produce(broker, Producer("t", 7), {0: 0}) == {0: 0}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    ],
)
async def test_what_may_pass_is_answered_with_a_code_at_which_producers_resend(code: ErrorCode) -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        pending = produce_later(broker, Producer("t", 7), {0: 0})
        verifier.answer(code)
        assert await codes_of(broker, pending) == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
        assert ends(broker)[0] == 0


async def test_without_a_coordinator_producers_resend() -> None:
    async with a_cluster_of_one() as broker:
        broker.parts.metadata.topics[TRANSACTIONS_TOPIC].partitions[0] = led(OTHER)
        assert produce(broker, Producer("t", 7), {0: 0}) == {0: ErrorCode.NOT_ENOUGH_REPLICAS}


async def test_a_request_waits_for_its_coordinator_and_blocks_its_connection_until_it_is_appended() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        pending = produce_later(broker, Producer("t", 7), {0: 0, 1: 0})
        await broker.run_round()
        assert pending.blocks_pipeline
        assert verifier.asked[0][2] == (TopicPartition("orders", 0), TopicPartition("orders", 1))
        assert ends(broker) == [0, 0, 0]
        verifier.answer()
        assert await codes_of(broker, pending) == {0: 0, 1: 0}
        assert not pending.blocks_pipeline
        assert ends(broker) == [1, 1, 0]


async def test_a_marker_between_the_answer_and_the_append_is_noticed() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        pending = produce_later(broker, Producer("t", 7), {0: 0})
        verifier.answer()
        assert mark(broker, 7, commit=False, topic="orders") == 0
        assert await codes_of(broker, pending) == {0: ErrorCode.INVALID_TXN_STATE}
        assert ends(broker)[0] == 1


async def test_a_truncation_between_the_answer_and_the_append_is_noticed() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        mark(broker, 8, commit=True, topic="orders")
        pending = produce_later(broker, Producer("t", 7), {0: 0})
        verifier.answer()
        orders(broker).log.truncate_to(0)
        assert await codes_of(broker, pending) == {0: ErrorCode.INVALID_TXN_STATE}


async def test_a_later_batch_is_not_appended_before_one_whose_verification_failed() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        first = produce_later(broker, Producer("t", 7), {0: 0})
        verifier.answer(ErrorCode.NETWORK_EXCEPTION)
        assert await codes_of(broker, first) == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
        second = produce_later(broker, Producer("t", 7), {0: 1})
        verifier.answer()
        # Not OUT_OF_ORDER_SEQUENCE_NUMBER: the producer sends both again (`RefusedBatches`).
        assert await codes_of(broker, second) == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
        again = produce_later(broker, Producer("t", 7), {0: 0})
        verifier.answer()
        assert await codes_of(broker, again) == {0: 0}
        assert produce(broker, Producer("t", 7), {0: 1}) == {0: 0}


async def test_a_delayed_batch_of_an_earlier_transaction_does_not_stop_its_producer() -> None:
    """It was sent again and is in the log: nothing is missing before the next sequence."""
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 0}) == {0: 0}
        assert end(broker, producer, commit=True) == 0
        await broker.settled()
        assert produce(broker, producer, {0: 0}) == {0: ErrorCode.INVALID_TXN_STATE}, "the delayed one"
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 2}) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
        assert produce(broker, producer, {0: 1}) == {0: 0}


async def test_a_delayed_duplicate_of_a_former_transaction_holds_up_no_batch_of_the_present_one() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        for sequence in (0, 1):
            appended = produce_later(broker, Producer("t", 7), {0: sequence})
            verifier.answer()
            assert await codes_of(broker, appended) == {0: 0}
            assert mark(broker, 7, commit=True, topic="orders") == 0
        delayed = produce_later(broker, Producer("t", 7), {0: 0})
        current = produce_later(broker, Producer("t", 7), {0: 2})
        verifier.answer()
        verifier.answer()
        assert await codes_of(broker, current) == {0: 0}
        assert await codes_of(broker, delayed) == {0: ErrorCode.INVALID_TXN_STATE}
        assert ends(broker)[0] == 5


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_sequences_of_an_ended_transaction_are_no_duplicates_in_the_next_one(
    version: int, code: ErrorCode
) -> None:
    """Its producer gave a batch up that is in the log, aborted, and numbers new records alike."""
    async with a_cluster_of_one() as broker:
        producer = await init(broker)
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 0}) == {0: 0}
        for again in (VERSION, VERSION - 1):  # By the prepared way, and by the general one.
            assert produce(broker, producer, {0: 0}, again) == {0: 0}, "repeated within its transaction"
        end(broker, producer, commit=False)
        await broker.settled()
        add_partitions(broker, producer, 0)
        assert produce(broker, producer, {0: 0}, version) == {0: code}
        assert produce(broker, producer, {0: 1}) == {0: 0}
        assert produce(broker, producer, {0: 1}) == {0: 0}


async def test_batches_of_several_producers_in_one_request_are_refused() -> None:
    async with a_cluster_of_one() as broker:
        request = produce_request(Producer("t", 7), {0: 0})
        request.topic_data[0].partition_data += produce_request(Producer("t", 8), {1: 0}).topic_data[0].partition_data
        answer = produced(broker.ask(PRODUCE, VERSION, request))
        assert answer == dict.fromkeys((0, 1), ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def of_two_producers(count: int, *, acks: int) -> ProduceRequest:
    """A request for so many partitions of `wide`, whose last batch is another producer's."""
    request = produce_request(Producer("t", 7), dict.fromkeys(range(count - 1), 0), topic="wide", acks=acks)
    other = produce_request(Producer("t", 8), {count - 1: 0}, topic="wide", acks=acks)
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    return request


async def test_without_acks_a_request_that_is_refused_as_a_whole_closes_the_connection_and_is_not_answered() -> None:
    async with a_cluster_of_one() as broker:
        await broker.lead("wide", 450)
        with pytest.raises(WireError, match="acks=0 was refused: INVALID_PRODUCER_ID_MAPPING"):
            broker.serve(PRODUCE, VERSION, of_two_producers(2, acks=0))
        failures: list[Exception] = []
        pending = broker.serve(PRODUCE, VERSION, of_two_producers(450, acks=0))
        assert isinstance(pending, DelayedResponse)
        pending.on_failure = failures.append
        await broker.settled()
        assert [type(failure) for failure in failures] == [WireError]
        assert (pending.is_answered, pending.parts) == (True, None)


async def test_a_transactional_batch_needs_a_transactional_id() -> None:
    async with a_cluster_of_one() as broker:
        request = produce_request(Producer("t", 7), {0: 0})
        request.transactional_id = None
        answer = produced(broker.ask(PRODUCE, VERSION, request))
        assert answer == {0: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


async def test_a_request_with_many_partitions_is_looked_at_in_slices() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        await broker.lead("wide", 450)
        pending = broker.serve(
            PRODUCE, VERSION, produce_request(Producer("t", 7), dict.fromkeys(range(450), 0), topic="wide")
        )
        assert isinstance(pending, DelayedResponse)
        assert not verifier.asked
        while not verifier.asked:
            await broker.run_round()
        verifier.answer()
        assert set((await codes_of(broker, pending)).values()) == {0}


async def test_the_prepared_way_serves_all_batches_of_a_transaction_but_the_first() -> None:
    async with a_cluster_of_one() as broker:
        verifier = HeldVerifier(broker)
        producer = Producer("t", 7)
        for transaction in range(3):
            pending = produce_later(broker, producer, {0: 2 * transaction})
            verifier.answer()
            assert await codes_of(broker, pending) == {0: 0}
            assert produce(broker, producer, {0: 2 * transaction + 1}) == {0: 0}
            assert not verifier.asked
            assert mark(broker, 7, commit=True, topic="orders") == 0


class Begin(NamedTuple):
    """The coordinator adds the partition to the producer's transaction."""

    producer_id: int


class Finish(NamedTuple):
    """The coordinator ends the transaction, and its marker is written."""

    producer_id: int
    commit: bool


class Produce(NamedTuple):
    producer_id: int


class Deliver(NamedTuple):
    """The oldest answer of the coordinator arrives."""


Step = Begin | Finish | Produce | Deliver
producer_ids = st.sampled_from((7, 8))
STEPS = st.lists(
    st.builds(Begin, producer_ids)
    | st.builds(Finish, producer_ids, st.booleans())
    | st.builds(Produce, producer_ids)
    | st.builds(Deliver),
    max_size=20,
)


class Coordinator(HeldVerifier):
    """Answers what was right when it was asked, however late."""

    def __init__(self, broker: UnitBroker) -> None:
        super().__init__(broker)
        self.ongoing: set[int] = set()
        self.codes: list[ErrorCode] = []

    def ask(self, question: PartitionsQuestion) -> None:
        super().ask(question)
        is_ongoing = question.producer.producer_id in self.ongoing
        self.codes.append(ErrorCode.NONE if is_ongoing else ErrorCode.TRANSACTION_ABORTABLE)

    def deliver(self) -> None:
        if self.asked:
            self.answer(self.codes.pop(0))


@settings(deadline=None, max_examples=examples(200))
@given(STEPS)
def test_no_batch_is_ever_appended_without_an_ongoing_transaction(steps: list[Step]) -> None:
    async def run() -> None:
        async with a_cluster_of_one() as broker:
            coordinator = Coordinator(broker)
            sequences = {7: 0, 8: 0}
            log = orders(broker).log
            for step in [*steps, *[Deliver()] * len(steps)]:
                had = set(coordinator.ongoing)
                before = {number: log.producers.has_open(number, 0) for number in sequences}
                match step:
                    case Begin(producer_id):
                        coordinator.ongoing.add(producer_id)
                    case Finish(producer_id, commit) if producer_id in coordinator.ongoing:
                        coordinator.ongoing.discard(producer_id)
                        assert mark(broker, producer_id, commit=commit, topic="orders") == 0
                    case Produce(producer_id):
                        sent = Producer("t", producer_id)
                        broker.serve(PRODUCE, VERSION, produce_request(sent, {0: sequences[producer_id]}))
                    case Deliver():
                        coordinator.deliver()
                for _ in range(4):
                    await broker.run_round()
                for entry in log.producers.entries():
                    if entry.last_sequence >= sequences[entry.producer_id]:
                        assert entry.producer_id in had, "a batch was appended outside of a transaction"
                        sequences[entry.producer_id] = entry.last_sequence + 1
                for producer_id, was_open in before.items():
                    is_open = log.producers.has_open(producer_id, 0)
                    assert was_open or not is_open or producer_id in had
                    assert producer_id in coordinator.ongoing or not is_open, "nothing will ever end it"

    asyncio.run(run())
