"""A simulated transactional id: its machine, a clock, a log whose writes complete on command, and partitions.

Used by the transactions' transcripts and laws. The simulation does what the shell does (carry actions out in order, tick
when something is due) and checks the contract: every request is answered once, the invariants hold after every step
(`machine.check_invariants`), and what is committed, read back, is the transaction that a new coordinator restores.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from sordini.broker.transactions import records
from sordini.broker.transactions.machine import machine
from sordini.broker.transactions.machine.events import (
    Action,
    AddPartitions,
    EndTransaction,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    ProducerIdentity,
    SendMarkers,
    Tick,
    TimedOut,
    TransactionAnswer,
    TransactionLimits,
    TransactionReply,
    TransactionWrite,
    WriteCommitted,
    WriteRefused,
)
from sordini.broker.transactions.machine.state import NO_EPOCH, Caller, Transaction
from sordini.broker.transactions.records import (
    FLEXIBLE_VALUE_VERSION,
    NO_PRODUCER_ID,
    STATE_NAMES,
    VALUE_VERSION,
    TransactionValue,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

EPOCH_MS = 1_700_000_000_000
"""The clock at the start."""
ID = "t"
IDLE_TICKS_MAX = 5


@dataclass
class World:
    """`said` collects one line for each answer, write and marker since it was last read."""

    limits: TransactionLimits = field(default_factory=TransactionLimits)
    transaction: Transaction = field(default_factory=lambda: Transaction(ID))
    now_ms: int = EPOCH_MS
    is_exclusive: bool = False
    """sordini.cluster.exclusive: records have version 1."""
    client_version: int = 0
    """The transaction.version of requests."""
    log_waits: bool = False
    """Writes are committed on command."""
    markers_wait: bool = False
    """Markers are written on command."""
    said: list[str] = field(default_factory=list)
    producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    """What each client was given last."""
    former: dict[str, list[ProducerIdentity]] = field(default_factory=dict)
    """What each client was given before."""
    waiting: dict[Caller, str] = field(default_factory=dict)
    write: TransactionWrite | None = None
    markers: SendMarkers | None = None
    folded: TransactionValue | None = None
    """What the committed records leave."""
    history: list[TransactionValue | None] = field(default_factory=list)
    """The committed records."""
    ends: dict[Caller, tuple[ProducerIdentity, bool]] = field(default_factory=dict)
    """Requests to end a transaction: as which producer, and whether it commits."""
    decided: set[tuple[ProducerIdentity, bool]] = field(default_factory=set)
    """Those that were carried out."""
    ends_of_0: set[Caller] = field(default_factory=set)
    """Requests to end a transaction of version 0, which does not raise the epoch."""
    repeated: set[tuple[ProducerIdentity, bool]] = field(default_factory=set)
    """Those that were carried out, as the producers which they left: a client of version 0 may end with the new epoch what it
    has ended with the former one."""
    markers_sent: list[SendMarkers] = field(default_factory=list)
    errors: list[ErrorCode] = field(default_factory=list)
    next_producer_id: int = 1000
    requests: int = 0

    @property
    def value_version(self) -> int:
        return FLEXIBLE_VALUE_VERSION if self.is_exclusive else VALUE_VERSION

    # Clients.

    def init(self, client: str, *, timeout_ms: int = 60_000, keeps: bool = False) -> None:
        """Start, or with `keeps` raise the own epoch."""
        expected = self.producers.get(client) if keeps else None
        self._submit(InitProducerId(self._caller(client), timeout_ms, expected))

    def add(self, client: str, *partitions: TopicPartition) -> None:
        names = frozenset(partitions)
        self.apply(AddPartitions(self._caller(client), self.producer(client), names, self.client_version))

    def end(self, client: str, *, commits: bool, producer: ProducerIdentity | None = None) -> None:
        """End the transaction, as the producer that the client is or was."""
        named, caller = producer or self.producer(client), self._caller(client)
        self.ends[caller] = named, commits
        if self.client_version == 0:
            self.ends_of_0.add(caller)
        self._submit(EndTransaction(caller, named, commits, self.client_version))

    def producer(self, client: str) -> ProducerIdentity:
        return self.producers.get(client, ProducerIdentity(7, 0))

    def _submit(self, request: InitProducerId | EndTransaction) -> None:
        if machine.needs_producer_id(self.transaction, request, self.limits):
            self.next_producer_id += 1
            request = request._replace(new_producer_id=self.next_producer_id)
        self.apply(request)

    def _caller(self, client: str) -> Caller:
        self.requests += 1
        caller = Caller(self.requests)
        self.waiting[caller] = client
        return caller

    # Time, log, markers, and the broker.

    def wait(self, duration_ms: int) -> None:
        """Let time pass, ticking when something is due."""
        until_ms, idle = self.now_ms + duration_ms, 0
        while (due_ms := machine.next_due_ms(self.transaction)) is not None and due_ms <= until_ms:
            idle = idle + 1 if due_ms <= self.now_ms else 0
            assert idle < IDLE_TICKS_MAX, "ticks without effect"
            self.now_ms = max(self.now_ms, due_ms)
            self.apply(Tick())
        self.now_ms = until_ms

    def expire(self) -> None:
        self.apply(Expire())

    def log_answers(self, error: ErrorCode | None = None) -> None:
        """The write in flight is committed, or with an error refused."""
        write, self.write = self.write, None
        assert write is not None, "no write is in flight"
        if error is not None:
            if write.reply is not None:
                self._answered(write.reply.caller, TransactionAnswer(error))
            self.apply(WriteRefused())
            return
        self.folded = None if write.value is None else read_back(write.value, self.value_version)
        self.history.append(self.folded)
        if write.reply is not None and write.reply.caller in self.ends:
            end = self.ends[write.reply.caller]
            self.decided.add(end)
            self.repeated.add((producer_after(self.folded), end[1]))
        self.apply(WriteCommitted())
        if write.reply is not None:
            self._answered(*write.reply)

    def write_markers(self) -> None:
        """Every partition gets the marker."""
        assert self.markers is not None, "no markers are being written"
        self.markers = None
        self.apply(MarkersWritten())

    def load(self, value: TransactionValue) -> None:
        """A coordinator that finds this record."""
        self.folded = value
        self.restart()

    def restart(self) -> None:
        """Another coordinator loads what is committed; requests that wait are answered NOT_COORDINATOR."""
        if self.write is not None and self.write.reply is not None:
            self._answered(self.write.reply.caller, TransactionAnswer(ErrorCode.NOT_COORDINATOR))
        self.write = self.markers = None
        self.transaction = Transaction(ID) if self.folded is None else machine.restored(ID, self.folded)
        for action in machine.resume(self.transaction):
            self._carry_out(action)

    # Steps.

    def apply(self, event: Event) -> None:
        self.transaction, actions = machine.step(self.transaction, event, self.now_ms, self.limits)
        self.check()
        for action in actions:
            self._carry_out(action)
        if machine.is_finished(self.transaction):
            self.transaction = Transaction(ID)

    def check(self) -> None:
        machine.check_invariants(self.transaction)
        if self.folded is not None:
            kept = machine.restored(ID, self.folded)
            volatile = {"last_epoch", "pending", "retry_ms", "has_markers"}
            if not self.value_version:
                volatile.add("previous_producer_id")
            fields = [one.name for one in dataclasses.fields(Transaction) if one.name not in volatile]
            assert [getattr(kept, name) for name in fields] == [getattr(self.transaction, name) for name in fields]

    def _carry_out(self, action: Action) -> None:
        match action:
            case TransactionReply(caller, answer):
                self._answered(caller, answer)
            case TransactionWrite(value):
                assert self.write is None, "two writes in flight"
                self.write = action
                self.said.append(f"write {described(value)}")
                if not self.log_waits:
                    self.log_answers()
            case SendMarkers(producer, commits, partitions):
                self.markers = action
                self.markers_sent.append(action)
                self._check_decided(action)
                names = ",".join(str(one) for one in sorted(partitions)) or "none"
                end = "commit" if commits else "abort"
                self.said.append(f"markers {end} id={producer.producer_id} epoch={producer.epoch} {names}")
                if not self.markers_wait:
                    self.write_markers()
            case TimedOut(producer, timeout_ms):
                self.said.append(f"timed out epoch={producer.epoch} after {timeout_ms}ms")

    def _check_decided(self, markers: SendMarkers) -> None:
        """Markers are those of a decision that is in the log."""
        decided = self.folded
        assert decided is not None
        assert STATE_NAMES[decided.state] == ("PrepareCommit" if markers.commits else "PrepareAbort")
        assert ProducerIdentity(decided.producer_id, decided.producer_epoch) == markers.producer
        assert frozenset(decided.partitions) == markers.partitions
        assert decided.client_version == markers.client_version

    def _answered(self, caller: Caller, answer: TransactionAnswer) -> None:
        client = self.waiting.pop(caller)
        self.errors.append(answer.error)
        if caller in self.ends and answer.error is ErrorCode.NONE:
            decided = self.decided | self.repeated if caller in self.ends_of_0 else self.decided
            assert self.ends[caller] in decided, "the end was decided by no request of this producer"
        line = f"reply {client} {answer.error.name}"
        if answer.producer is not None:
            if client in self.producers:
                self.former.setdefault(client, []).append(self.producers[client])
            self.producers[client] = answer.producer
            line += f" id={answer.producer.producer_id} epoch={answer.producer.epoch}"
        self.said.append(line)


def producer_after(decided: TransactionValue | None) -> ProducerIdentity:
    """What a decided transaction leaves its client as."""
    assert decided is not None
    if decided.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdentity(decided.next_producer_id, 0)
    return ProducerIdentity(decided.producer_id, decided.producer_epoch)


def read_back(value: TransactionValue, version: int) -> TransactionValue:
    """What a coordinator reads of what this one wrote."""
    read = records.read_value(records.transaction_value(value, version))
    assert read == (value if version else value._replace(previous_producer_id=NO_PRODUCER_ID))
    return read


def described(value: TransactionValue | None) -> str:
    if value is None:
        return "tombstone"
    names = ",".join(str(one) for one in value.partitions)
    line = f"{STATE_NAMES[value.state]} id={value.producer_id} epoch={value.producer_epoch}"
    if value.next_producer_id != NO_PRODUCER_ID:
        line += f" next-id={value.next_producer_id}"
    return f"{line} {names}" if names else line


def state_line(transaction: Transaction) -> str:
    """The state after a story's commands."""
    if not transaction.is_known and transaction.pending is None:
        return "= unknown"
    line = f"= {transaction.state_name} id={transaction.producer_id} epoch={transaction.producer_epoch}"
    if transaction.last_epoch != NO_EPOCH:
        line += f" last-epoch={transaction.last_epoch}"
    if transaction.partitions:
        line += " " + ",".join(str(one) for one in sorted(transaction.partitions))
    if transaction.pending is not None:
        line += f" (writing {transaction.pending.state_name} epoch={transaction.pending.producer_epoch})"
    return line
