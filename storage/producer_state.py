"""The producers of one log: whether a batch is new, a duplicate, or out of order. Pure.

A producer numbers its records per partition. The last five batches of each are kept (KIP-98, for five requests in
flight), so that a resent batch gets the offset that it already has. A producer with an older epoch than its last one is
fenced: a zombie's append gets INVALID_PRODUCER_EPOCH. Open transactions are noted here, too; what they mean for readers
is in `last_stable_offset.py`.

The number of producers is bounded. Forgetting one is safe when no retry of its batches can be in flight: the next batch
of an unknown producer is accepted with any sequence (KIP-360). So at the bound a leader forgets producers that have
been silent for SILENT_MS, longest first, and refuses a new one when there are none. The offset of a producer's last
batch tells how long it has been silent; its timestamps are the client's. Followers and recovery refuse nothing: they
keep the producers with the latest batches, which include a leader's.

Invariants:
  - `check` changes nothing; `apply` is called for every batch that is in the log, in order, and for nothing else;
  - so the state is a fold over the log, and a snapshot at an offset plus the batches from there restore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.storage.last_stable_offset import UnstableTransactions
from sordini.storage.transaction_verification import TransactionVerifications
from sordini.system.named_tuple import NamedTuple

WINDOW = 5
SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1
NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
NO_OFFSET = -1

SILENT_MS = 600_000
"""Five times the `delivery.timeout.ms` of Apache Kafka's producer, after which a client does not resend a batch."""
REFUSAL_MS = 1000
"""How long new producers are refused before the next search for silent ones, which reads all producers."""


