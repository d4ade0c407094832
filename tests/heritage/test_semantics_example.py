"""examples/semantics: what comes of a failure between the work and the offset."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from examples.heritage.simple_consumer import SimpleConsumer
from examples.semantics.__main__ import Crash, restarted
from examples.semantics.consuming import at_least_once, at_most_once, exactly_once, since
from examples.semantics.sharing import share
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition
from sordini.testing import Kafka
from tests.compat.groups.waiting import eventually
from tests.heritage.documented_site import DocumentedSite
from tests.heritage.test_simple_consumer import address_of

COUNT = 6
VALUES = [str(number) for number in range(COUNT)]


class Crashes:
    """Raises at some of the calls, by their numbers."""

    def __init__(self, at: set[int]) -> None:
        self._left = set(at)
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls in self._left:
            raise Crash


class Place:
    """A topic with numbers as messages, a consumer before its leader, and a new group for each use."""

    def __init__(self, kafka: Kafka) -> None:
        self.topic = kafka.topic()
        for number in range(COUNT):
            kafka.produce(self.topic, VALUES[number], timestamp_ms=1_000 * number)
        self.consumer = SimpleConsumer(*address_of(kafka, kafka.leader(self.topic)))
        self.partition = TopicPartition(self.topic, 0)
        self._groups = 0

    def group(self) -> str:
        self._groups += 1
        return f"{self.topic}-{self._groups}"


@pytest.fixture
def place(kafka: Kafka) -> Iterator[Place]:
    made = Place(kafka)
    yield made
    made.consumer.close()


CRASHES = some.sets(some.integers(1, 2 * COUNT))
QUICK = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


def value_of(message: Record) -> str:
    return (message.value or b"").decode()


@QUICK
@given(crashes=CRASHES)
def test_at_most_once_processes_no_message_twice_and_loses_those_of_crashes(place: Place, crashes: set[int]) -> None:
    done: list[str] = []
    group, crash, tries = place.group(), Crashes(crashes), []

    def work(message: Record) -> None:
        tries.append(value_of(message))
        crash()
        done.append(value_of(message))

    restarted(lambda: at_most_once(place.consumer, group, place.partition, work))
    assert tries == VALUES
    assert done == [value for number, value in enumerate(VALUES, 1) if number not in crashes]


@QUICK
@given(crashes=CRASHES)
def test_at_least_once_loses_no_message_and_repeats_those_of_crashes(place: Place, crashes: set[int]) -> None:
    done: list[str] = []
    group, crash = place.group(), Crashes(crashes)

    def work(message: Record) -> None:
        done.append(value_of(message))
        crash()

    restarted(lambda: at_least_once(place.consumer, group, place.partition, work))
    assert list(dict.fromkeys(done)) == VALUES
    assert len(done) == COUNT + len([number for number in crashes if number <= len(done)])


@QUICK
@given(before=CRASHES, after=CRASHES)
def test_offsets_in_the_transaction_of_the_results_make_each_message_count_once(
    place: Place, before: set[int], after: set[int]
) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE results (value TEXT)")
        early, late = Crashes(before), Crashes(after)

        def work(connection: sqlite3.Connection, message: Record) -> None:
            early()
            connection.execute("INSERT INTO results VALUES (?)", [value_of(message)])
            late()

        restarted(lambda: exactly_once(place.consumer, database, place.partition, work))
        results = [value for (value,) in database.execute("SELECT value FROM results ORDER BY rowid")]
        assert Counter(results) == Counter(VALUES)
        assert database.execute("SELECT next FROM offsets").fetchall() == [(COUNT,)]


@pytest.mark.parametrize("time_ms", [0, 1, 2_500, 3_000, 5_000, 9_999])
def test_a_reader_goes_back_to_a_time(place: Place, time_ms: int) -> None:
    found = [value_of(message) for message in since(place.consumer, place.partition, time_ms)]
    assert found == [value for number, value in enumerate(VALUES) if 1_000 * number >= time_ms]


def test_a_program_that_shares_a_topic_prints_and_commits_what_it_gets(site: DocumentedSite) -> None:
    topic = site.topic([1])
    site.send(topic, [0, 0])
    connector = site.connector(auto_commit_enable=False, consumer_timeout_ms=-1)
    lines: list[str] = []
    sharing = Thread(target=lambda: share(connector, topic, lines.append), daemon=True)
    sharing.start()
    eventually(lambda: site.nodes(f"offsets/{topic}") == {"0": "2"}, "both are committed")
    connector.shutdown()
    sharing.join(10)
    assert not sharing.is_alive()
    assert lines == [f"{connector.consumer_id} owns {topic}-0", f"{topic}-0 0: 0:0", f"{topic}-0 1: 0:1"]
