"""Putting compacted segments in the place of those they were made from, so that a crash leaves the old or the new.

    <base>.log.cleaned  ->  <base>.log.swap     one by one, from the last segment back to the first
    the directory is synced                     from here on it is the new that a crash leaves
    old files           ->  ....deleted         the list of segments now has the new ones
    <base>.log.swap     ->  <base>.log          from the first segment on, each log before its indexes

What a start makes of every state in between is in `leftovers`; Apache Kafka's rules are the same, which is why the
order is this one: while a `.cleaned` is left, every `.swap` at or after it is thrown away; once none is, all segments
between the first and the end of the last `.swap` go. Where a compacted segment ends before the last one that it
stands for begins, that end would spare the last one; so an empty stand-in takes its name for the time of the swap.

Everything here is a few calls for each file, on the loop, but for the sync in the middle, which `LogCleaner` hands to
a thread: a cut of the log meanwhile withdraws what is staged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sordini.storage import batch_scan, names
from sordini.storage.compaction.state import Staged
from sordini.storage.compaction.task import CleaningResult, Replacement
from sordini.storage.disk import Disk
from sordini.storage.segment import Segment

if TYPE_CHECKING:
    from sordini.storage.log import Log

SEGMENTS_AT_ONCE = 16
"""So many old segments, or those of one replacement, are swapped before the loop serves requests again."""
_POSITION = struct.Struct(">4xi")


class OutdatedResult(Exception):
    """The log is no longer what the cleaning read, or the files are not what it said: the result is thrown away."""


def swap(log: Log, result: CleaningResult, now_ms: int) -> None:
    """Put all replacements of a result in place at once. Slow for its sync.

    Raises OutdatedResult, the log being as it was, and StorageError or BrokerError.
    """
    if result.replacements:
        stage(log, result.replacements)
        try:
            log.home.disk.sync_directory(log.directory)
        except OSError as error:
            raise log.home.fail(error) from error
        finish(log, now_ms)
    log.compaction.first_dirty_offset = result.cleaned_to


def portions(result: CleaningResult) -> Iterator[tuple[Replacement, ...]]:
    """The replacements in parts that may be swapped one after the other, oldest first."""
    portion: list[Replacement] = []
    count = 0
    for made in result.replacements:
        if portion and count + len(made.replaces) > SEGMENTS_AT_ONCE:
            yield tuple(portion)
            portion, count = [], 0
        portion.append(made)
        count += len(made.replaces)
    if portion:
        yield tuple(portion)


def stage(log: Log, replacements: tuple[Replacement, ...]) -> None:
    """Name the new files `.swap`, the last segment's first. On an error the log is as it was, for `discard` to tidy.

    Raises OutdatedResult, StorageError or BrokerError.
    """
    log.home.check()
    _check(log, replacements)
    disk, directory = log.home.disk, log.directory
    try:
        present = set(disk.list_directory(directory))
        _check_files(disk, directory, replacements, present)
        bases = {made.base for made in replacements}
        placeholder = _placeholder(disk, directory, replacements[-1])
        if placeholder is not None:
            bases.add(placeholder)
        for name in present:
            if name.endswith(names.CLEANED) and _base_of(name) not in bases and _base_of(name) <= max(bases):
                # Left by a cleaning that was given up: a crash would be taken for one before the swap.
                disk.remove(f"{directory}/{name}")
        for base in sorted(bases, reverse=True):
            for suffix in reversed(names.SEGMENT_SUFFIXES):
                name = names.file_name(base, suffix)
                if f"{name}{names.CLEANED}" in present or (base == placeholder and suffix in _ALWAYS):
                    disk.rename(f"{directory}/{name}{names.CLEANED}", f"{directory}/{name}{names.SWAP}")
    except OSError as error:
        raise log.home.wrong(error) from error
    log.compaction.staged = Staged(replacements, placeholder)


def finish(log: Log, now_ms: int) -> None:
    """Put what is staged, and whose names are on the disk, in place.

    Raises StorageError: a swap that stops half-way can only be completed by the next start.
    """
    staged = log.compaction.staged
    assert staged is not None, "nothing is staged"
    log.compaction.staged = None
    disk, directory = log.home.disk, log.directory
    due_ms = now_ms + log.config.file_delete_delay_ms
    try:
        for made in staged.replacements:
            aborts = disk.exists(f"{directory}/{names.file_name(made.base, names.TRANSACTION_INDEX)}{names.SWAP}")
            segment = Segment(log.home.files, directory, made.base, made.size, aborts=aborts)
            log.segments.replace(made.replaces, [segment], due_ms)
            if staged.placeholder in made.replaces[1:]:
                for suffix in _ALWAYS:
                    disk.remove(f"{directory}/{names.file_name(made.replaces[-1], suffix)}{names.SWAP}")
            for suffix in names.SEGMENT_SUFFIXES:
                if suffix in _ALWAYS or aborts:
                    path = f"{directory}/{names.file_name(made.base, suffix)}"
                    disk.rename(path + names.SWAP, path)
            for base in made.replaces[1:]:
                snapshot = f"{directory}/{names.file_name(base, names.SNAPSHOT)}"
                if disk.exists(snapshot):
                    disk.remove(snapshot)
        log.segments.names_changed = True
    except OSError as error:
        raise log.home.fail(error) from error


def withdraw(log: Log) -> None:
    """Take back what is staged and not finished, durably: the log is cut now. Raises OSError."""
    staged = log.compaction.staged
    if staged is None:
        return
    log.compaction.staged = None
    _remove(log.home.disk, log.directory, names.SWAP)
    log.home.disk.sync_directory(log.directory)


def discard(disk: Disk, directory: str) -> None:
    """Remove what a cleaning that came to nothing has left in a partition's directory. Raises OSError."""
    _remove(disk, directory, names.SWAP)
    _remove(disk, directory, names.CLEANED)


