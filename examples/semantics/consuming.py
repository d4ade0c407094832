"""What a consumer promises follows from when it says how far it has read: four ways, each a function of a few lines.

All read one partition with a SimpleConsumer, whose offsets are their own affair. `Work` is what is done with a message;
it may fail, or the process may end in the middle of it: the next run begins where the offset stands.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from examples.heritage.simple_consumer import EARLIEST_TIME, FetchRequest, SimpleConsumer
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition

Work = Callable[[Record], None]
FETCH_BYTES = 100_000


def at_most_once(consumer: SimpleConsumer, group: str, partition: TopicPartition, work: Work) -> None:
    """The offset first, then the work: what fails in between is lost, and nothing is done twice."""
    for message in messages(consumer, partition, committed(consumer, group, partition)):
        consumer.commit_offsets(group, {partition: message.offset + 1})
        work(message)


def at_least_once(consumer: SimpleConsumer, group: str, partition: TopicPartition, work: Work) -> None:
    """The work first, then the offset: what fails in between is done again, and nothing is lost."""
    for message in messages(consumer, partition, committed(consumer, group, partition)):
        work(message)
        consumer.commit_offsets(group, {partition: message.offset + 1})


def exactly_once(
    consumer: SimpleConsumer,
    database: sqlite3.Connection,
    partition: TopicPartition,
    work: Callable[[sqlite3.Connection, Record], None],
) -> None:
    """The offset in the same transaction as the results of the work: both are there, or neither is.

    Messages may be fetched again; what they cause is there once. `work` writes to the database and does not commit.
    """
    database.execute(
        "CREATE TABLE IF NOT EXISTS offsets (topic TEXT, number INTEGER, next INTEGER, PRIMARY KEY (topic, number))"
    )
    found = database.execute("SELECT next FROM offsets WHERE topic = ? AND number = ?", partition).fetchone()
    for message in messages(consumer, partition, found[0] if found else None):
        with database:  # Commits at its end, and rolls back when it fails.
            work(database, message)
            database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*partition, message.offset + 1))


def since(consumer: SimpleConsumer, partition: TopicPartition, time_ms: int) -> Iterator[Record]:
    """Messages from a time on, to process them again, such as after a mistake in a program was corrected.

    The broker names the segment in which to begin; messages of it that are older are passed over.
    """
    begins = consumer.offsets_before(*partition, time_ms, 1)
    found = messages(consumer, partition, begins[0] if begins else None)
    return (message for message in found if message.timestamp >= time_ms)


def messages(consumer: SimpleConsumer, partition: TopicPartition, offset: int | None) -> Iterator[Record]:
    """What is in a partition now, from an offset on, or from its beginning."""
    if offset is None:
        (offset,) = consumer.offsets_before(*partition, EARLIEST_TIME, 1)
    while found := consumer.fetch(FetchRequest(*partition, offset, FETCH_BYTES)):
        yield from found
        offset = found[-1].offset + 1


def committed(consumer: SimpleConsumer, group: str, partition: TopicPartition) -> int | None:
    """The group's offset, in the broker."""
    return consumer.fetch_offsets(group).get(partition)
