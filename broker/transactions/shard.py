"""The transactional ids of one partition of __transaction_state, while this broker leads it. A `ShardState`.

Events go through the machine one at a time, in the order of their arrival, and its actions are carried out here:
answers to requests, writes to the journal, markers, log lines. A transactional id is kept until it expires.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import assert_never

from sordini.broker.coordinators.event_queue import EventQueue
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.broker.coordinators.shard import Shard
from sordini.broker.coordinators.write_errors import WRITE_ERRORS
from sordini.broker.transactions import records
from sordini.broker.transactions.held_requests import HeldRequests, OnAnswer, Waiting
from sordini.broker.transactions.limits import TransactionCounts
from sordini.broker.transactions.machine import machine
from sordini.broker.transactions.machine.events import (
    Action,
    AddPartitions,
    EndTransaction,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    Request,
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
from sordini.broker.transactions.machine.state import Caller, Transaction
from sordini.broker.transactions.marker_sender import MarkerSender
from sordini.broker.transactions.producer_connections import ProducerConnections, is_by_epoch
from sordini.broker.transactions.transaction_end import TransactionEnd
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

RESUMED_PER_SLICE = 50
"""Deadlines and markers of loaded transactions, before the loop serves other requests."""


class TransactionShardDeps(NamedTuple):
    """What all shards of the transaction coordinator share."""

    ports: Ports
    limits: TransactionLimits
    counts: TransactionCounts
    producer_ids: ProducerIdManager
    markers: MarkerSender
    value_version: int
    """Of the records."""
    accepted_connections: Callable[[], int] | None
    """The count of connections that this broker has accepted; None where requests may come on older connections."""


class TransactionShard:
    """One partition's transactional ids."""

    def __init__(self, shard: Shard[TransactionShard], deps: TransactionShardDeps) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._shard = shard
        self._deps = deps
        self._log = deps.ports.log
        self._numbers = count(1)
        self._callers: dict[Caller, Waiting] = {}
        self._events: EventQueue[Event] = EventQueue(self._step)
        self._is_unloaded = False
        self._ends: dict[str, TransactionEnd] = {}
        """Prepared transactions whose markers are being written."""
        self._is_in_commit = False
        """Whether a commit is being reported, perhaps within the Fetch of a follower that caused it."""
        self._deferred: list[tuple[str, TransactionWrite | SendMarkers]] = []
        self._held = HeldRequests(deps.ports.call_later, self._resume)
        accepted = deps.accepted_connections
        self._connections = None if accepted is None else ProducerConnections(accepted())

    # Loading, as `ShardState`.

    def replay(self, key: bytes, value: bytes) -> str | None:
        read = records.read_key(key)
        if isinstance(read, Damaged):
            return f"a key: {read.reason}"
        if isinstance(read, records.UnknownTransactionKey):
            return f"a key of version {read.version}"
        loaded = records.read_value(value)
        if isinstance(loaded, Damaged):
            return f"transactional id {read.transactional_id}: {loaded.reason}"
        if loaded.state == records.DEAD:
            return f"transactional id {read.transactional_id}: a record of a removed one"
        self._keep(read.transactional_id, machine.restored(read.transactional_id, loaded))
        return None

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        del key, value  # No coordinator writes such records.
        return f"a record of a transaction of producer {producer_id}"

    def finish_replay(self) -> Iterator[None]:
        """Deadlines were set with the records; markers are sent when the partition is loaded."""
        return iter(())

    def on_loaded(self, records: int, took_ms: int) -> None:
        prepared = [(name, one) for name, one in self.transactions.items() if one.state.is_prepared]
        partition = str(self._shard.partition.name)
        self._log.info(
            "transactions loaded",
            partition=partition,
            transactional_ids=len(self.transactions),
            prepared=len(prepared),
            records=records,
            took_ms=took_ms,
        )
        for transactional_id, transaction in prepared:
            for action in machine.resume(transaction):
                self._carry_out(transactional_id, action)

    def unload(self) -> None:
        """Requests that wait for a write are answered by the journal."""
        self._is_unloaded = True
        self._held.close()
        for end in self._ends.values():
            end.is_cancelled = True
        for transactional_id, transaction in self.transactions.items():
            self._deps.counts.changed(transaction, None)
            self._shard.unschedule(transactional_id)
        if self.transactions and not self._shard.is_loading:
            partition, ids = str(self._shard.partition.name), len(self.transactions)
            self._log.info("transactions unloaded", partition=partition, transactional_ids=ids)
        self.transactions.clear()

    # Requests and events.

    def submit(self, transactional_id: str, request: Request, on_answer: OnAnswer, connection: int) -> None:
        """Submit a producer's request; `on_answer` is called once, maybe before this returns.

        Raises WireError for a request on an older connection than the producer's newest.
        """
        self._check_connection(transactional_id, request, connection)
        self._submit(transactional_id, request, Waiting(on_answer, connection))

    def _check_connection(self, transactional_id: str, request: Request, connection: int) -> None:
        """A request that a producer has given up, with the connection, may arrive after those of its next one."""
        transaction = self.transaction(transactional_id)
        if self._connections is None or is_by_epoch(transaction, request):
            return
        producer = request.expected if isinstance(request, InitProducerId) else request.producer
        if producer is not None and machine.producer_error(transaction, producer) is None:
            is_late = not self._connections.admit(transactional_id, connection)
        else:  # An InitProducerId without an epoch begins one; a wrong epoch has an answer of its own.
            is_late = isinstance(request, InitProducerId) and self._connections.is_late_init(
                transactional_id, connection
            )
        if is_late:
            raise WireError(f"transactional id {transactional_id} has a newer connection")

    def _submit(self, transactional_id: str, request: Request, waiting: Waiting) -> None:
        transaction = self.transactions.get(transactional_id)
        reason = self._deps.counts.refusal(transaction, request)
        if reason is not None:
            if self._deps.counts.is_news(reason):
                self._log.warning("transaction refused", transactional_id=transactional_id, reason=reason)
            waiting.on_answer(TransactionAnswer(ErrorCode.POLICY_VIOLATION))
            return
        if isinstance(request, InitProducerId | EndTransaction) and request.new_producer_id is None:
            known = transaction or Transaction(transactional_id)
            if machine.needs_producer_id(known, request, self._deps.limits):
                self._submit_with_new_id(transactional_id, request, waiting)
                return
        if transaction is not None and self._held.hold(transaction, request, waiting):
            return
        caller = Caller(next(self._numbers))
        self._callers[caller] = waiting
        self._events.apply(transactional_id, request._replace(caller=caller))

    def _resume(self, transactional_id: str, request: AddPartitions, waiting: Waiting) -> None:
        """Serve a held request, unless its producer has a newer connection by now."""
        try:
            self._check_connection(transactional_id, request, waiting.connection)
        except WireError:
            waiting.on_answer(TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))  # Nothing reads it any more.
        else:
            self._submit(transactional_id, request, waiting)

    def _submit_with_new_id(
        self, transactional_id: str, request: InitProducerId | EndTransaction, waiting: Waiting
    ) -> None:
        producer_id = self._deps.producer_ids.at_once()
        if producer_id is None:
            self._deps.ports.spawn(self._submit_later(transactional_id, request, waiting))
        else:
            self._submit(transactional_id, request._replace(new_producer_id=producer_id), waiting)

    async def _submit_later(
        self, transactional_id: str, request: InitProducerId | EndTransaction, waiting: Waiting
    ) -> None:
        """As `_submit`, once there is a new producer id."""
        try:
            producer_id = await self._deps.producer_ids.next()
        except BrokerError as error:
            waiting.on_answer(TransactionAnswer(error.code))
            return
        if self._is_unloaded:
            waiting.on_answer(TransactionAnswer(ErrorCode.NOT_COORDINATOR))
        else:
            self._submit(transactional_id, request._replace(new_producer_id=producer_id), waiting)

    def apply(self, transactional_id: str, event: Event) -> None:
        """Apply an event; events that its actions cause are applied after it."""
        self._events.apply(transactional_id, event)

    def tick(self, transactional_id: str, late_ms: int) -> None:
        del late_ms  # Commits that wait in sockets have been read by now (`DeadlineTimer`).
        if transactional_id in self.transactions:
            self._events.apply(transactional_id, Tick())

    def expire(self, transactional_id: str) -> None:
        if transactional_id in self.transactions:
            self._events.apply(transactional_id, Expire())

    # Queries.

    def known_keys(self) -> list[str]:
        return list(self.transactions)

    def transaction(self, transactional_id: str) -> Transaction:
        """A transactional id; one without a producer id if it does not exist."""
        return self.transactions.get(transactional_id) or Transaction(transactional_id)

    def unmarked(self, transaction: Transaction) -> Collection[TopicPartition]:
        """The partitions of a transaction that have no marker yet."""
        end = self._ends.get(transaction.transactional_id) if transaction.state.is_prepared else None
        return transaction.partitions if end is None else end.remaining

    # Steps of the machine.

    def _step(self, transactional_id: str, event: Event) -> None:
        if self._is_unloaded:
            return
        transaction = self.transaction(transactional_id)
        after, actions = machine.step(transaction, event, self._deps.ports.clock.now_ms(), self._deps.limits)
        self._keep(transactional_id, after)
        for action in actions:
            self._carry_out(transactional_id, action)
        if self._held:
            self._held.release(self.transaction(transactional_id))

    def _keep(self, transactional_id: str, after: Transaction) -> None:
        before = self.transactions.get(transactional_id)
        if machine.is_finished(after):
            self._deps.counts.changed(before, None)
            self.transactions.pop(transactional_id, None)
            self._shard.unschedule(transactional_id)
            return
        self._deps.counts.changed(before, after)
        self.transactions[transactional_id] = after
        due_ms = machine.next_due_ms(after)
        if due_ms is not None:
            clock = self._deps.ports.clock
            self._shard.schedule(transactional_id, clock.monotonic_ms() + max(due_ms - clock.now_ms(), 0))

    def _apply_commit(self, transactional_id: str, event: Event) -> None:
        """Apply an event in the callback of a commit; what it appends is appended in the next iteration of the loop.

        The commit is made by the Fetch of a follower, which has read some partitions already: it would miss what is
        appended to them now, and wait for more.
        """
        self._is_in_commit = True
        try:
            self._events.apply(transactional_id, event)
        finally:
            self._is_in_commit = False

    def _defer(self, transactional_id: str, action: TransactionWrite | SendMarkers) -> None:
        self._deferred.append((transactional_id, action))
        if len(self._deferred) == 1:
            self._deps.ports.call_later(0, self._carry_out_deferred)

    def _carry_out_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for transactional_id, action in deferred:
            if not self._is_unloaded:
                self._carry_out(transactional_id, action)

    def _carry_out(self, transactional_id: str, action: Action) -> None:
        match action:
            case TransactionWrite() | SendMarkers() if self._is_in_commit:
                self._defer(transactional_id, action)
            case TransactionReply(caller, answer):
                self._callers.pop(caller).on_answer(answer)
            case TransactionWrite():
                self._write(transactional_id, action)
            case SendMarkers():
                self._send_markers(transactional_id, action)
            case TimedOut(producer, timeout_ms):
                self._log.info(
                    "transaction timed out",
                    transactional_id=transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    timeout_ms=timeout_ms,
                )
            case _:
                assert_never(action)

    def _write(self, transactional_id: str, write: TransactionWrite) -> None:
        before = self.transactions[transactional_id]
        waiting = None if write.reply is None else self._callers[write.reply.caller]
        is_appending = True

        def committed() -> None:
            self._note_connection(before, write, waiting)
            (self.apply if is_appending else self._apply_commit)(transactional_id, WriteCommitted())

        def answered(code: ErrorCode) -> None:
            if write.reply is not None:
                caller, answer = write.reply
                on_answer, _ = self._callers.pop(caller)
                on_answer(TransactionAnswer(WRITE_ERRORS.get(code, code)) if code else answer)

        version = self._deps.value_version
        value = None if write.value is None else records.transaction_value(write.value, version)
        record = records.transaction_key(transactional_id), value
        is_in_log = self._shard.journal.append([record], committed, answered)
        is_appending = False
        if not is_in_log:
            self._events.apply(transactional_id, WriteRefused())

    def _note_connection(self, before: Transaction, write: TransactionWrite, waiting: Waiting | None) -> None:
        """A producer's connections count from its epoch on; of a fenced one nothing is remembered.

        Where each transaction has its own epoch, those of InitProducerId are remembered for longer.
        """
        if self._connections is None:
            return
        value, transactional_id = write.value, before.transactional_id
        if value is not None and value.state == records.EMPTY_STATE and waiting is not None:
            self._connections.began(transactional_id, waiting.connection)
        elif value is None or (value.producer_epoch != before.producer_epoch and not before.raises_epoch):
            self._connections.forget(transactional_id)

    def _send_markers(self, transactional_id: str, markers: SendMarkers) -> None:
        partition = self._shard.partition

        def written() -> None:
            self._ends.pop(transactional_id, None)
            self._events.apply(transactional_id, MarkersWritten())

        end = TransactionEnd(transactional_id, markers, lambda: partition.leader_epoch, written)
        self._ends[transactional_id] = end
        if end.remaining:
            self._deps.markers.send(end)
        else:
            written()