_ALWAYS = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
"""The files that every segment has."""


def _check(log: Log, replacements: tuple[Replacement, ...]) -> None:
    """Raise OutdatedResult unless each replacement stands for a run of closed segments that are there."""
    if log.is_closed:
        raise OutdatedResult("the log was closed")
    closed = [segment.base for segment in log.segments.all()[:-1]]
    at = 0
    for made in replacements:
        try:
            at = closed.index(made.base, at)
        except ValueError:
            raise OutdatedResult(f"there is no closed segment {made.base} any more") from None
        end = at + len(made.replaces)
        if tuple(closed[at:end]) != made.replaces:
            raise OutdatedResult(f"{made.replaces} are not the segments from {made.base} on any more")
        at = end


def _check_files(disk: Disk, directory: str, replacements: tuple[Replacement, ...], present: set[str]) -> None:
    for made in replacements:
        for suffix in _ALWAYS:
            name = names.file_name(made.base, suffix) + names.CLEANED
            if name not in present:
                raise OutdatedResult(f"{directory}/{name} is missing")
        name = names.file_name(made.base, names.LOG) + names.CLEANED
        size = disk.file_size(f"{directory}/{name}")
        if size != made.size:
            raise OutdatedResult(f"{directory}/{name} has {size} bytes, not {made.size}")


def _placeholder(disk: Disk, directory: str, made: Replacement) -> int | None:
    """Make the empty stand-in for the last segment that goes, where one is needed; its base."""
    last = made.replaces[-1]
    if last == made.base or _end_offset(disk, f"{directory}/{made.base:020d}", made) > last:
        return None
    for suffix in _ALWAYS:
        file = disk.open(f"{directory}/{names.file_name(last, suffix)}{names.CLEANED}", create=True)
        try:
            file.truncate(0)
        finally:
            file.close()
    return last


def _end_offset(disk: Disk, stem: str, made: Replacement) -> int:
    """The first offset after the batches of a replacement, from its last index entry on."""
    index = disk.open(stem + names.OFFSET_INDEX + names.CLEANED, writable=False)
    try:
        entry = index.read_at(max(0, index.size() - 8), 8)
    finally:
        index.close()
    position = _POSITION.unpack(entry)[0] if len(entry) == 8 else 0
    file = disk.open(stem + names.LOG + names.CLEANED, writable=False)
    try:
        end_offset = made.base
        for _, header in batch_scan.headers_in(file, position, made.size):
            end_offset = header.next_offset
        return end_offset
    finally:
        file.close()


def _remove(disk: Disk, directory: str, suffix: str) -> None:
    """Remove files by their suffix, the last segment's first: so what is left at any time could have been staged."""
    for name in reversed(disk.list_directory(directory)):
        if name.endswith(suffix):
            disk.remove(f"{directory}/{name}")


def _base_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1
