"""The position of a reader: the next offset of each partition, and what else a checkpoint stores.

A position is JSON in Spark's offset log and progress reports. It has the form of the JVM source's, so that the same
tools read both, and two more entries, whose names cannot be those of topics:

    {"views": {"0": 120, "1": 98}, "$topic_ids": {"views": "MgYZ...w"}, "$started_at": {"views": {"0": 0, "1": 0}}}

- `$topic_ids` detects a topic that was deleted and created again.
- `$started_at` is only in a query's first position and in the end of its first batch. Spark logs only the end of a
  batch. If the query crashes in its first batch, Spark requests the start again, and by then "latest" is another
  offset: the start is taken from the end of that batch.

Spark compares positions as text, so the same position is always the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sordini.pipeline.errors import BadSetting

Offsets = dict[str, dict[int, int]]
"""Topic -> partition -> the next offset to be read."""

ABSENT_PARTITIONS_MAX: Final = 1000
"""Of topics that are not there, of which a position keeps the offsets."""
_TOPIC_IDS: Final = "$topic_ids"
_STARTED_AT: Final = "$started_at"


class BadPosition(BadSetting):
    """A text that is not a position or not offsets of partitions."""


class Position(NamedTuple):
    """All that a query needs to continue."""

    offsets: Offsets
    topic_ids: dict[str, str]
    """Only of topics whose broker has ids (Apache Kafka 2.8 and later, Sordini)."""
    started_at: Offsets | None = None

    @property
    def is_start(self) -> bool:
        """Whether this is the first position of a query."""
        return self.started_at == self.offsets

    def to_json(self) -> dict[str, Any]:
        """The same value for the same position, in the same order."""
        value: dict[str, Any] = _offsets_to_json(self.offsets)
        if self.topic_ids:
            value[_TOPIC_IDS] = dict(sorted(self.topic_ids.items()))
        if self.started_at is not None:
            value[_STARTED_AT] = _offsets_to_json(self.started_at)
        return value

    @classmethod
    def from_json(cls, value: object, subject: str = "a position") -> Position:
        """Read a position of ours or of the JVM source; raises BadPosition, whose text begins with `subject`."""
        entries = dict(_object(value, subject))
        topic_ids = _object(entries.pop(_TOPIC_IDS, {}), _TOPIC_IDS)
        started_at = entries.pop(_STARTED_AT, None)
        return cls(
            offsets_from_json(entries, subject),
            {topic: str(topic_id) for topic, topic_id in topic_ids.items()},
            None if started_at is None else offsets_from_json(started_at, _STARTED_AT),
        )


def read_offsets(text: str) -> Offsets:
    """The offsets in a position's text, of this source or of the JVM's; raises BadPosition."""
    return read_position(text).offsets


def read_position(text: str) -> Position:
    """The position in a text, of this source or of the JVM's; raises BadPosition."""
    return Position.from_json(_parsed(text, "a position"))


def lag(position: Offsets, latest: Offsets) -> Offsets:
    """How many offsets each partition is behind; one missing from the position is behind by all its offsets.

    Offsets are not records: compaction leaves gaps, and transaction markers take offsets.
    """
    return {
        topic: {
            partition: max(end - position.get(topic, {}).get(partition, 0), 0) for partition, end in partitions.items()
        }
        for topic, partitions in latest.items()
    }


def kept_absent(absent: Offsets, partitions_max: int = ABSENT_PARTITIONS_MAX) -> Offsets:
    """What a position keeps of topics that are not there: the last ones by name, with so many partitions at most.

    A pattern may match a topic for each day, of which old ones are deleted for good: without a limit each batch would
    store a longer position.
    """
    kept: Offsets = {}
    left = partitions_max
    for topic in sorted(absent, reverse=True):
        left -= len(absent[topic])
        if left < 0:
            break
        kept[topic] = absent[topic]
    return kept


def parse_offsets(text: str, option: str) -> Offsets:
    """Read `{"topic": {"0": 23}}`, or a position of a query, from an option; raises BadPosition, which names it."""
    return Position.from_json(_parsed(text, option), option).offsets


def parse_assignment(text: str, option: str) -> dict[str, list[int]]:
    """Read `{"topic": [0, 1]}` from the text of an option; raises BadPosition, which names the option."""
    assignment: dict[str, list[int]] = {}
    for topic, partitions in _object(_parsed(text, option), option).items():
        if not isinstance(partitions, list) or not all(type(number) is int and number >= 0 for number in partitions):
            raise BadPosition(f"{option}: {topic!r} needs a list of partition numbers, not {partitions!r}")
        assignment[topic] = sorted(set(partitions))
    return assignment


def offsets_from_json(value: object, subject: str) -> Offsets:
    """Check that a value is `{"topic": {"0": 23}}` through and through; raises BadPosition, which says where not."""
    offsets: Offsets = {}
    for topic, partitions in _object(value, subject).items():
        offsets[topic] = {}
        for partition, offset in _object(partitions, f"{subject}: {topic!r}").items():
            if not partition.isdecimal():
                raise BadPosition(f"{subject}: {partition!r} is no partition of {topic!r}; write a number in quotes")
            if type(offset) is not int:
                raise BadPosition(f"{subject}: {topic!r}, partition {partition} needs a whole number, not {offset!r}")
            offsets[topic][int(partition)] = offset
    return offsets


def _offsets_to_json(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    return {
        topic: {str(partition): offset for partition, offset in sorted(partitions.items())}
        for topic, partitions in sorted(offsets.items())
    }


def _parsed(text: str, subject: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadPosition(f"{subject}: {text!r} is not JSON ({error})") from None


def _object(value: object, subject: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadPosition(f'{subject} needs an object such as {{"topic": {{"0": 23}}}}, not {value!r}')
    return value
