"""Additions to a transaction that come while the one before is being completed: held, and served when it is complete.

A producer is answered when the end of its transaction is decided, and may begin the next one at once, before the last
marker and the completion are written. The answer of the protocol is CONCURRENT_TRANSACTIONS, and clients pause for 20
to 100 ms then, which is many times what the completion takes: measured with three replicas, one producer makes 41
transactions a second that way, and 120 to 150 where its request is held. (Apache Kafka from 4.0 on waits in the broker,
too, where a Produce adds its partition.) A producer of transaction.version 2 writes to several leaders at once: an
addition of one of them waits for the record of another, too.

Each is held for HELD_MS_MAX at most; then it gets that answer after all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine import machine
from sordini.broker.transactions.machine.events import AddPartitions, Request, TransactionAnswer
from sordini.broker.transactions.machine.state import Transaction
from sordini.protocol.errors import ErrorCode
from sordini.replication.ports import CallLater, Timer
from sordini.system.named_tuple import NamedTuple

HELD_MS_MAX: Final = 100
"""As Apache Kafka's `add.partitions.to.txn.retry.backoff.max.ms`: a leader may be away for longer."""
HELD_MAX: Final = 10_000
"""Requests of one partition of __transaction_state."""

OnAnswer = Callable[[TransactionAnswer], None]


class Waiting(NamedTuple):
    """A request that waits for its answer."""

    on_answer: OnAnswer
    connection: int
    """The number of its connection (`newest_connection`)."""


class _Held(NamedTuple):
    request: AddPartitions
    waiting: Waiting
    timer: Timer


Resume = Callable[[str, AddPartitions, Waiting], None]


class HeldRequests:
    """The held requests of one partition's transactional ids, each id's in the order of their arrival."""

    def __init__(self, call_later: CallLater, resume: Resume) -> None:
        """`resume` serves a request whose time has come, as if it came now."""
        self._held: dict[str, deque[_Held]] = {}
        self._count = 0
        self._call_later = call_later
        self._resume = resume

    def __len__(self) -> int:
        return self._count

    def hold(self, transaction: Transaction, request: Request, waiting: Waiting) -> bool:
        """Hold a request that could be served once the transaction is complete; False for any other."""
        if not isinstance(request, AddPartitions) or not is_busy(transaction, request) or self._count >= HELD_MAX:
            return False
        if machine.producer_error(transaction, request.producer) not in (None, ErrorCode.CONCURRENT_TRANSACTIONS):
            return False
        transactional_id = transaction.transactional_id
        if request.client_version < RAISES_EPOCH and transactional_id in self._held:
            return False  # Such a client sends one at a time: this one is a repetition.

        def expire() -> None:
            self._expire(transactional_id, held)

        held = _Held(request, waiting, self._call_later(HELD_MS_MAX / 1000, expire))
        self._held.setdefault(transactional_id, deque()).append(held)
        self._count += 1
        return True

    def release(self, transaction: Transaction) -> None:
        """Serve the request that is held for longest, unless it would have to wait still."""
        requests = self._held.get(transaction.transactional_id)
        if requests is None or is_busy(transaction, requests[0].request):
            return
        held = requests[0]
        held.timer.cancel()
        self._remove(transaction.transactional_id, held)
        self._resume(transaction.transactional_id, held.request, held.waiting)

    def close(self) -> None:
        """The leadership ended: answer all NOT_COORDINATOR."""
        held, self._held, self._count = self._held, {}, 0
        for requests in held.values():
            for one in requests:
                one.timer.cancel()
                one.waiting.on_answer(TransactionAnswer(ErrorCode.NOT_COORDINATOR))

    def _expire(self, transactional_id: str, held: _Held) -> None:
        self._remove(transactional_id, held)
        held.waiting.on_answer(TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))

    def _remove(self, transactional_id: str, held: _Held) -> None:
        self._count -= 1
        requests = self._held[transactional_id]
        requests.remove(held)
        if not requests:
            del self._held[transactional_id]


def is_busy(transaction: Transaction, request: AddPartitions) -> bool:
    """Whether an addition would be refused for now."""
    is_written = request.client_version >= RAISES_EPOCH and transaction.pending is not None
    return transaction.state.is_prepared or is_written
