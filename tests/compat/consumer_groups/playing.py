"""Situations played before a broker, and the transcripts that say what Apache Kafka did."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.compat.consumer_groups.registry import TOPICS, Situation
from tests.compat.consumer_groups.story import Story, wait_for_coordinator
from tests.compat.consumer_groups.written import OffsetsReader
from tests.compat.situations.wire import Broker

TRANSCRIPTS = Path(__file__).parent / "transcripts"
_HEAD = "== "


class Stage:
    """One broker with the topics that are there in every situation."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        wait_for_coordinator(broker, broker.name("first"))
        self._offsets = OffsetsReader(broker)
        self._topics = {
            name: (broker.topic_id(broker.create_led(name, count)), count) for name, count in TOPICS.items()
        }
        self._count = 0

    def play(self, situation: Situation) -> list[str]:
        """The lines of the situation's transcript."""
        self._count += 1
        with Story(self._broker, self._offsets, self._topics) as story:
            story.begin(self._count)
            situation.play(story)
            return story.lines


def transcript(family: str, folder: Path = TRANSCRIPTS) -> dict[str, list[str]]:
    """The recorded lines of each situation of a family, by its sentence."""
    path = folder / f"{family}.txt"
    return dict(_parts(path.read_text(encoding="utf-8").splitlines())) if path.exists() else {}


def _parts(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    kept: list[str] = []
    for line in lines:
        if line.startswith(_HEAD):
            kept = []
            yield line.removeprefix(_HEAD), kept
        elif line:
            kept.append(line)


def write_transcript(
    family: str, played: Mapping[str, list[str]], order: Iterable[str], folder: Path = TRANSCRIPTS
) -> None:
    """Replace what was recorded of these situations; those that are not in `order` go."""
    folder.mkdir(exist_ok=True)
    known = {**transcript(family, folder), **played}
    parts = ["\n".join([f"{_HEAD}{sentence}", *known[sentence], ""]) for sentence in order if sentence in known]
    (folder / f"{family}.txt").write_text("\n".join(parts), encoding="utf-8")


def recorded(situation: Situation) -> list[str]:
    return transcript(situation.family)[situation.sentence]


def compared(expected: list[str], played: list[str], who: str) -> list[str]:
    """What differs, line by line; empty if nothing does."""
    return list(difflib.unified_diff(expected, played, "as recorded", who, n=2, lineterm=""))
