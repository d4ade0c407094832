"""The small text files: offset checkpoints, leader epochs, `meta.properties`, `partition.metadata`.

All are replaced as a whole: a new file is written, synced and renamed over the old one, and the directory is synced,
so a reader finds the old text or the new one. As in Apache Kafka, a damaged checkpoint takes the whole log directory
offline, because its offsets decide what is recovered.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_from_text, topic_id_text
from sordini.storage.disk import Disk
from sordini.storage.names import LEADER_EPOCHS, META_PROPERTIES, PARTITION_METADATA
from sordini.system.named_tuple import NamedTuple

VERSION = "0"
CLUSTER_ID_CHARACTERS = 22


class DamagedFile(Exception):
    """A text file does not hold what its format says."""


class KraftDirectory(DamagedFile):
    """A log directory of Apache Kafka in KRaft mode: its topics are in a log of their metadata, not in ZooKeeper."""


class MetaProperties(NamedTuple):
    """Whose log directory this is; None where the file does not say."""

    broker_id: int | None
    cluster_id: str | None


def write_whole(disk: Disk, directory: str, name: str, text: str) -> None:
    """Replace a file by `text`, durably and at once. Slow (two syncs); raises OSError."""
    temporary = write_beside(disk, directory, name, text)
    sync_file(disk, temporary)
    disk.rename(temporary, f"{directory}/{name}")
    disk.sync_directory(directory)


def write_beside(disk: Disk, directory: str, name: str, text: str) -> str:
    """Write the replacement of a file; its path, for the caller to sync and rename. Raises OSError."""
    temporary = f"{directory}/{name}.tmp"
    write_over(disk, temporary, text.encode())
    return temporary


def write_over(disk: Disk, path: str, data: bytes) -> None:
    """Make these the bytes of a file, unsynced; a crash meanwhile leaves a part of them. Raises OSError."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if file.append((data,)) != len(data):
            raise OSError(errno.ENOSPC, "a short write", path)
    finally:
        file.close()


def sync_file(disk: Disk, path: str) -> None:
    """Make a file's bytes durable, but not its name. Slow; raises OSError."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def read_whole(disk: Disk, directory: str, name: str) -> str | None:
    """A file's text, or None when there is no such file; raises DamagedFile when it is not text."""
    try:
        return disk.read(f"{directory}/{name}").decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{directory}/{name} is not text") from error


