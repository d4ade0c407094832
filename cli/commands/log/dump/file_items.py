"""Readers of all files of a log directory: their contents, and where they are damaged.

Each kind of file has a reader that yields `Item`s in file order, each printed as one line of JSON or of text. Damage
is an item, too; reading continues after it if possible. The broker's own readers are not used, since they repair
what they find.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from sordini.cli.commands.log.dump.items import Item, damage
from sordini.cli.commands.log.dump.kafka_indexes import rows
from sordini.cli.commands.log.dump.oldest_items import is_oldest, read_oldest
from sordini.cli.commands.log.dump.segment_items import read_log
from sordini.cli.commands.log.files.snapshot_file import read_snapshot
from sordini.protocol.records.batch import HEADER_SIZE, read_header
from sordini.protocol.types import topic_id_text
from sordini.storage import names, offset_index, time_index
from sordini.storage.checkpoints import DamagedFile, read_epochs, read_meta, read_offsets, read_topic_id
from sordini.storage.disk import Disk, File
from sordini.storage.producer_state import AbortedTransaction
from sordini.system.named_tuple import NamedTuple

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, CLEANER_OFFSETS)
SUFFIXES: Final = (names.DELETED, names.CLEANED, names.SWAP)
"""Suffixes of files that are being replaced or removed."""

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORT_ENTRY = struct.Struct(">hqqqq")


class DumpedFile(NamedTuple):
    """One file to read: its directory, its name, and the base offset of its segment."""

    disk: Disk
    directory: str
    name: str
    base: int


class UnknownFile(Exception):
    """A file that this command does not know by its name."""

    def __init__(self) -> None:
        super().__init__(
            "its name is not that of a file in a partition's or log directory "
            "(.log, .index, .timeindex, .txnindex, .snapshot, a checkpoint, meta.properties, partition.metadata; "
            "of Kafka 0.7 .kafka, .messagesetsend or .multimessagesetsend)"
        )


def read_file(disk: Disk, path: str, *, with_records: bool) -> Iterator[Item]:
    """The items of a file, recognised by its name. Raises UnknownFile, OSError."""
    directory, _, name = path.rpartition("/")
    source = DumpedFile(disk, directory or ".", name, 0)
    text_reader = _TEXT_READERS.get(name)
    if text_reader is not None:
        yield from _guarded(text_reader, source)
        return
    plain = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    suffix = plain[plain.find(".") :] if "." in plain else ""
    base = names.offset_of(plain, suffix)
    if not is_oldest(name) and (base is None or suffix not in {names.LOG, *_READERS}):
        raise UnknownFile
    file = disk.open(path, writable=False)
    try:
        if base is None or is_oldest(name):
            yield from read_oldest(file, name, with_payloads=with_records)
        elif suffix == names.LOG:
            yield from read_log(file, base, with_records=with_records)
        else:
            yield from _READERS[suffix](source._replace(base=base), file)
    finally:
        file.close()


def _offset_index(source: DumpedFile, file: File) -> Iterator[Item]:
    """Entries up to the zero padding of an active segment's index, each compared with the segment's log."""
    log = _log_beside(source)
    previous = (-1, -1)
    try:
        for at, (relative, position) in rows(file, _INDEX_ENTRY):
            if (relative, position) <= (0, 0) and at:
                yield Item("padding", {"position": at, "bytes": file.size() - at})
                return
            yield Item("entry", {"offset": source.base + relative, "position": position})
            if relative <= previous[0] or position <= previous[1]:
                yield damage(at, "the entry does not come after the one before it")
            elif log is not None and not _begins_a_batch(log, position, source.base + relative):
                yield damage(
                    at, f"no batch before offset {source.base + relative + 1} begins at byte {position} of the log"
                )
            previous = (relative, position)
        yield from _rest(file, offset_index.ENTRY_SIZE)
    finally:
        if log is not None:
            log.close()


def _log_beside(source: DumpedFile) -> File | None:
    try:
        return source.disk.open(f"{source.directory}/{names.file_name(source.base, names.LOG)}", writable=False)
    except FileNotFoundError:
        return None


def _begins_a_batch(log: File, position: int, offset: int) -> bool:
    head = log.read_at(position, HEADER_SIZE)
    return len(head) == HEADER_SIZE and read_header(head).base_offset <= offset and read_header(head).size > 0


def _time_index(source: DumpedFile, file: File) -> Iterator[Item]:
    previous = (-(2**63), -1)
    for at, (timestamp, relative) in rows(file, _TIME_ENTRY):
        if (timestamp, relative) == (0, 0) and at:
            yield Item("padding", {"position": at, "bytes": file.size() - at})
            return
        yield Item("entry", {"timestamp": timestamp, "offset": source.base + relative})
        if timestamp <= previous[0] or relative < previous[1]:
            yield damage(at, "the entry does not come after the one before it")
        previous = (timestamp, relative)
    yield from _rest(file, time_index.ENTRY_SIZE)


def _transaction_index(_: DumpedFile, file: File) -> Iterator[Item]:
    for at, (version, *fields) in rows(file, _ABORT_ENTRY):
        if version != 0:
            yield damage(at, f"version {version} is not known")
            return
        yield Item("aborted", AbortedTransaction(*fields)._asdict())
    yield from _rest(file, _ABORT_ENTRY.size)


def _snapshot(_: DumpedFile, file: File) -> Iterator[Item]:
    entries = read_snapshot(file.read_at(0, file.size()))
    if isinstance(entries, str):
        yield damage(0, entries)
        return
    for producer in entries:
        yield Item("producer", producer._asdict())


def _rest(file: File, entry_size: int) -> Iterator[Item]:
    rest = file.size() % entry_size
    if rest:
        yield damage(file.size() - rest, f"{rest} bytes are left, an entry has {entry_size}")


def _offsets_checkpoint(source: DumpedFile) -> Iterator[Item]:
    for (topic, partition), offset in sorted(read_offsets(source.disk, source.directory, source.name).items()):
        yield Item("checkpoint", {"topic": topic, "partition": partition, "offset": offset})


def _epochs(source: DumpedFile) -> Iterator[Item]:
    previous = (-1, -1)
    for epoch, start in read_epochs(source.disk, source.directory):
        yield Item("epoch", {"leader_epoch": epoch, "start_offset": start})
        if epoch <= previous[0] or start < previous[1]:
            yield damage(0, f"epoch {epoch} does not come after epoch {previous[0]}")
        previous = (epoch, start)


def _topic_id(source: DumpedFile) -> Iterator[Item]:
    yield Item("topic_id", {"topic_id": topic_id_text(read_topic_id(source.disk, source.directory))})


def _meta(source: DumpedFile) -> Iterator[Item]:
    read = read_meta(source.disk, source.directory)
    for key, value in (read[1] if read else {}).items():
        yield Item("property", {"key": key, "value": value})


def _guarded(reader: Callable[[DumpedFile], Iterator[Item]], source: DumpedFile) -> Iterator[Item]:
    source.disk.file_size(f"{source.directory}/{source.name}")  # The readers would treat a missing file as empty.
    try:
        yield from reader(source)
    except DamagedFile as error:
        yield damage(0, str(error))


_READERS: Final[dict[str, Callable[[DumpedFile, File], Iterator[Item]]]] = {
    names.OFFSET_INDEX: _offset_index,
    names.TIME_INDEX: _time_index,
    names.TRANSACTION_INDEX: _transaction_index,
    names.SNAPSHOT: _snapshot,
}
_TEXT_READERS: Final[dict[str, Callable[[DumpedFile], Iterator[Item]]]] = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, _offsets_checkpoint),
    names.LEADER_EPOCHS: _epochs,
    names.PARTITION_METADATA: _topic_id,
    names.META_PROPERTIES: _meta,
}
TEXT_FILES: Final = frozenset(_TEXT_READERS)
"""The small text files that are shown."""
