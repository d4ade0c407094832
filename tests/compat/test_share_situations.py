"""Share groups and their dead letters: what Apache Kafka 4.4.0 does is recorded, and ours must do the same.

`make shares` plays every situation before Apache Kafka itself, too, and compares that with the record; with UPDATE=1 it
writes the record anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.consumer_groups.playing import compared, transcript, write_transcript
from tests.compat.shares.differences import DIFFERENCES, as_ours
from tests.compat.shares.letter_situations import LETTER_SITUATIONS, LetterSituation
from tests.compat.shares.letter_story import LetterStory
from tests.compat.shares.situations import SITUATIONS, Situation
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA

IS_JUDGED = bool(os.environ.get("SORDINI_SHARES"))
IS_UPDATED = bool(os.environ.get("UPDATE"))
FOLDER = Path(__file__).parent / "shares" / "transcripts"
FAMILIES: dict[str, list[Situation] | list[LetterSituation]] = {"shares": SITUATIONS, "dead_letters": LETTER_SITUATIONS}
SETTINGS: dict[str, object] = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1_000,
    "log.retention.ms": -1,
    "transaction.state.log.num.partitions": 1,
}
"""Locks may end soon, and records of long ago stay."""


class Stage:
    """One broker, and the situations that were played before it."""

    def __init__(self, process: BrokerProcess, definitions: Definitions, *, waits: bool) -> None:
        """`waits`: dead letters that cannot be written are tried again."""
        self._waits = waits
        self._broker = Broker("127.0.0.1", process.port, definitions, prefix=f"run{uuid4().hex[:8]}")
        until(
            lambda: self._broker.ask("Metadata", 9, topics=[]),
            lambda seen: isinstance(seen, dict) and bool(seen["brokers"]),
        )
        self._count = 0

    def close(self) -> None:
        self._broker.close()

    def play(self, situation: Situation | LetterSituation) -> list[str]:
        self._count += 1
        with closing(LetterStory(self._broker, self._count, waits=self._waits)) as story:
            situation.play(story)
        return [line.replace(self._broker.prefix, "run") for line in story.lines]


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA))


def _stage(
    start: Callable[[Path, dict[str, object]], BrokerProcess], path: Path, definitions: Definitions, *, waits: bool
) -> Iterator[Stage]:
    process = start(path, SETTINGS).start()
    with closing(Stage(process, definitions, waits=waits)) as stage:
        yield stage
    process.kill()  # There is nothing to keep.


@pytest.fixture(scope="module")
def apache(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from _stage(KRaftProcess, tmp_path_factory.mktemp("shares-apache"), definitions, waits=False)


@pytest.fixture(scope="module")
def sordini(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from _stage(SordiniProcess, tmp_path_factory.mktemp("shares-sordini"), definitions, waits=True)


EACH = pytest.mark.parametrize(
    ("family", "situation"),
    [
        pytest.param(family, one, id=f"{family}: {one.sentence}")
        for family, situations in FAMILIES.items()
        for one in situations
    ],
)


@pytest.mark.skipif(not IS_JUDGED, reason="`make shares` runs it")
@EACH
def test_apache_kafka_does_what_is_recorded_when(
    family: str, situation: Situation | LetterSituation, apache: Stage
) -> None:
    played = apache.play(situation)
    if IS_UPDATED:
        write_transcript(family, {situation.sentence: played}, [one.sentence for one in FAMILIES[family]], FOLDER)
    difference = compared(transcript(family, FOLDER)[situation.sentence], played, "Apache Kafka")
    assert not difference, "\n".join(difference)


@EACH
def test_sordini_does_as_apache_kafka_when(family: str, situation: Situation | LetterSituation, sordini: Stage) -> None:
    recorded = as_ours(situation.sentence, transcript(family, FOLDER)[situation.sentence])
    difference = compared(recorded, sordini.play(situation), "Sordini")
    assert not difference, "\n".join(difference)


def test_each_difference_is_of_a_situation_that_is_recorded() -> None:
    recorded = {family: transcript(family, FOLDER) for family in FAMILIES}
    lines = {sentence: found for one in recorded.values() for sentence, found in one.items()}
    for difference in DIFFERENCES:
        assert any(difference.theirs in line for line in lines[difference.sentence]), difference
    for family, situations in FAMILIES.items():
        assert list(recorded[family]) == [situation.sentence for situation in situations]
