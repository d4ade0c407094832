"""A member of a consumer group (kafka-python): reads, commits once a second, and notes who it was when it did."""

from __future__ import annotations

import time
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.cluster.chaos.events import INFO, OK, Commit, Committed, Found, Own
from tests.cluster.chaos.working import Working, split
from tests.cluster.security import kafka_python_settings

GROUP: Final = "chaos"
COMMIT_SECONDS: Final = 1.0
ANSWER_SECONDS_MAX: Final = 60.0


def made(working: Working) -> Any:
    return KafkaConsumer(
        bootstrap_servers=working.orders.bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        request_timeout_ms=8_000,
        reconnect_backoff_max_ms=500,
        metadata_max_age_ms=5_000,
        **kafka_python_settings(working.orders.security),
    )


class Noting(ConsumerRebalanceListener):  # type: ignore[misc]  # The library has no types.
    """Notes what this member was given."""

    def __init__(self, working: Working, consumer: Any) -> None:
        self._working, self._consumer = working, consumer

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    def on_partitions_assigned(self, assigned: Any) -> None:
        gen, member = who(self._consumer)
        names = [f"{one.topic}-{one.partition}" for one in assigned]
        self._working.recorder.note(Own(GROUP, time.monotonic(), gen, member, names))


def who(consumer: Any) -> tuple[int, str]:
    """Generation and member id of the moment."""
    generation = consumer._coordinator._generation
    return generation.generation_id, generation.member_id


def work(working: Working) -> None:
    consumer = made(working)
    consumer.subscribe(working.orders.topics, listener=Noting(working, consumer))
    consumer.topics()  # A member that knows no partitions when it leads its first generation forgets about them.
    due = time.monotonic() + COMMIT_SECONDS
    while working:
        try:
            consumer.poll(timeout_ms=200, max_records=5_000)
            if time.monotonic() >= due:
                _commit(working, consumer)
                due = time.monotonic() + COMMIT_SECONDS
        except KafkaError as problem:
            if not problem.retriable:
                working.recorder.note(Found("client", f"{working.orders.name} got {problem!r}"))
    consumer.close(autocommit=False)


def _commit(working: Working, consumer: Any) -> None:
    """Commit where it stands. Whatever is not granted may have happened: a commit has no error that says no."""
    offsets = {tp: consumer.position(tp, timeout_ms=0) for tp in consumer.assignment()}
    wanted = {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items() if offset is not None}
    if not wanted:
        return
    t0, before = time.monotonic(), who(consumer)
    try:
        consumer.commit(wanted, timeout_ms=4_000)
        result = OK if who(consumer) == before else INFO
    except KafkaError:
        result = INFO
    t1, (gen, member) = time.monotonic(), before
    for tp, one in wanted.items():
        working.recorder.note(Commit(GROUP, t0, t1, f"{tp.topic}-{tp.partition}", one.offset, gen, member, result))


def ask(working: Working) -> None:
    """What the group has committed in the end."""
    consumer = made(working)
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    for tp in working.orders.partitions:
        while True:
            try:
                found = consumer.committed(TopicPartition(*split(tp)), timeout_ms=5_000)
                break
            except KafkaError:
                if time.monotonic() > deadline:
                    raise
        working.recorder.note(Committed(GROUP, tp, -1 if found is None else found))
    consumer.close(autocommit=False)


if __name__ == "__main__":
    at_work = Working()
    if at_work.orders.name == "last":
        ask(at_work)
    else:
        work(at_work)
    at_work.recorder.close()
