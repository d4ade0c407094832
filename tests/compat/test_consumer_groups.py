"""Consumer groups of KIP-848: what Apache Kafka 4.4.0 answers and writes is recorded, and ours must do the same.

`make consumer-groups` plays every situation before Apache Kafka itself, too, and compares that with the record; with
UPDATE=1 it writes the record anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import uuid4

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import APIS
from tests.compat.consumer_groups.catalogue import SITUATIONS
from tests.compat.consumer_groups.differences import (
    DIFFERENCES,
    LAST_ANSWER_ONLY,
    RULES,
    WITHOUT_RECORDS,
    as_ours,
    compared_part,
)
from tests.compat.consumer_groups.playing import Stage, compared, recorded, transcript, write_transcript
from tests.compat.consumer_groups.registry import FLAVOURS, SETTINGS, Situation
from tests.compat.consumer_groups.unordered import is_by_chance, unordered
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.wire import Broker
from tests.outside.java import KRaftProcess
from tests.outside.needs import kafka_clients_jar, kafka_jars
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA

MODE = os.environ.get("SORDINI_CONSUMER_GROUPS")
"""`all`: Apache Kafka's own, too; `ours`: Sordini's, even before the protocol is served."""
IS_UPDATED = bool(os.environ.get("UPDATE"))
IS_PLAYED = MODE == "ours" or ApiKey.CONSUMER_GROUP_DESCRIBE in APIS
FAMILIES = tuple(dict.fromkeys(situation.family for situation in SITUATIONS))
THEIR_SETTINGS: dict[str, object] = {"group.coordinator.append.linger.ms": 0}
"""Each request is a batch of its own, also where another comes soon."""
Start = Callable[[Path, dict[str, object]], BrokerProcess]


class Stages:
    """A broker with the settings of one flavour at a time, started when its first situation is played."""

    def __init__(self, start: Start, directory: Path, definitions: Definitions) -> None:
        self._start = start
        self._directory = directory
        self._definitions = definitions
        self._flavour: str | None = None
        self._process: BrokerProcess | None = None
        self._stage: Stage | None = None

    def play(self, situation: Situation) -> list[str]:
        if self._stage is None or self._flavour != situation.flavour:
            self.close()
            settings = {**SETTINGS, **FLAVOURS[situation.flavour]}
            self._process = self._start(self._directory / f"flavour-{situation.flavour}", settings).start()
            broker = Broker("127.0.0.1", self._process.port, self._definitions, prefix=f"run{uuid4().hex[:8]}")
            self._stage, self._flavour = Stage(broker), situation.flavour
        return self._stage.play(situation)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # There is nothing to keep.
        self._process = self._stage = None


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    coordinator = kafka_jars(NEWEST_APACHE_KAFKA) / f"kafka-group-coordinator-{NEWEST_APACHE_KAFKA}.jar"
    return Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA), coordinator)


@pytest.fixture(scope="module")
def apache(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    def start(directory: Path, settings: dict[str, object]) -> KRaftProcess:
        return KRaftProcess(directory, {**settings, **THEIR_SETTINGS})

    stages = Stages(start, tmp_path_factory.mktemp("groups-apache"), definitions)
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def sordini(definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    stages = Stages(SordiniProcess, tmp_path_factory.mktemp("groups-sordini"), definitions)
    yield stages
    stages.close()


def _played() -> Iterator[object]:
    """Those of one flavour together; a flavour is a broker of its own, and a plain run has one."""
    for situation in sorted(SITUATIONS, key=lambda situation: situation.flavour):
        marks = [pytest.mark.slow] if situation.flavour else []
        yield pytest.param(situation, marks=marks, id=f"{situation.family}: {situation.sentence}")


PLAYED = list(_played())


@pytest.mark.skipif(MODE != "all", reason="`make consumer-groups` runs it")
@pytest.mark.parametrize("situation", PLAYED)
def test_apache_kafka_does_what_is_recorded_when(situation: Situation, apache: Stages) -> None:
    lines = apache.play(situation)
    if IS_UPDATED:
        sentences = [other.sentence for other in SITUATIONS if other.family == situation.family]
        write_transcript(situation.family, {situation.sentence: lines}, sentences)
    expected = recorded(situation)
    if is_by_chance(expected):
        expected, lines = unordered(expected), unordered(lines)
    complaints = compared(expected, lines, "Apache Kafka")
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.skipif(not IS_PLAYED, reason="ConsumerGroupDescribe is not served")
@pytest.mark.parametrize("situation", PLAYED)
def test_sordini_does_what_apache_kafka_did_when(situation: Situation, sordini: Stages) -> None:
    expected = as_ours(situation.sentence, recorded(situation))
    played = compared_part(situation.sentence, sordini.play(situation))
    expected = compared_part(situation.sentence, expected)
    complaints = compared(unordered(expected), unordered(played), "Sordini")
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_situation_is_recorded_and_nothing_else(family: str) -> None:
    sentences = [situation.sentence for situation in SITUATIONS if situation.family == family]
    assert list(transcript(family)) == sentences


def test_no_two_situations_have_one_name_and_there_are_at_least_80() -> None:
    sentences = [situation.sentence for situation in SITUATIONS]
    assert len(sentences) == len(set(sentences)) >= 80


def test_every_difference_is_in_a_transcript_that_it_names_and_has_a_reason() -> None:
    for difference in DIFFERENCES:
        named = [each for each in SITUATIONS if fnmatchcase(each.sentence, difference.sentence)]
        assert any(difference.theirs in recorded(situation) for situation in named)
        assert len(difference.why) > 20


def test_situations_that_are_compared_in_part_are_situations() -> None:
    assert {*WITHOUT_RECORDS, *LAST_ANSWER_ONLY} <= {situation.sentence for situation in SITUATIONS}


def test_every_rule_of_differences_applies_somewhere() -> None:
    lines = [line for family in FAMILIES for recorded_lines in transcript(family).values() for line in recorded_lines]
    for rule in RULES:
        assert any(re.search(rule.theirs, line) for line in lines), rule.theirs
        assert len(rule.why) > 20
