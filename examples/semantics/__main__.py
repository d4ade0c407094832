"""At most once, at least once, exactly once: the same messages, the same failures, and what comes of them.

    python -m examples.semantics

A broker of its own gets 100 messages. A worker that counts them fails at every tenth message that it is given, in the
worst place: between the work and the offset, in whichever order they are. Each time it is started again.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from examples.heritage.config import ProducerConfig
from examples.heritage.partitions import ProducerData
from examples.heritage.producer import Producer
from examples.heritage.simple_consumer import SimpleConsumer
from examples.programs import Broker, ExampleError, ExampleFolder, run, sordini, stop_on_signals
from examples.semantics.consuming import at_least_once, at_most_once, exactly_once
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition

COUNT = 100
EVERY = 10
PARTITION = TopicPartition("amounts", 0)


class Crash(Exception):
    """The worker ends in the middle of its work."""


class Failing:
    """Fails at every tenth call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls % EVERY == 0:
            raise Crash


def restarted(consume: Callable[[], None]) -> None:
    """Run it until it ends by itself."""
    while True:
        try:
            consume()
        except Crash:
            continue
        return


def outcomes(consumer: SimpleConsumer, database: sqlite3.Connection) -> dict[str, int]:
    """How often messages were added, by the promise; each of the hundred counts once if all goes well."""
    added = {"at most once": 0, "at least once": 0}

    def adding(name: str, fails: Failing, *, is_first: bool) -> Callable[[Record], None]:
        def work(_message: Record) -> None:
            if is_first:
                fails()
            added[name] += 1
            if not is_first:
                fails()

        return work

    first = adding("at most once", Failing(), is_first=True)
    restarted(lambda: at_most_once(consumer, "most", PARTITION, first))
    last = adding("at least once", Failing(), is_first=False)
    restarted(lambda: at_least_once(consumer, "least", PARTITION, last))

    fails = Failing()
    database.execute("CREATE TABLE total (added INTEGER)")
    database.execute("INSERT INTO total VALUES (0)")
    database.commit()

    def add(connection: sqlite3.Connection, _message: Record) -> None:
        connection.execute("UPDATE total SET added = added + 1")
        fails()

    restarted(lambda: exactly_once(consumer, database, PARTITION, add))
    (total,) = database.execute("SELECT added FROM total").fetchone()
    return {**added, "exactly once": total}


def send(bootstrap: str) -> None:
    producer = Producer(ProducerConfig.of({"broker.list": bootstrap}))
    producer.send(ProducerData(PARTITION.topic, None, [b"%d" % number for number in range(COUNT)]))
    producer.close()


def main() -> int:
    stop_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="semantics-") as name, Broker(ExampleFolder(Path(name), {})) as broker:
            created = sordini("topics", "create", PARTITION.topic, "--bootstrap", broker.bootstrap)
            run(ExampleFolder(Path(name), {}), "topic", created, seconds_max=60)
            send(broker.bootstrap)
            host, _, port = broker.bootstrap.partition(":")
            consumer = SimpleConsumer(host, int(port))
            with closing(sqlite3.connect(Path(name) / "totals.sqlite")) as database, closing(consumer):
                found = outcomes(consumer, database)
    except ExampleError as error:
        print(f"the example failed: {error}", file=sys.stderr)
        return 1
    for promise, count in found.items():
        print(f"{promise:13}  {count:4} of {COUNT} messages were added")
    return 0 if found["at most once"] < COUNT < found["at least once"] and found["exactly once"] == COUNT else 1


if __name__ == "__main__":
    sys.exit(main())
