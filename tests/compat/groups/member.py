"""A program: consumers of one client library in one process, members of one group, until SIGTERM or SIGKILL.

    python member.py '{"kind": "confluent", "name": "a", "members": 5, ...}'

The argument is `Settings` as JSON. Each event is one line of JSON on standard output: what a member owns after
a change of that, which offsets it has read, which of them were committed, and that it left. SIGTERM lets every
member leave in order. The program knows nothing of the tests, so that it starts as fast as its client can.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
import json
import logging
import os
import signal
import sys
import threading
import warnings
from typing import Any, NamedTuple

POLL_MS = 100
END_S_MAX = 15
# kafka-python may lose sight of a rebalance that several short polls share.
PATTERN_POLL_MS = 2_000


class Settings(NamedTuple):
    """protocol: of the group, which only `confluent` may set; pattern: `topic` is a regular expression."""

    kind: str
    name: str
    bootstrap: str
    group: str
    topic: str
    members: int = 1
    protocol: str = "classic"
    assignor: str = "range"
    session_timeout_ms: int = 6_000
    instance_id: str | None = None
    pattern: bool = False

    @property
    def heartbeat_interval_ms(self) -> int:
        """Often enough for the session, and to notice a rebalance soon."""
        return min(self.session_timeout_ms // 6, 500)


class Reporter:
    """One member's events. What is owned is kept here: libraries differ in what they say in which callback."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._owned: set[tuple[str, int]] = set()

    def assigned(self, partitions: list[Any]) -> None:
        self._owned |= {(one.topic, one.partition) for one in partitions}
        self.say("owned", partitions=sorted(self._owned))

    def revoked(self, partitions: list[Any]) -> None:
        if not partitions:
            return  # kafka-python says so before its first join too.
        self._owned -= {(one.topic, one.partition) for one in partitions}
        self.say("owned", partitions=sorted(self._owned))

    def read(self, topic: str, partition: int, offsets: list[int]) -> None:
        """Runs of offsets without a gap, as [first, end)."""
        for _, run in itertools.groupby(enumerate(offsets), lambda pair: pair[1] - pair[0]):
            found = [offset for _, offset in run]
            self.say("read", topic=topic, partition=partition, first=found[0], end=found[-1] + 1)

    def say(self, event: str, **fields: Any) -> None:
        line = json.dumps({"member": self._name, "event": event, **fields}) + "\n"
        os.write(sys.stdout.fileno(), line.encode())  # One write a line: threads cannot mix theirs.


def run_kafka_python(settings: Settings, reporter: Reporter, stop: threading.Event) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    assignors = {one.name: one for one in (RangePartitionAssignor, RoundRobinPartitionAssignor)}
    assignors[CooperativeStickyAssignor.name] = CooperativeStickyAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            reporter.assigned(assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            reporter.revoked(revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            reporter.revoked(lost)

    consumer = KafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        group_instance_id=settings.instance_id,
        partition_assignment_strategy=[assignors[settings.assignor]],
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=60_000,
        metadata_max_age_ms=1_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    wanted = {"pattern": settings.topic} if settings.pattern else {"topics": [settings.topic]}
    consumer.subscribe(**wanted, listener=Listener())
    if not settings.pattern:
        consumer.topics()  # A member that knows no partitions when it leads its first generation forgets about them.
    while not stop.is_set():
        batches = consumer.poll(timeout_ms=PATTERN_POLL_MS if settings.pattern else POLL_MS)
        offsets = {}
        for partition, records in batches.items():
            reporter.read(partition.topic, partition.partition, [record.offset for record in records])
            offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        try:
            if offsets:
                consumer.commit(offsets, timeout_ms=5_000)
        except KafkaError as error:
            reporter.say("refused", error=type(error).__name__)
    consumer.close(autocommit=False)
    reporter.say("left")


def run_confluent(settings: Settings, reporter: Reporter, stop: threading.Event) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own: dict[str, Any] = {} if settings.instance_id is None else {"group.instance.id": settings.instance_id}
    if settings.protocol == "classic":  # Of the other protocol the broker has these settings, and clients refuse them.
        own["partition.assignment.strategy"] = settings.assignor
        own["session.timeout.ms"] = settings.session_timeout_ms
        own["heartbeat.interval.ms"] = settings.heartbeat_interval_ms
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "group.protocol": settings.protocol,
            "max.poll.interval.ms": 60_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            **own,
        }
    )
    consumer.subscribe(
        [f"^{settings.topic}" if settings.pattern else settings.topic],
        on_assign=lambda _, partitions: reporter.assigned(partitions),
        on_revoke=lambda _, partitions: reporter.revoked(partitions),
        on_lost=lambda _, partitions: reporter.revoked(partitions),
    )
    while not stop.is_set():
        read: dict[tuple[str, int], list[int]] = {}
        for message in consumer.consume(500, POLL_MS / 1_000):
            if message.error() is None:
                read.setdefault((message.topic(), message.partition()), []).append(message.offset())
        for (topic, partition), offsets in read.items():
            reporter.read(topic, partition, offsets)
        try:
            if read:
                ends = [TopicPartition(*partition, offsets[-1] + 1) for partition, offsets in read.items()]
                consumer.commit(offsets=ends, asynchronous=False)
        except KafkaException as error:
            reporter.say("refused", error=error.args[0].name())
    consumer.close()
    reporter.say("left")


async def run_aiokafka(settings: Settings, reporter: Reporter, stop: asyncio.Event) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {one.name: one for one in (RangePartitionAssignor, RoundRobinPartitionAssignor)}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            reporter.assigned(assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            reporter.revoked(revoked)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        group_instance_id=settings.instance_id,
        partition_assignment_strategy=(assignors[settings.assignor],),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=60_000,
        rebalance_timeout_ms=60_000,
        metadata_max_age_ms=1_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    wanted = {"pattern": settings.topic} if settings.pattern else {"topics": [settings.topic]}
    consumer.subscribe(**wanted, listener=Listener())
    await consumer.start()
    while not stop.is_set():
        batches = await consumer.getmany(timeout_ms=POLL_MS)
        for partition, records in batches.items():
            reporter.read(partition.topic, partition.partition, [record.offset for record in records])
        try:
            if batches:
                await consumer.commit({partition: records[-1].offset + 1 for partition, records in batches.items()})
        except (KafkaError, ValueError) as error:  # ValueError: taken away since it was read.
            reporter.say("refused", error=type(error).__name__)
    await consumer.stop()
    reporter.say("left")


async def run_aiokafkas(settings: Settings, reporters: list[Reporter]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.gather(*(run_aiokafka(settings, reporter, stop) for reporter in reporters))


def run_threads(settings: Settings, reporters: list[Reporter]) -> None:
    stop = threading.Event()

    def end(*_: object) -> None:
        faulthandler.dump_traceback_later(END_S_MAX)  # A client that does not end shows what it is waiting for.
        stop.set()

    signal.signal(signal.SIGTERM, end)
    run = {"kafka-python": run_kafka_python, "confluent": run_confluent}[settings.kind]
    threads = [threading.Thread(target=run, args=(settings, reporter, stop)) for reporter in reporters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    logging.disable(logging.CRITICAL)  # Standard output is for events; errors show as lack of them.
    settings = Settings(**json.loads(sys.argv[1]))
    reporters = [Reporter(f"{settings.name}-{number}") for number in range(settings.members)]
    if settings.kind == "aiokafka":
        asyncio.run(run_aiokafkas(settings, reporters))
    else:
        run_threads(settings, reporters)


if __name__ == "__main__":
    main()
