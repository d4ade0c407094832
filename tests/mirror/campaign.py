"""Two clusters into one while the mirror and brokers are killed (-9): each partition of the target has what its source has.

Values are numbered for each source partition. Producers run on through the kills. In the end each partition of the target
has exactly the committed records of its source, in their order: nothing lost, nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.mirror.mirror_process import MirrorProcess, settings
from tests.outside.processes import BrokerProcess
from tests.support.confluent_admin import admin_of

TOPIC: Final = "orders"
PARTITIONS: Final = 3
AFTER_MIN: Final = 50
AFTER_MAX: Final = 400
PAUSE_S: Final = 0.002
SECONDS_MAX: Final = 120.0
QUIET: Final = {"log_level": 0}
READING: Final = {"fetch.wait.max.ms": 50, "reconnect.backoff.max.ms": 500, **QUIET}
"""A consumer's close waits for the fetch that is delayed, and a broker that was killed serves again within a second."""

Contents = dict[int, list[str]]
"""The values of each partition."""


class Kill(NamedTuple):
    """One kill -9 when so many more records have arrived in the target."""

    after: int
    victim: str
    """`mirror`, `target`, or a source's alias."""


def drawn(seed: int, sources: Sequence[str], count: int) -> list[Kill]:
    """A plan: the mirror is hit as often as all brokers together."""
    choice = Random(seed)
    victims = ["mirror" if choice.random() < 0.5 else choice.choice(["target", *sources]) for _ in range(count)]
    return [Kill(choice.randrange(AFTER_MIN, AFTER_MAX), victim) for victim in victims]


def create(bootstrap: str) -> None:
    admin = admin_of({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(30)


class Numbers:
    """Produces numbered values into each partition of a source, until it is stopped."""

    def __init__(self, alias: str, bootstrap: str) -> None:
        self._alias = alias
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                **QUIET,
            }
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(PAUSE_S):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, f"{self._alias}-{partition}-{number}", partition=partition)
            self._producer.poll(0)
            number += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0


class Collector:
    """Counts the committed records of some topics from their beginning, through restarts of the brokers."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.count = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "collector",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                **READING,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for topic in topics for number in range(PARTITIONS)])

    def until(self, count: int) -> None:
        """Read until there are so many records; bounded by the time without any."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.count < count:
            for record in self._consumer.consume(1_000, 0.05):
                if not record.error():
                    self.count += 1
                    deadline = time.monotonic() + SECONDS_MAX
            assert time.monotonic() < deadline, f"{self.count} of {count} records"

    def close(self) -> None:
        self._consumer.close()


def contents_of(bootstrap: str, topic: str) -> Contents:
    """All committed records of a topic, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **READING,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: Contents = {number: [] for number in range(PARTITIONS)}
    ended: set[int] = set()
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while len(ended) < PARTITIONS:
            for record in consumer.consume(1_000, 0.1):
                error = record.error()
                if error is None:
                    found[record.partition() or 0].append((record.value() or b"").decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(record.partition() or 0)
            assert time.monotonic() < deadline, ended
        return found
    finally:
        consumer.close()


def run(
    directory: Path, sources: Mapping[str, BrokerProcess], target: BrokerProcess, kills: Sequence[Kill]
) -> dict[str, Contents]:
    """Copy through all kills, and compare; what the sources have. All brokers run."""
    for source in sources.values():
        create(source.bootstrap)
    addresses = {alias: source.bootstrap for alias, source in sources.items()}
    mirror = MirrorProcess(directory / "mirror", settings(target.bootstrap, addresses))
    victims = {"mirror": mirror, "target": target, **sources}
    producers = [Numbers(alias, address) for alias, address in addresses.items()]
    with mirror:
        collector = Collector(target.bootstrap, [f"{alias}.{TOPIC}" for alias in sources])
        try:
            _through(kills, victims, producers, collector)
            wanted = {alias: contents_of(address, TOPIC) for alias, address in addresses.items()}
            collector.until(sum(len(values) for contents in wanted.values() for values in contents.values()))
        finally:
            collector.close()
    assert mirror.wait_for_exit(0) == 0
    # From the beginning: what came twice may have come after the last one was counted.
    for alias, contents in wanted.items():
        assert contents_of(target.bootstrap, f"{alias}.{TOPIC}") == contents, alias
    return wanted


def _through(
    kills: Sequence[Kill],
    victims: Mapping[str, MirrorProcess | BrokerProcess],
    producers: Sequence[Numbers],
    collector: Collector,
) -> None:
    for producer in producers:
        producer.__enter__()
    try:
        for kill in kills:
            collector.until(collector.count + kill.after)
            victims[kill.victim].kill()
            victims[kill.victim].start()
    finally:
        for producer in producers:
            producer.__exit__(None, None, None)
