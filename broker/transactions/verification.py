"""Whether a transactional batch may be appended: asked of the transaction's coordinator before the first one (KIP-890).

    begin(batches) --- nothing to verify ---> append at once
          |
          +-- the coordinator is asked, here or elsewhere --> on_done --> check(batch) --> append, without an await

A batch of a transaction that is open in the log is not verified: its coordinator knew the partition when the first
batch was appended, and the transaction cannot end without a marker here. The guards are those of
`storage/transaction_verification.py`. No clock, no network.

A producer of transaction.version 2 does not name its partitions to the coordinator: for its batches the coordinator
adds the partition to the transaction, and the first batch of an epoch has the first sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from sordini.broker.coordinators.journal import TransactionalProducer
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.storage.transaction_verification import TransactionVerifications, VerificationGuard
from sordini.system.named_tuple import NamedTuple

OnVerified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Called once, maybe before `ask` returns: the partitions that do not belong to the ongoing transaction, and why."""

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Answers after which the same batch may be verified later."""
REFUTED: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED})
"""Answers after which no batch of the same producer id and epoch will be verified."""


class PartitionsQuestion(NamedTuple):
    """Whether partitions are in the ongoing transaction of a producer; `on_done` is called once, perhaps at once."""

    transactional_id: str
    producer: TransactionalProducer
    partitions: Sequence[TopicPartition]
    on_done: OnVerified
    adds: bool = False
    """The partitions are added to the transaction; else it is only verified that they are in it."""

    def answer(self, code: ErrorCode) -> None:
        """The same for all partitions."""
        self.on_done(dict.fromkeys(self.partitions, code))


class TransactionVerifier(Protocol):
    """The coordinators of all transactional ids, wherever they are."""

    def ask(self, question: PartitionsQuestion) -> None:
        """Answer a question, now or later. Raises nothing."""


class Batch(NamedTuple):
    """A transactional batch that is to be appended, by what its check needs."""

    partition: Partition
    sequence: int


class Verification:
    """The verification of one request's batches, all of one producer."""

    def __init__(self, producer: TransactionalProducer, guards: Mapping[TopicPartition, VerificationGuard]) -> None:
        self.producer = producer
        self._guards = guards
        self._codes: Mapping[TopicPartition, ErrorCode] | None = None
        self.on_done: Callable[[], None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the coordinator has answered."""
        return self._codes is not None

    def answered(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        assert self._codes is None, "a verification was answered twice"
        self._codes = codes
        if self.on_done is not None:
            self.on_done()

    def guard_of(self, partition: TopicPartition, verifications: TransactionVerifications) -> VerificationGuard | None:
        """The guard of a partition that was verified; None for one that was not asked for.

        Raises BrokerError with the coordinator's code. A guard of an epoch that the coordinator does not know is
        dropped then from the partition's `verifications`: while it is there, none of a lower epoch is current.
        """
        assert self._codes is not None, "the coordinator has not answered yet"
        code = self._codes.get(partition)
        if code:
            if code in REFUTED:
                verifications.drop(self.producer.producer_id, self._guards.get(partition))
            raise BrokerError(code, f"the coordinator does not have {partition} in the transaction: {code.name}")
        return self._guards.get(partition)


class TransactionGate:
    """Admits transactional batches to the logs of this broker."""

    def __init__(
        self, verifier: TransactionVerifier, is_enabled: Callable[[], bool], *, raises_epochs: bool = False
    ) -> None:
        """`is_enabled`: transaction.partition.verification.enable; `raises_epochs`: transaction.version is 2."""
        self._verifier = verifier
        self._is_enabled = is_enabled
        self._raises_epochs = raises_epochs

    def adds_for(self, version: int, first_version: int) -> bool:
        """Whether a request of this version is of a producer of transaction.version 2."""
        return self._raises_epochs and version >= first_version

    def admits_at_once(self, partition: Partition, producer_id: int, producer_epoch: int) -> bool:
        """Whether a batch needs no verification: its transaction is open here, or nothing is verified at all."""
        return partition.log.producers.has_open(producer_id, producer_epoch) or not (
            self._raises_epochs or self._is_enabled()
        )

    def begin(
        self, transactional_id: str, producer: TransactionalProducer, batches: Sequence[Batch], *, adds: bool
    ) -> Verification | None:
        """Ask the coordinator for the batches that need it; None where none does.

        With `adds` it adds their partitions to the transaction.
        """
        if not adds and not self._is_enabled():
            return None
        guards = {}
        for partition, sequence in batches:
            producers = partition.log.producers
            if not producers.has_open(*producer):
                guards[partition.name] = producers.verifications.begin(*producer, sequence)
        if not guards:
            return None
        verification = Verification(producer, guards)
        self._verifier.ask(PartitionsQuestion(transactional_id, producer, list(guards), verification.answered, adds))
        return verification

    def check(
        self,
        batch: Batch,
        transactional_id: str | None,
        producer: TransactionalProducer,
        verification: Verification | None,
        *,
        adds: bool,
    ) -> None:
        """Check a batch right before its append; `verification` is what `begin` returned for it, answered since.

        Raises BrokerError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, the coordinator's code,
        INVALID_TXN_STATE when the transaction has ended meanwhile, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if transactional_id is None:
            raise BrokerError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch needs a transactional id"
            )
        producers = batch.partition.log.producers
        if producers.has_open(*producer) or not (adds or self._is_enabled()):
            return
        if verification is None or verification.producer != producer:
            producers.verifications.check(producer.producer_id, None, batch.sequence)
            return
        guard = verification.guard_of(batch.partition.name, producers.verifications)
        is_next = producers.expects(*producer, batch.sequence)
        producers.verifications.check(producer.producer_id, guard, batch.sequence, is_next=is_next)
        if adds:
            producers.check_first(producer.producer_id, batch.sequence)
