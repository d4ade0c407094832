"""librdkafka clients at steady work, each noting when which of its works was done; and the longest silence of each.

They have their defaults, but for what a comparison needs: an idempotent producer with acks=all, a reader, and one
member of a group for each coordinator.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

WRITE_EVERY_SECONDS: Final = 0.01
"""One record to each partition."""
POLL_SECONDS: Final = 0.05
COMMIT_EVERY_SECONDS: Final = 0.1
END_SECONDS_MAX: Final = 90.0
KINDS: Final = ("acknowledged writes, acks=all", "reads", "group commits")
WRITES, READS, COMMITS = KINDS
Times = dict[str, dict[int, list[float]]]
"""Of each kind the moments (monotonic seconds) by partition or, for commits, by group."""


def longest(times: Mapping[int, Sequence[float]], begin: float, end: float) -> float:
    """The longest time within a window in which one of several was silent; the window's ends cut a silence off."""
    return max(
        after - before
        for moments in times.values()
        for before, after in pairwise([begin, *(one for one in moments if begin < one < end), end])
    )


@contextmanager
def clients(bootstrap: str, topic: str, partitions: int, groups: Sequence[str]) -> Iterator[Times]:
    """All of them at work; what they have done so far. Raises SystemExit when one does not end."""
    times: Times = {kind: defaultdict(list) for kind in KINDS}
    enough = threading.Event()
    works: list[Callable[[], None]] = [
        lambda: _write(bootstrap, topic, partitions, times[WRITES], enough),
        lambda: _read(bootstrap, topic, partitions, times[READS], enough),
    ]
    for number, group in enumerate(groups):
        works.append(
            lambda number=number, group=group: _commit(bootstrap, topic, group, times[COMMITS][number], enough)
        )
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield times
    finally:
        enough.set()
        deadline = time.monotonic() + END_SECONDS_MAX
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        raise SystemExit(f"a client of {bootstrap} did not end in {END_SECONDS_MAX:g} s")


def _write(bootstrap: str, topic: str, partitions: int, times: dict[int, list[float]], enough: threading.Event) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            times[message.partition()].append(time.monotonic())

    ways = {"enable.idempotence": True, "acks": "all", "linger.ms": 0, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **ways})
    while not enough.is_set():
        for partition in range(partitions):
            with suppress(BufferError):  # Full of what is not acknowledged: its silence is what is measured.
                producer.produce(topic, b"x" * 100, partition=partition, on_delivery=delivered)
        until = time.monotonic() + WRITE_EVERY_SECONDS
        while (left := until - time.monotonic()) > 0:
            producer.poll(left)
    producer.flush(END_SECONDS_MAX / 2)


def _consumer(bootstrap: str, group: str) -> Consumer:
    ways = {"enable.auto.commit": False, "auto.offset.reset": "latest", "log_level": 0}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, **ways})


def _read(bootstrap: str, topic: str, partitions: int, times: dict[int, list[float]], enough: threading.Event) -> None:
    consumer = _consumer(bootstrap, "reader")
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)])
    while not enough.is_set():
        messages = consumer.consume(1_000, POLL_SECONDS)
        now = time.monotonic()
        for partition in {message.partition() for message in messages if message.error() is None}:
            times[partition].append(now)
    consumer.close()


def _commit(bootstrap: str, topic: str, group: str, times: list[float], enough: threading.Event) -> None:
    """The only member of a group; it has all partitions."""
    consumer = _consumer(bootstrap, group)
    consumer.subscribe([topic])
    due = time.monotonic()
    while not enough.is_set():
        consumer.consume(1_000, POLL_SECONDS)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + COMMIT_EVERY_SECONDS
        with suppress(KafkaException):
            known = [one for one in consumer.position(consumer.assignment()) if one.offset >= 0]
            if known and all(one.error is None for one in consumer.commit(offsets=known, asynchronous=False)):
                times.append(time.monotonic())
    consumer.close()