def write_offsets(disk: Disk, directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset checkpoint: `topic partition offset` lines."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_whole(disk, directory, name, _text(lines))


def read_offsets(disk: Disk, directory: str, name: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; a missing or empty file has no entries. Raises DamagedFile."""
    offsets = {}
    for line in _lines(read_whole(disk, directory, name), f"{directory}/{name}"):
        fields = line.split(" ")
        if len(fields) != 3:
            raise DamagedFile(f"{directory}/{name} has the line {line!r}")
        topic, partition, offset = fields
        path = f"{directory}/{name}"
        offsets[TopicPartition(topic, _number(partition, path))] = _number(offset, path)
    return offsets


def write_epochs(disk: Disk, directory: str, entries: Iterable[tuple[int, int]]) -> None:
    """Write a log's leader epochs: `epoch start-offset` lines."""
    write_whole(disk, directory, LEADER_EPOCHS, epochs_text(entries))


def epochs_text(entries: Iterable[tuple[int, int]]) -> str:
    """The text of a file of leader epochs."""
    return _text([f"{epoch} {start}" for epoch, start in entries])


def read_epochs(disk: Disk, directory: str) -> list[tuple[int, int]]:
    """Read a log's leader epochs; a missing file has none. Raises DamagedFile."""
    path = f"{directory}/{LEADER_EPOCHS}"
    entries = []
    for line in _lines(read_whole(disk, directory, LEADER_EPOCHS), path):
        fields = line.split(" ")
        if len(fields) != 2:
            raise DamagedFile(f"{path} has the line {line!r}")
        entries.append((_number(fields[0], path), _number(fields[1], path)))
    return entries


def write_topic_id(disk: Disk, directory: str, topic_id: TopicId) -> None:
    """Write `partition.metadata`. Not synced: the log's first flush calls `sync_topic_id`."""
    data = f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()
    write_over(disk, f"{directory}/{PARTITION_METADATA}", data)


def sync_topic_id(disk: Disk, directory: str) -> None:
    """Make `partition.metadata` durable, but not its name. Slow; raises OSError."""
    sync_file(disk, f"{directory}/{PARTITION_METADATA}")


def read_topic_id(disk: Disk, directory: str) -> TopicId:
    """Read `partition.metadata`; NO_TOPIC_ID when there is none. Raises DamagedFile."""
    path = f"{directory}/{PARTITION_METADATA}"
    text = read_whole(disk, directory, PARTITION_METADATA)
    if text is None:
        return NO_TOPIC_ID
    try:
        return _topic_id_in(text)
    except _OtherVersion as error:
        raise DamagedFile(f"{path} has version {error}") from error
    except (KeyError, ValueError) as error:
        raise DamagedFile(f"{path} holds no topic id") from error


class _OtherVersion(Exception):
    """The text is of another version, which it names."""


@lru_cache(maxsize=1024)  # All partitions of a topic have the same text, and then share the id.
def _topic_id_in(text: str) -> TopicId:
    fields = _fields(text, ":")
    # Version 1 holds the same two fields and is read by Apache Kafka too.
    if fields["version"] not in ("0", "1"):
        raise _OtherVersion(repr(fields["version"]))
    return topic_id_from_text(fields["topic_id"])


def write_meta(disk: Disk, directory: str, broker_id: int, cluster_id: str, others: Mapping[str, str]) -> None:
    """Write `meta.properties`; `others` are keys of other releases that are kept, such as `directory.id`."""
    assert len(cluster_id) == CLUSTER_ID_CHARACTERS, f"{cluster_id!r} is not a cluster id"
    fields = {**others, "version": VERSION, "broker.id": str(broker_id), "cluster.id": cluster_id}
    write_whole(disk, directory, META_PROPERTIES, "".join(f"{key}={value}\n" for key, value in fields.items()))


def read_meta(disk: Disk, directory: str) -> tuple[MetaProperties, dict[str, str]] | None:
    """Read `meta.properties`: its broker and cluster, and all its keys; None without the file. Raises DamagedFile."""
    text = read_whole(disk, directory, META_PROPERTIES)
    if text is None:
        return None
    fields = _fields(text, "=")
    path = f"{directory}/{META_PROPERTIES}"
    if "node.id" in fields:
        raise KraftDirectory(
            f"{path} is of Apache Kafka in KRaft mode, whose directories cannot be taken over (docs/kraft.md)"
        )
    if fields.get("version") != VERSION:
        raise DamagedFile(f"{path} has version {fields.get('version')!r}, only {VERSION} is known")
    broker_id = fields.get("broker.id")
    return MetaProperties(None if broker_id is None else _number(broker_id, path), fields.get("cluster.id")), fields


def _text(lines: list[str]) -> str:
    return "\n".join([VERSION, str(len(lines)), *lines, ""])


def _lines(text: str | None, path: str) -> list[str]:
    """The entries of a checkpoint: after the version and the count, exactly that number of lines."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[0] != VERSION:
        raise DamagedFile(f"{path} has version {lines[0]!r}")
    entries = [line for line in lines[2:] if line]
    if len(lines) < 2 or _number(lines[1], path) != len(entries):
        raise DamagedFile(f"{path} has {len(entries)} entries and another count")
    return entries


def _fields(text: str, separator: str) -> dict[str, str]:
    fields = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "!")):
            key, _, value = line.partition(separator)
            fields[key.strip()] = value.strip()
    return fields


def _number(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise DamagedFile(f"{path} has {text!r} where a number belongs") from error