class SentBatch(NamedTuple):
    """One batch of a producer in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(NamedTuple):
    """A producer as a snapshot holds it: with its last batch only."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted; `last_offset` is its marker's, the stable offset the one after the abort."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class LoggedProducer:
    """One producer's state; `sent` holds its newest batches, oldest first."""

    __slots__ = (
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "marker_offset",
        "sent",
        "timestamp",
        "transaction_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.last_sequence = NO_SEQUENCE
        self.sent: list[SentBatch] = []
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = NO_OFFSET
        self.marker_offset = NO_OFFSET

    @property
    def last_offset(self) -> int:
        """The offset of its last known batch or marker."""
        return max(self.sent[-1].last_offset if self.sent else NO_OFFSET, self.marker_offset)


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number `count` records later: they start again at 0 after 2^31 - 1."""
    return (sequence + count) & SEQUENCE_MAX


class ProducerState:
    """All producers of one log."""

    __slots__ = ("_full_since_ms", "_newer_mark", "_older_mark", "_open", "_producers", "unstable", "verifications")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._producers: dict[int, LoggedProducer] = {}
        self.unstable = UnstableTransactions()
        self._open = self.unstable.open
        self._older_mark = self._newer_mark = (0, 0)
        """Two times (ms) with the log end offset at each; the older is SILENT_MS ago or longer."""
        self._full_since_ms: int | None = None
        self.verifications = TransactionVerifications()
        """Of transactions that have no batch here yet: no part of what the log holds."""
        for entry in sorted(entries, key=lambda entry: entry.transaction_first_offset):
            self._restore(entry)

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def has_transactions(self) -> bool:
        """Whether a producer known here has a transaction open, or ever ended one here."""
        return bool(self._open) or any(producer.coordinator_epoch >= 0 for producer in self._producers.values())

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> SentBatch | None:
        """Check a client's batch: None when it is to be appended, the batch in the log when it is a duplicate.

        Raises BrokerError INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER. An unknown producer
        may start at any sequence: its state may have expired with its records (KIP-360).
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch == NO_EPOCH:  # `takes_any_sequence`, without a call.
            return None
        if epoch != producer.epoch:
            self.check_epoch(producer_id, epoch)
            if base_sequence != 0:
                raise BrokerError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} starts epoch {epoch} at sequence {base_sequence}, not at 0",
                )
            return None
        if base_sequence == (producer.last_sequence + 1) & SEQUENCE_MAX:
            return None
        for sent in producer.sent:
            if sent.first_sequence == base_sequence and sent.last_sequence == last_sequence:
                return sent
        raise BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} sent sequence {base_sequence}, its last was {producer.last_sequence}",
        )

    def takes_any_sequence(self, producer_id: int) -> bool:
        """Whether the next batch of this producer may have any sequence: none of it is known here."""
        producer = self._producers.get(producer_id)
        return producer is None or producer.epoch == NO_EPOCH

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raises BrokerError INVALID_PRODUCER_EPOCH for a producer that is fenced."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}, the batch was sent with {epoch}",
            )

    def expects(self, producer_id: int, epoch: int, base_sequence: int) -> bool:
        """Whether this is the next batch of a known producer without an open transaction: the checks accept it."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.epoch == epoch
            and base_sequence == (producer.last_sequence + 1) & SEQUENCE_MAX
            and producer_id not in self._open
        )

    def known(self) -> dict[int, int]:
        """Epoch by producer id."""
        return {producer_id: producer.epoch for producer_id, producer in self._producers.items()}

    def refill(self, producer_id: int, batches: list[SentBatch]) -> None:
        """Restore the window of a producer that came from a snapshot, which has its last batch only.

        `batches` are its newest ones of the current epoch, oldest first; ignored unless they end with that batch.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and producer.sent and producer.sent[-1][:4] == batches[-1][:4]:
            producer.sent = batches[-WINDOW:]

    def last_offset_of(self, producer_id: int) -> int:
        """The offset of a producer's last known batch or marker; -1 for none."""
        producer = self._producers.get(producer_id)
        return NO_OFFSET if producer is None else producer.last_offset

    def knows(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def mark(self, now_ms: int, end_offset: int) -> None:
        """Note the current log end offset. To be called periodically, and before `make_room`."""
        if abs(now_ms - self._newer_mark[0]) >= SILENT_MS:
            self._older_mark, self._newer_mark = self._newer_mark, (now_ms, end_offset)

    def make_room(self, now_ms: int, producers_max: int) -> None:
        """Forget silent producers, when a leader accepts a new one beyond `producers_max`.

        Raises BrokerError KAFKA_STORAGE_ERROR when none is silent: nothing is appended, and clients retry.
        """
        if self._full_since_ms is None or not 0 <= now_ms - self._full_since_ms < REFUSAL_MS:
            silent = self._by_last_offset(below=self._older_mark[1])
            for producer_id in silent[: len(self._producers) - producers_max + 1 + producers_max // 16]:
                del self._producers[producer_id]
            self._full_since_ms = None if silent else now_ms
        if self._full_since_ms is not None:
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the partition has {producers_max} producers (sordini.partition.producers.max), and none is silent",
            )

    def trim(self, producers_max: int) -> None:
        """Keep the bound on followers and in recovery, with some slack so that it is rarely computed."""
        surplus = len(self._producers) - producers_max
        if surplus > producers_max // 4 and len(self._producers) - len(self._open) > producers_max // 4:
            for producer_id in self._by_last_offset()[:surplus]:
                del self._producers[producer_id]

    def check_transaction(self, producer_id: int, *, is_transactional: bool) -> None:
        """Refuse a batch outside the transaction that its producer has open (INVALID_TXN_STATE)."""
        if not is_transactional and producer_id in self._open:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has a transaction open in this partition"
            )

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer is open in the log, with records of this epoch.

        One of an earlier epoch is over, and its marker is still to come.
        """
        return producer_id in self._open and self._producers[producer_id].epoch == epoch

    def check_first(self, producer_id: int, base_sequence: int) -> None:
        """Refuse the first batch of a producer that is not known here unless it has the first sequence.

        Raises BrokerError OUT_OF_ORDER_SEQUENCE_NUMBER. For producers whose sequences begin anew in each transaction.
        """
        if base_sequence > 0 and producer_id not in self._producers:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins a transaction at sequence {base_sequence}, not at 0",
            )

    def check_open(self, producer_id: int) -> None:
        """Refuse to end a transaction that is not open (CLUSTER_AUTHORIZATION_FAILED): only a coordinator may."""
        if producer_id not in self._open:
            raise BrokerError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"producer {producer_id} has no transaction open here"
            )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, is_epoch_raised: bool = False
    ) -> None:
        """Check the end of a transaction before it is written.

        With `is_epoch_raised` its epoch is higher than that of the records (KIP-890 part 2), unless that is the last
        one: so a marker that is delayed does not end the producer's next transaction.

        Raises BrokerError INVALID_PRODUCER_EPOCH for a producer that was fenced since, TRANSACTION_COORDINATOR_FENCED
        for a coordinator that was replaced.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        is_repeated = is_epoch_raised and epoch == producer.epoch != EPOCH_MAX and producer_id in self._open
        if epoch < producer.epoch or is_repeated:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}, the marker was sent with {epoch}",
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id} has a coordinator of epoch {producer.coordinator_epoch}, not "
                f"{coordinator_epoch}",
            )

    def apply(self, producer_id: int, epoch: int, sent: SentBatch, *, is_transactional: bool) -> None:
        """Note a data batch that is in the log."""
        producer = self._producers.get(producer_id) or self._of(producer_id)
        if epoch != producer.epoch:
            producer.epoch = epoch
            producer.sent = []
        batches = producer.sent
        batches.append(sent)
        if len(batches) > WINDOW:
            del batches[0]
        producer.last_sequence = sent.last_sequence
        producer.timestamp = sent.timestamp
        if is_transactional and producer.transaction_first_offset == NO_OFFSET:
            producer.transaction_first_offset = sent.first_offset
            self._open[producer_id] = sent.first_offset
            self.verifications.end(producer_id)

    def apply_marker(
        self, producer_id: int, epoch: int, offset: int, timestamp: int, coordinator_epoch: int, *, commit: bool
    ) -> AbortedTransaction | None:
        """Note the control record that ended a transaction; the transaction, if it was aborted."""
        self.verifications.end(producer_id)
        producer = self._of(producer_id)
        if epoch != producer.epoch:
            producer.epoch = epoch
            producer.sent = []
            producer.last_sequence = NO_SEQUENCE
        producer.timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.marker_offset = offset
        first_offset = producer.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        producer.transaction_first_offset = NO_OFFSET
        self.unstable.end(producer_id, first_offset, offset)
        if commit:
            return None
        stable = next(iter(self._open.values()), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without a batch for `expiration_ms` and without an open transaction; their number."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if now_ms - producer.timestamp >= expiration_ms and producer_id not in self._open
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def entries(self) -> Iterator[ProducerEntry]:
        """Every producer as a snapshot holds it."""
        for producer_id, producer in self._producers.items():
            last = producer.sent[-1] if producer.sent else None
            yield ProducerEntry(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                NO_OFFSET if last is None else last.last_offset,
                0 if last is None else last.last_offset - last.first_offset,
                producer.timestamp,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )

    def _by_last_offset(self, below: int | None = None) -> list[int]:
        """Producers without an open transaction, the one that has been silent for longest first."""
        offsets = {
            producer_id: producer.last_offset
            for producer_id, producer in self._producers.items()
            if producer_id not in self._open
        }
        found = [producer_id for producer_id, offset in offsets.items() if below is None or offset < below]
        return sorted(found, key=offsets.__getitem__)

    def _of(self, producer_id: int) -> LoggedProducer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = LoggedProducer()
        return producer

    def _restore(self, entry: ProducerEntry) -> None:
        producer = self._of(entry.producer_id)
        producer.epoch = entry.epoch
        producer.last_sequence = entry.last_sequence
        producer.timestamp = entry.timestamp
        producer.coordinator_epoch = entry.coordinator_epoch
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
            first_offset = entry.last_offset - entry.offset_delta
            sent = SentBatch(first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp)
            producer.sent = [sent]
        if entry.transaction_first_offset >= 0:
            producer.transaction_first_offset = entry.transaction_first_offset
            self._open[entry.producer_id] = entry.transaction_first_offset
