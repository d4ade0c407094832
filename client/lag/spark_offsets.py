"""The offsets in a checkpoint of Spark's Structured Streaming, of its own Kafka source and of Sordini's. Pure.

    CHECKPOINT/offsets/N    what batch N reads up to: a line with the version, one with metadata, one for each source
    CHECKPOINT/commits/N    batch N is done

A source's line is JSON, `{"orders": {"0": 120, "1": 98}}`; a source that reads no Kafka has another form, and one that
has read nothing yet a dash. Names that begin with `$` are not topics' (`pipeline/source/positions.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from sordini.client.errors import ClientError
from sordini.client.lag.reading import Reader
from sordini.protocol.types import TopicPartition

KIND = "checkpoint"
_HEAD_LINES = 2
"""The version and the metadata."""


class CheckpointFolder(Protocol):
    """A folder on a disk or in an object store. Raises ClientError."""

    location: str

    def names(self, folder: str) -> list[str]:
        """The names in a folder below; none if it does not exist."""

    def text_of(self, name: str) -> str | None:
        """A file's text; None if it does not exist."""


class NoCheckpoint(ClientError):
    """A folder is no checkpoint of Spark, or a damaged one."""


def read_checkpoint(folder: CheckpointFolder) -> Reader:
    """Where a query goes on: the end of its last batch that is done. Raises NoCheckpoint and what the folder raises.

    Before its first batch is done, a query has read nothing that it would not read again: it goes on where that begins,
    which Spark does not note. Then there are no offsets.
    """
    planned = _numbers(folder.names("offsets"))
    if not planned:
        raise NoCheckpoint(f"{folder.location} is no checkpoint of Spark: it has no file offsets/0, offsets/1, ...")
    done = [number for number in _numbers(folder.names("commits")) if number in planned]
    if not done:
        return Reader(folder.location, KIND, {})
    name = f"offsets/{max(done)}"
    text = folder.text_of(name)
    if text is None:  # Spark removes old files; this one was there a moment ago.
        raise NoCheckpoint(f"{folder.location}/{name} was removed meanwhile: try again")
    return Reader(folder.location, KIND, parse_offsets(text, f"{folder.location}/{name}"))


def parse_offsets(text: str, name: str) -> dict[TopicPartition, int]:
    """The offsets of all Kafka sources in a file of the offset log. Raises NoCheckpoint."""
    lines = text.splitlines()
    if len(lines) <= _HEAD_LINES or not lines[0].startswith("v"):
        raise NoCheckpoint(f"{name} is damaged: it is no file of Spark's offset log")
    found: dict[TopicPartition, int] = {}
    sources = 0
    for line in lines[_HEAD_LINES:]:
        offsets = _of_source(line)
        if offsets is not None:
            sources += 1
            for partition, offset in offsets.items():
                # Two sources of one topic: the one that is farther behind.
                found[partition] = min(offset, found.get(partition, offset))
    if not sources:
        raise NoCheckpoint(f"{name} has no source that reads Kafka")
    return found


def _of_source(line: str) -> dict[TopicPartition, int] | None:
    """The offsets of one source; None for one that reads something else."""
    try:
        value: Any = json.loads(line)
    except ValueError:
        return {} if line == "-" else None
    if not isinstance(value, dict):
        return None
    found: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        if topic.startswith("$"):
            continue
        if not isinstance(partitions, dict) or not partitions:
            return None
        for number, offset in partitions.items():
            if not number.isdecimal() or type(offset) is not int or offset < 0:
                return None
            found[TopicPartition(topic, int(number))] = offset
    return found


def _numbers(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if name.isdecimal()}
