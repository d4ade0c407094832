"""A checkpoint of a streaming query, from Spark's own Kafka source to this one, or back.

    CHECKPOINT/metadata         the query's id
    CHECKPOINT/offsets/N        what batch N reads up to: the version, metadata, and a line of JSON for each source
    CHECKPOINT/commits/N        batch N is done
    CHECKPOINT/sources/K/0      of Spark's own source number K: where its first batch begins; a zero byte, "v1", JSON
    CHECKPOINT/state/           of aggregates and joins

Both sources log a position as `{"orders": {"0": 120}}`. Ours has two more entries (`positions.py`), which the other one
takes for topics: they go away, or come with the next batch. Where the first batch begins is kept apart there, and in
the end of that batch here; it matters as long as that batch is not done. All else is copied as it is.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Final, NamedTuple

from pyarrow import fs

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.positions import BadPosition, Offsets, Position, offsets_from_json
from sordini.pipeline.source.sink_options import absolute

_VERSION: Final = "v1"
_HEAD_LINES: Final = 2
"""The version and the metadata."""
_INITIAL: Final = b"\0" + f"{_VERSION}\n".encode()
_NOTHING: Final = "-"
"""A source that has read nothing yet."""


class SourceKind(Enum):
    """A source by the name of its format."""

    SORDINI = "sordini"
    KAFKA = "kafka"


class BadCheckpoint(PipelineError):
    """A folder is no checkpoint, or one that cannot be converted."""


class Converted(NamedTuple):
    """What a converted checkpoint goes on with."""

    batch_id: int
    """The last batch that was planned."""
    is_done: bool
    """Whether it is committed; otherwise it is repeated, with the same records."""
    offsets: Offsets
    """After it; of all converted sources."""


def convert(location: str, into: str, to: SourceKind) -> Converted:
    """Write a checkpoint for the other source into a folder that does not exist yet. Paths or URIs of pyarrow.fs.

    The query must not run. Raises BadCheckpoint; nothing is written then.
    """
    source, target = _Folder(location), _Folder(into)
    if target.exists():
        raise BadCheckpoint(f"{into} exists already: a checkpoint is converted into a folder of its own")
    planned, done = source.numbers("offsets"), source.numbers("commits")
    if source.read("metadata") is None or not planned:
        begun = ", or one whose query has not planned a batch yet" if source.exists() else ""
        raise BadCheckpoint(f"{location} is no checkpoint of a streaming query (metadata, offsets/0, ...){begun}")
    last = max(planned)
    changed: dict[str, bytes] = {}
    offsets: Offsets = {}
    for number in planned:
        name = f"offsets/{number}"
        lines = source.lines(name)
        is_open = number == 0 and number not in done
        for index, line in enumerate(lines[_HEAD_LINES:]):
            if line == _NOTHING:
                continue
            position = _position(line, f"{location}/{name}")
            started_at = position.started_at
            if to is SourceKind.SORDINI and is_open and started_at is None:
                started_at = _read_initial(source, index)
            if to is SourceKind.KAFKA and is_open:
                changed[f"sources/{index}/0"] = _initial(started_at, f"{location}/{name}")
            lines[_HEAD_LINES + index] = _line(position._replace(started_at=started_at), to)
            if number == last:
                offsets |= position.offsets
        changed[name] = "\n".join(lines).encode()
    _write(source, target, changed)
    return Converted(last, last in done, offsets)


def _position(line: str, name: str) -> Position:
    try:
        return Position.from_json(json.loads(line), name)
    except (ValueError, BadPosition):
        raise BadCheckpoint(
            f"{name}: a source of the query is neither Kafka's nor sordini's; its position is {line[:100]}"
        ) from None


def _line(position: Position, to: SourceKind) -> str:
    plain = position if to is SourceKind.SORDINI else Position(position.offsets, {})
    return json.dumps(plain.to_json(), separators=(",", ":"))


def _read_initial(source: _Folder, index: int) -> Offsets:
    """Where the first batch of Spark's own source begins."""
    name = f"sources/{index}/0"
    data = source.read(name)
    if data is None:
        raise BadCheckpoint(f"{source.location}/{name} is missing: it is not known where the first batch begins")
    _, version, text = data.rpartition(_INITIAL)
    if not version:
        raise BadCheckpoint(f"{source.location}/{name} is no first position of Spark's own Kafka source")
    return offsets_from_json(json.loads(text), name)


def _initial(started_at: Offsets | None, name: str) -> bytes:
    if started_at is None:
        raise BadCheckpoint(f"{name} does not say where the first batch begins, which is not done")
    return _INITIAL + json.dumps(Position(started_at, {}).to_json(), separators=(",", ":")).encode()


def _write(source: _Folder, target: _Folder, changed: dict[str, bytes]) -> None:
    for name in source.files():
        folder, _, base = name.rpartition("/")
        is_checksum = base.startswith(".") and base.endswith(".crc")
        of = f"{folder}/{base[1:-4]}" if is_checksum else name
        # Those of changed files, which Hadoop would find wrong, are left out: none is no problem.
        if of not in changed:
            data = source.read(name)
            assert data is not None, "it was listed"
            target.write(name, data)
    for name, data in changed.items():
        target.write(name, data)


class _Folder:
    """A checkpoint by path or URI."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        try:
            self._files, self._root = fs.FileSystem.from_uri(absolute(self.location))
        except (OSError, ValueError) as error:
            raise BadCheckpoint(f"{location} cannot be used: {error}") from None

    def exists(self) -> bool:
        return bool(self._files.get_file_info(self._root).type is not fs.FileType.NotFound)

    def files(self) -> list[str]:
        selector = fs.FileSelector(self._root, recursive=True)
        infos = self._files.get_file_info(selector)
        return [info.path[len(self._root) + 1 :] for info in infos if info.type is fs.FileType.File]

    def numbers(self, folder: str) -> list[int]:
        infos = self._files.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        return sorted(int(info.base_name) for info in infos if info.base_name.isdecimal())

    def read(self, name: str) -> bytes | None:
        path = f"{self._root}/{name}"
        if self._files.get_file_info(path).type is not fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def lines(self, name: str) -> list[str]:
        data = self.read(name)
        lines = [] if data is None else data.decode().splitlines()
        if len(lines) <= _HEAD_LINES or lines[0] != _VERSION:
            raise BadCheckpoint(f"{self.location}/{name} is no offset log of version {_VERSION}")
        return lines

    def write(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        self._files.create_dir(path.rpartition("/")[0])
        with self._files.open_output_stream(path) as stream:
            stream.write(data)
