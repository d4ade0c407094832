"""Sends the records with kafka-python, as fast as time passes in what is played.

The simulated time is compressed into `seconds`, so the load on the broker rises and falls as the site's does. A slow
producer skips nothing, but takes longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from examples.activity.generator.sending import TOPICS, Sent
from examples.activity.generator.tally import Tally
from examples.activity.generator.visits import Plan

FLUSH_SECONDS_MAX = 60.0
_TELL_SECONDS = 0.5
_BREATH_SECONDS = 0.02
"""Sent together and then paused for, when ahead of time: fewer and larger batches than a pause after each record."""


class SendingError(Exception):
    """Some records were not acknowledged: the counts would not hold."""


class Progress(NamedTuple):
    """The progress of the producer."""

    seconds: float
    sent: int
    played_ms: int
    """The time in what is played."""


def make_topics(bootstrap: str, partitions: int, *, replicas: int = 1) -> None:
    """Topics of the three kinds; those that are there already stay as they are."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        # Records carry the time played, which may be long past: no retention deletes the demo's own.
        admin.create_topics(
            [NewTopic(name, partitions, replicas, topic_configs={"retention.ms": "-1"}) for name in TOPICS.values()]
        )
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()


def produce(
    bootstrap: str, plan: Plan, records: Iterable[Sent], *, seconds: float, tell: Callable[[Progress], None]
) -> Tally:
    """Send all records in about `seconds` (0: as fast as it goes) and return what was acknowledged.

    `tell` is called about twice a second. Raises SendingError if the broker did not acknowledge everything.
    """
    tally = Tally()
    failures: list[BaseException] = []
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20, compression_type="lz4")
    began = reported = time.monotonic()
    played_per_second = (plan.end_ms - plan.start_ms) / seconds if seconds else 0.0
    sent, one = 0, None
    try:
        for one in records:
            now = time.monotonic()
            if now - reported > _TELL_SECONDS:
                tell(Progress(now - began, sent, one.timestamp_ms))
                reported = now
            # What arrives after the visits' time is over, late phones mostly, is sent without waiting for it.
            due = began + (min(one.timestamp_ms, plan.end_ms) - plan.start_ms) / played_per_second if seconds else now
            if due - now > _BREATH_SECONDS:
                time.sleep(due - now)
            future = producer.send(one.topic, key=one.key, value=one.value, timestamp_ms=one.timestamp_ms)
            future.add_callback(lambda _, acknowledged=one: tally.add(acknowledged))
            future.add_errback(failures.append)
            sent += 1
        producer.flush(FLUSH_SECONDS_MAX)
    finally:
        producer.close()
    if failures or tally.sent.total() != sent:
        first = f"; the first: {failures[0]}" if failures else ""
        raise SendingError(f"{sent - tally.sent.total()} of {sent} records were not acknowledged{first}")
    tell(Progress(time.monotonic() - began, sent, one.timestamp_ms if one is not None else plan.start_ms))
    return tally
