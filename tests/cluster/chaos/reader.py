"""A librdkafka consumer of committed records that reads along from the beginning, whatever happens.

Another one begins anew all the time, with one partition each time; and at the end all is read once more.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.cluster.chaos.events import LastRead, Poll
from tests.cluster.chaos.working import CLIENT, Working, key_of, split

POLL_SECONDS: Final = 0.25
SILENCE_SECONDS_MAX: Final = 60.0
AGAIN_SECONDS: Final = 4.0
"""Between two sessions of the reader that begins anew."""
AGAIN: Final = "again"
LAST: Final = "last"
Recs = dict[str, list[tuple[int, str]]]


def consumer(connection: Mapping[str, str]) -> Consumer:
    own = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True}
    return Consumer(
        {
            **CLIENT,
            **own,
            **connection,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "enable.partition.eof": True,
        }
    )


def follow(working: Working) -> None:
    """Read along, and note each turn what came."""
    reader = consumer(working.orders.connection)
    reader.assign([TopicPartition(*split(tp), OFFSET_BEGINNING) for tp in working.orders.partitions])
    while working:
        t0, recs = time.monotonic(), defaultdict[str, list[tuple[int, str]]](list)
        for message in reader.consume(5_000, POLL_SECONDS):
            if message.error() is None:
                recs[f"{message.topic()}-{message.partition()}"].append(
                    (message.offset() or 0, key_of(message.value()))
                )
        for tp, rows in recs.items():
            working.recorder.note(Poll(working.orders.name, t0, time.monotonic(), tp, rows))
    reader.close()


def read_again(working: Working) -> None:
    """Read one partition from its beginning to its end, then another one."""
    choice = random.Random(working.orders.name)
    for number in count(1):
        if not working:
            break
        _read_one(working, f"{working.orders.name}/{number}", choice.choice(working.orders.partitions))
        until = time.monotonic() + AGAIN_SECONDS
        while working and time.monotonic() < until:
            time.sleep(POLL_SECONDS)


def _read_one(working: Working, session: str, tp: str) -> None:
    reader = consumer(working.orders.connection)
    reader.assign([TopicPartition(*split(tp), OFFSET_BEGINNING)])
    at_end = False
    while working and not at_end:
        t0, recs = time.monotonic(), list[tuple[int, str]]()
        for message in reader.consume(5_000, POLL_SECONDS):
            error = message.error()
            if error is None:
                recs.append((message.offset() or 0, key_of(message.value())))
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if recs:
            working.recorder.note(Poll(session, t0, time.monotonic(), tp, recs))
    reader.close()


def read_all(working: Working) -> None:
    """Each partition from its beginning to its end."""
    unread = set(working.orders.partitions)
    recs: Recs = {tp: [] for tp in unread}
    reader = consumer(working.orders.connection)
    reader.assign([TopicPartition(*split(tp), OFFSET_BEGINNING) for tp in unread])
    last_read_s = time.monotonic()
    while unread and time.monotonic() - last_read_s < SILENCE_SECONDS_MAX:
        for message in reader.consume(5_000, POLL_SECONDS):
            last_read_s, tp, error = time.monotonic(), f"{message.topic()}-{message.partition()}", message.error()
            if error is None:
                recs[tp].append((message.offset() or 0, key_of(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(tp)
    reader.close()
    assert not unread, f"{sorted(unread)} have no end"
    for tp, rows in recs.items():
        working.recorder.note(LastRead(tp, rows))


if __name__ == "__main__":
    at_work = Working()
    if at_work.orders.name == LAST:
        read_all(at_work)
    elif at_work.orders.name == AGAIN:
        read_again(at_work)
    else:
        follow(at_work)
    at_work.recorder.close()
