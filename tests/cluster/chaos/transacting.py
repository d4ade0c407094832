"""One transactional id: its producers (librdkafka), one after the other, and what is noted of their transactions.

What a transaction is about to write is noted before it is sent, and that its commit is requested before it is: so the
history of a killed process says which of its transactions cannot have been committed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.chaos.events import ABORTED, COMMITTED, COMMITTING, OPEN, Began, Found, Txn
from tests.cluster.chaos.working import CLIENT, Working, key_of, split

TIMEOUT_MS: Final = 12_000
"""Of a transaction that its producer does not end."""
CALL_SECONDS: Final = 5.0
"""Of one call; what has not ended by then is called again."""
PAUSE_SECONDS: Final = 0.5
"""Before a new producer takes the place of one that could not begin."""
GRACE_SECONDS: Final = 30.0
"""In which the last transaction has to end when the process is stopped."""
PADDING: Final = b" " + b"." * 80
PRODUCER: Final[dict[str, Any]] = {
    **CLIENT,
    "acks": "all",
    "linger.ms": 5,
    "request.timeout.ms": 4_000,
    "transaction.timeout.ms": TIMEOUT_MS,
}
Records = list[tuple[str, str]]
"""Partition and value of each record of a transaction."""


class StoppedError(Exception):
    """The process was stopped before a producer could begin, or end its transaction."""


class StuckError(Exception):
    """A call of librdkafka does not return."""


def within(seconds: float, call: Callable[[], object]) -> None:
    """Call librdkafka in a thread of its own. Raises what it raises, and StuckError when it does not return in time.

    The thread is left behind with it then.
    """
    outcome: Queue[BaseException | None] = Queue()

    def run() -> None:
        try:
            call()
        except BaseException as problem:  # noqa: BLE001 - it is raised where it was called.
            outcome.put(problem)
        else:
            outcome.put(None)

    Thread(target=run, daemon=True).start()
    try:
        problem = outcome.get(timeout=seconds)
    except Empty:
        raise StuckError(f"no return within {seconds:g} s") from None
    if problem is not None:
        raise problem


class Transactional:
    """Makes transactions, and a new producer with the same transactional id whenever one can go no further."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._lives = 0
        self._number = 0
        self._offsets: dict[str, int] = {}
        self._begin()

    def name(self) -> str:
        """The next transaction's name: a word."""
        return f"{self._pid}/{self._number + 1}"

    def run(
        self,
        records: Records,
        *,
        commit: bool,
        seconds: float = 0.0,
        before_end: Callable[[Producer], None] | None = None,
    ) -> bool:
        """One transaction, its records spread over some seconds; whether it was ended as it should.

        `before_end` may add consumed offsets. Raises StoppedError.
        """
        self._number += 1
        self._offsets.clear()
        txn = Txn(
            f"{self._pid}/{self._number}",
            OPEN,
            [(tp, -1, value) for tp, value in records],
            self._working.orders.transactional_id,
            self._pid,
            time.monotonic(),
        )
        self._note(txn)
        try:
            self._producer.begin_transaction()
            self._send(records, seconds)
            if before_end is not None:
                before_end(self._producer)
            self._end(txn, commit=commit)
        except KafkaException as problem:
            self._recover(txn, problem)
            return False
        except (StuckError, SystemError) as problem:
            # SystemError: confluent-kafka delivers a record while the exception of a fatal error is set.
            self._replace(txn, problem)
            return False
        return True

    def _send(self, records: Records, seconds: float) -> None:
        pause = seconds / max(len(records), 1)
        for tp, value in records:
            topic, partition = split(tp)
            self._producer.produce(topic, value.encode() + PADDING, partition=partition, on_delivery=self._delivered)
            self._producer.poll(pause)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None and (offset := message.offset()) is not None:
            self._offsets[key_of(message.value())] = offset

    def _end(self, txn: Txn, *, commit: bool) -> None:
        if commit:
            self._note(txn._replace(state=COMMITTING, t=time.monotonic()))
            self._until_done(self._producer.commit_transaction)
            self._note_end(txn, COMMITTED)
        else:
            self._producer.flush(CALL_SECONDS)  # What is aborted shall be in the logs.
            self._until_done(self._producer.abort_transaction)
            self._note_end(txn, ABORTED)

    def _recover(self, txn: Txn, problem: KafkaException) -> None:
        """Abort what may be aborted; otherwise a new producer does it. The outcome may remain unknown."""
        if not error_of(problem).fatal():
            try:
                self._until_done(self._producer.abort_transaction)
            except KafkaException as further:
                problem = further
            else:
                self._note_end(txn, ABORTED)
                return
        self._replace(txn, problem)

    def _replace(self, txn: Txn, problem: Exception) -> None:
        self._working.recorder.note(Found("client", f"{txn.id} can go no further: {problem}"))
        self._begin()

    def _begin(self) -> None:
        """Begin a life, in which the former one's transaction is aborted. Raises StoppedError."""
        while self._working:
            self._lives += 1
            self._number = 0
            self._pid = f"{self._working.orders.name}/{self._lives}"
            own = {"transactional.id": self._working.orders.transactional_id}
            self._producer = Producer({**PRODUCER, **own, **self._working.orders.connection})
            t0 = time.monotonic()
            with contextlib.suppress(KafkaException):
                self._until_done(self._producer.init_transactions)
                producer = self._working.orders.transactional_id
                self._working.recorder.note(Began(producer, self._pid, t0, time.monotonic()))
                return
            time.sleep(PAUSE_SECONDS)
        raise StoppedError

    def _until_done(self, call: Callable[[float], Any]) -> None:
        """Call again while it says that it takes longer. Raises StoppedError, and KafkaException for other errors."""
        stopped_at = None
        while True:
            try:
                call(CALL_SECONDS)
            except KafkaException as problem:
                if not error_of(problem).retriable():
                    raise
            else:
                return
            if not self._working:
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at > GRACE_SECONDS:
                    raise StoppedError

    def _note_end(self, txn: Txn, state: str) -> None:
        recs = [(tp, self._offsets.get(value, -1), value) for tp, _, value in txn.recs]
        self._note(txn._replace(state=state, recs=recs, t=time.monotonic()))

    def _note(self, txn: Txn) -> None:
        """Written through: a kill must not take it away."""
        self._working.recorder.note(txn)
        self._working.recorder.flush()


def error_of(problem: KafkaException) -> KafkaError:
    """What librdkafka says about a failed call."""
    error: KafkaError = problem.args[0]
    return error


def offsets_of(places: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Where each partition is to be read next, of the partitions and offsets that were read, in order."""
    return {tp: offset + 1 for tp, offset in places}
