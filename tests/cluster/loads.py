"""Clients at work while a cluster suffers, each in a thread of its own; what they saw goes into a history."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.cluster.history import Fate, History, Partition, Sent, Transaction

SECONDS_MAX: Final = 90.0
_PAUSE_SECONDS: Final = 0.004  # Between two records: load, not a benchmark.
_CLIENT: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 2_000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
}
_PRODUCER: Final[dict[str, Any]] = {
    **_CLIENT,
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.timeout.ms": int(SECONDS_MAX * 1_000),
    "request.timeout.ms": 10_000,
}

_TRANSACTION: Final = {"transaction.timeout.ms": 30_000, "message.timeout.ms": 25_000}
"""A coordinator of Apache Kafka 2.7 forgets to look at its watermark after a shrink of the in-sync set (KAFKA-13091).
A state that it was writing then is committed when the transaction's timeout has passed and it writes it once more."""
_NOTHING_TO_END: Final = KafkaError.INVALID_TXN_STATE
"""Records that could not be sent meanwhile, as the coordinator was busy with the transaction before, are an end that
whose beginning it has not seen. The client calls that fatal; it does no harm."""


class Worker(ABC):
    """A thread that runs until it is stopped; its exception is raised where it is joined."""

    def __init__(self) -> None:
        self._enough = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(SECONDS_MAX + 30)
        assert not self._thread.is_alive(), f"{type(self).__name__} does not end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001  # It is raised where the worker is awaited.
            self._failure = failure

    @abstractmethod
    def work(self) -> None:
        """Do it until `is_going_on` is false."""

    @property
    def is_going_on(self) -> bool:
        return not self._enough.is_set()

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def pause(self) -> None:
        self._enough.wait(_PAUSE_SECONDS)


class Writer(Worker):
    """An idempotent producer with acks=all that goes round the partitions."""

    def __init__(self, bootstrap: str, partitions: Sequence[Partition], history: History, name: str = "w") -> None:
        super().__init__()
        self._producer = Producer({**_PRODUCER, "bootstrap.servers": bootstrap})
        self._partitions = partitions
        self._history = history
        self._name = name
        self.acknowledged: dict[Partition, int] = dict.fromkeys(partitions, 0)
        """How many records of each partition have been acknowledged."""

    def work(self) -> None:
        for number in count():
            if not self.is_going_on:
                break
            topic, part = self._partitions[number % len(self._partitions)]
            one = Sent((topic, part), f"{self._name}-{number}".encode(), number)
            self._history.sent.append(one)
            self._producer.produce(topic, one.value, partition=part, on_delivery=self._noting(one))
            self._producer.poll(0)
            self.pause()
        assert self._producer.flush(SECONDS_MAX) == 0, "records are neither acknowledged nor refused"

    def _noting(self, one: Sent) -> Any:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                one.fate, one.offset = Fate.DONE, message.offset()
                self.acknowledged[one.partition] += 1

        return delivered


class Transactor(Worker):
    """A transactional producer: two transactions are committed, the third is aborted, and so on."""

    def __init__(self, bootstrap: str, partitions: Sequence[Partition], history: History, name: str = "t") -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._history = history
        self._name = name
        self.settled = 0
        """How many transactions have ended as they were meant to."""

    def work(self) -> None:
        producer = self._made()
        for number in count():
            if not self.is_going_on:
                break
            values = frozenset(f"{self._name}-{number}-{part}".encode() for part in range(2 * len(self._partitions)))
            fate = Fate.UNKNOWN
            try:
                fate = self._one(producer, sorted(values), is_committed=number % 3 != 2)
                self.settled += 1
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if error.fatal() and error.code() != _NOTHING_TO_END:
                    raise
                producer = self._made()  # Which aborts what is open; of an unclear end it makes no difference.
            self._history.transactions.append(Transaction(values, fate))
            self.pause()

    def _made(self) -> Producer:
        settings = {**_PRODUCER, "bootstrap.servers": self._bootstrap, "transactional.id": self._name}
        producer = Producer({**settings, **_TRANSACTION})
        producer.init_transactions(SECONDS_MAX)
        return producer

    def _one(self, producer: Producer, values: Sequence[bytes], *, is_committed: bool) -> Fate:
        producer.begin_transaction()
        for value, (topic, part) in zip(values, self._partitions * 2, strict=True):
            producer.produce(topic, value, partition=part)
        producer.flush(SECONDS_MAX)
        if is_committed:
            producer.commit_transaction(SECONDS_MAX)
            return Fate.DONE
        producer.abort_transaction(SECONDS_MAX)
        return Fate.UNDONE


class Reader(Worker):
    """A consumer that reads along from the beginning, whatever happens to the brokers."""

    def __init__(self, bootstrap: str, partitions: Iterable[Partition], isolation: str = "read_uncommitted") -> None:
        super().__init__()
        self._consumer = consumer(bootstrap, isolation)
        self._partitions = list(partitions)
        self.seen: dict[Partition, list[tuple[int, bytes]]] = defaultdict(list)

    def work(self) -> None:
        self._consumer.assign([TopicPartition(*one, OFFSET_BEGINNING) for one in self._partitions])
        try:
            while self.is_going_on:
                message = self._consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.seen[message.topic(), message.partition()].append((message.offset(), message.value()))
        finally:
            self._consumer.close()


def consumer(bootstrap: str, isolation: str) -> Consumer:
    settings = {**_CLIENT, "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation}
    ways = {"enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True, "fetch.wait.max.ms": 50}
    return Consumer({**settings, **ways, "enable.partition.eof": True})


def read_all(
    bootstrap: str, partitions: Iterable[Partition], isolation: str = "read_uncommitted"
) -> dict[Partition, list[tuple[int, bytes]]]:
    """Each partition from its beginning to its end."""
    unread = set(partitions)
    seen: dict[Partition, list[tuple[int, bytes]]] = {one: [] for one in unread}
    reader = consumer(bootstrap, isolation)
    try:
        reader.assign([TopicPartition(*one, OFFSET_BEGINNING) for one in unread])
        while unread:
            message = reader.poll(SECONDS_MAX)
            assert message is not None, f"{sorted(unread)} have no end"
            at = (message.topic(), message.partition())
            if message.error() is None:
                seen[at].append((message.offset(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.discard(at)
    finally:
        reader.close()
    return seen
