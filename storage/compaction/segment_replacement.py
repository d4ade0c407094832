"""Swapping compacted segments in for those they were made from, so that a crash leaves the old or the new.

    <base>.log.cleaned  ->  <base>.log.swap     one by one, from the last segment back to the first
    the directory is synced                     from here on a crash leaves the new segments
    old files           ->  ....deleted         the list of segments now has the new ones
    <base>.log.swap     ->  <base>.log          from the first segment on, each log before its indexes

`temporary_files` recovers every state in between at the next start. Apache Kafka's rules are the same, hence the order:
while a `.cleaned` file is left, every `.swap` file at or after it is removed; once none is, all segments between the
first and the end of the last `.swap` are removed. Where a compacted segment ends before the base of the last segment
that it replaces, that rule would spare the last one; so an empty stand-in has its name during the swap.

Each step is a few calls per file, on the loop. The sync in between runs in a thread, and a truncation of the log
meanwhile withdraws what is staged.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator

from sordini.storage import batch_scan, names
from sordini.storage.compaction.state import Staged
from sordini.storage.compaction.task import CleaningResult, Replacement
from sordini.storage.disk import Disk
from sordini.storage.log_state import LogState
from sordini.storage.segment import Segment

SEGMENTS_AT_ONCE = 16
"""How many old segments are swapped before the loop serves requests again; one replacement is never split."""
_POSITION = struct.Struct(">4xi")


class OutdatedResult(Exception):
    """The log has changed since the cleaning read it, or the files do not match the result: the result is discarded."""


async def swap_in(log: LogState, result: CleaningResult, truncations: int, now_ms: Callable[[], int]) -> None:
    """Put the replacements of a result in place, a few at a time, so that requests are served in between.

    `truncations` is the log's count when the cleaning began. Raises OutdatedResult, the remaining segments being as
    they were, and StorageError or BrokerError.
    """
    for replacements in portions(result):
        ensure_unchanged(log, truncations)
        stage(log, replacements)
        try:
            await log.log_dir.disk.offload(lambda: log.log_dir.disk.sync_directory(log.directory))
        except OSError as error:
            if log.is_closed:
                raise OutdatedResult("the log was closed") from error
            raise log.log_dir.take_offline(error) from error
        ensure_unchanged(log, truncations)
        _finish(log, now_ms())
        await asyncio.sleep(0)
    ensure_unchanged(log, truncations)
    log.compaction.cleaned_to(result.cleaned_to)


def ensure_unchanged(log: LogState, truncations: int) -> None:
    """Raise OutdatedResult when the log has changed so that a cleaning's result must be discarded."""
    if log.is_closed:
        raise OutdatedResult("the log was closed or deleted")
    if log.truncations != truncations:
        raise OutdatedResult("the log was truncated")
    if not log.config.cleanup_compact:
        raise OutdatedResult("the topic is not compacted any more")
    log.log_dir.ensure_online()


def portions(result: CleaningResult) -> Iterator[tuple[Replacement, ...]]:
    """The replacements in portions that are swapped one after the other, oldest first."""
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


def stage(log: LogState, replacements: tuple[Replacement, ...]) -> None:
    """Name the new files `.swap`, the last segment's first. On an error the log is unchanged; `discard` cleans up.

    Raises OutdatedResult, StorageError or BrokerError.
    """
    log.log_dir.ensure_online()
    _check(log, replacements)
    disk, directory = log.log_dir.disk, log.directory
    try:
        present = set(disk.list_directory(directory))
        _check_files(disk, directory, replacements, present)
        bases = {made.base for made in replacements}
        placeholder = _placeholder(disk, directory, replacements[-1])
        if placeholder is not None:
            bases.add(placeholder)
        for name in present:
            if name.endswith(names.CLEANED) and _base_of(name) not in bases and _base_of(name) <= max(bases):
                # Left by a failed cleaning: after a crash it would make the next start undo this swap.
                disk.remove(f"{directory}/{name}")
        for base in sorted(bases, reverse=True):
            for suffix in reversed(names.SEGMENT_SUFFIXES):
                name = names.file_name(base, suffix)
                if f"{name}{names.CLEANED}" in present or (base == placeholder and suffix in _ALWAYS):
                    disk.rename(f"{directory}/{name}{names.CLEANED}", f"{directory}/{name}{names.SWAP}")
    except OSError as error:
        raise log.log_dir.classify(error) from error
    log.compaction.stage(Staged(replacements, placeholder))


def _finish(log: LogState, now_ms: int) -> None:
    """Put staged replacements, whose names are on the disk, in place.

    Raises StorageError: only the next start can complete a swap that failed half-way.
    """
    staged = log.compaction.take_staged()
    assert staged is not None, "nothing is staged"
    disk, directory = log.log_dir.disk, log.directory
    due_ms = now_ms + log.config.file_delete_delay_ms
    try:
        for made in staged.replacements:
            aborts = disk.exists(f"{directory}/{names.file_name(made.base, names.TRANSACTION_INDEX)}{names.SWAP}")
            segment = Segment(log.log_dir.files, directory, made.base, made.size, aborts=aborts)
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
    except OSError as error:
        raise log.log_dir.take_offline(error) from error


def withdraw(log: LogState) -> None:
    """Withdraw what is staged and not finished, durably, before a truncation. Raises OSError."""
    if log.compaction.take_staged() is None:
        return
    _remove(log.log_dir.disk, log.directory, names.SWAP)
    log.log_dir.disk.sync_directory(log.directory)


def discard(disk: Disk, directory: str) -> None:
    """Remove what a failed cleaning left in a partition's directory. Raises OSError."""
    _remove(disk, directory, names.SWAP)
    _remove(disk, directory, names.CLEANED)


_ALWAYS = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
"""The files that every segment has."""


def _check(log: LogState, replacements: tuple[Replacement, ...]) -> None:
    """Raise OutdatedResult unless each replacement stands for a run of the log's closed segments."""
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
    """Create the empty stand-in for the last replaced segment, where one is needed; its base."""
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
    """Remove files by their suffix, the last segment's first: a crash in between leaves a state that staging has."""
    for name in reversed(disk.list_directory(directory)):
        if name.endswith(suffix):
            disk.remove(f"{directory}/{name}")


def _base_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1
