"""Bugs planted into the store, to prove that a campaign finds them.

Each patches the product itself for the time of a run, and says what a disk and a moment make of it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sordini.storage import names, producer_snapshots, recovery, truncation
from sordini.storage.log_directory import LogDirectory
from sordini.storage.log_state import LogState
from sordini.storage.segment import Segment
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from sordini.testing.simulation.forgetful_file import ForgetfulFile

Planting = Callable[[], AbstractContextManager[None]]


class Bug(NamedTuple):
    """A planted bug: how, what it does, and in how many seeds from which on it must be found."""

    plant: Planting
    what: str
    seeds_max: int
    seed: int


BUGS: dict[str, Bug] = {}


def bug(seeds_max: int, seed: int = 0) -> Callable[[Callable[[], Iterator[None]]], Planting]:
    """Register a generator that plants a bug, by its name; its docstring states the bug."""

    def enter(plant: Callable[[], Iterator[None]]) -> Planting:
        planting = contextlib.contextmanager(plant)
        BUGS[plant.__name__.replace("_", " ")] = Bug(planting, " ".join((plant.__doc__ or "").split()), seeds_max, seed)
        return planting

    return enter


def planted(name: str) -> AbstractContextManager[None]:
    """The bug of that name, for the time of a `with`; none for an empty name."""
    return BUGS[name].plant() if name else contextlib.nullcontext()


@contextlib.contextmanager
def patched(*patches: tuple[Any, str, Any]) -> Iterator[None]:
    """Put other attributes in place of some, for a time."""
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextlib.contextmanager
def unsynced(applies: Callable[[str], bool]) -> Iterator[None]:
    """Leave out the syncs of some files; a file is known by its name within its partition."""
    right = ForgetfulFile.sync

    def sync(file: ForgetfulFile) -> None:
        if not applies(file.path):
            right(file)

    with patched((ForgetfulFile, "sync", sync)):
        yield


@bug(50)
def the_marker_comes_before_the_logs() -> Iterator[None]:
    """The marker of a clean stop is written first, before logs are closed: a death in between leaves it beside
    padded indexes and a log without a snapshot, for which Apache Kafka deletes the partition."""
    right = LogDirectory.close

    def close(directory: LogDirectory) -> None:
        disk, path = directory.handle.disk, directory.handle.path
        if directory.handle.failure is None:
            disk.open(f"{path}/{names.CLEAN_MARKER}", create=True).close()
        right(directory)

    with patched((LogDirectory, "close", close)):
        yield


@bug(50)
def names_are_never_synced() -> Iterator[None]:
    """A partition's directory is not synced after a roll: the records of the new segment are on the disk, and their
    file has no name after a power failure."""
    right = ForgetfulDisk.sync_directory

    def sync_directory(disk: ForgetfulDisk, path: str) -> None:
        if not _is_partition(path):
            right(disk, path)

    with patched((ForgetfulDisk, "sync_directory", sync_directory)):
        yield


@bug(50)
def a_checkpoint_is_renamed_unsynced() -> Iterator[None]:
    """A checkpoint is renamed over the old one before its bytes are on the disk: the power fails, the file is empty
    or torn, and the directory cannot be opened."""
    with unsynced(lambda path: path.endswith(".tmp")):
        yield


@bug(50, seed=150)
def recovery_does_not_check_the_crc() -> Iterator[None]:
    """Recovery believes every batch whose length is plausible: a torn one is served."""
    with patched((recovery, "crc_is_right", lambda *_: True)):
        yield


@bug(50)
def recovery_stops_at_nothing_and_cuts_nothing() -> Iterator[None]:
    """Recovery finds the damage and leaves it in the file: later appends follow it."""
    right = ForgetfulFile.truncate

    def truncate(file: ForgetfulFile, size: int) -> None:
        if not (file.path.endswith(names.LOG) and _is_called_from("_recover_segments")):
            right(file, size)

    with patched((ForgetfulFile, "truncate", truncate)):
        yield


@bug(50)
def the_recovery_point_moves_without_a_sync() -> Iterator[None]:
    """A flush moves the recovery point and leaves out the sync of the records."""
    with unsynced(lambda path: path.endswith(names.LOG) and _is_called_from("sync", "flushing")):
        yield


@bug(50)
def a_failed_sync_is_swallowed() -> Iterator[None]:
    """An I/O error of a sync is taken for success: the system has dropped the bytes, and they count as synced."""
    right = ForgetfulFile.sync

    def sync(file: ForgetfulFile) -> None:
        with contextlib.suppress(OSError):
            right(file)

    with patched((ForgetfulFile, "sync", sync)):
        yield


@bug(50)
def a_cut_is_not_synced() -> Iterator[None]:
    """After a truncation neither the file nor the directory is synced: a power loss restores truncated records
    below what was appended since."""
    right_file, right_directory = ForgetfulFile.sync, ForgetfulDisk.sync_directory

    def sync(file: ForgetfulFile) -> None:
        if not (file.path.endswith(names.LOG) and _is_called_from("_finish", "truncation")):
            right_file(file)

    def sync_directory(disk: ForgetfulDisk, path: str) -> None:
        if not (_is_partition(path) and _is_called_from("_finish", "truncation")):
            right_directory(disk, path)

    with patched((ForgetfulFile, "sync", sync), (ForgetfulDisk, "sync_directory", sync_directory)):
        yield


@bug(50, seed=400)
def the_recovery_point_is_kept_after_a_cut() -> Iterator[None]:
    """A truncation below the recovery point leaves it on the disk: later appends there are never recovered."""
    right = truncation.truncate_to

    def truncate_to(log: LogState, offset: int, due_ms: int) -> None:
        save, log.log_dir.save_recovery_points = log.log_dir.save_recovery_points, lambda: None
        try:
            right(log, offset, due_ms)
        finally:
            log.log_dir.save_recovery_points = save

    with patched((truncation, "truncate_to", truncate_to)):
        yield


@bug(100, seed=70)
def a_short_append_is_not_cut_back() -> Iterator[None]:
    """A write that came short stays in the file: the next batch lies behind half of it."""
    with patched((LogState, "_undo_append", lambda *_: None)):
        yield


@bug(400, seed=2020)
def a_snapshot_is_believed_unread() -> Iterator[None]:
    """A snapshot's CRC is not checked: producers come out of a torn one."""
    right = producer_snapshots.decode_snapshot

    def decode(data: bytes) -> Any:
        repaired = bytearray(data)
        if len(repaired) >= 10:
            repaired[2:6] = producer_snapshots.crc32c(memoryview(repaired)[6:]).to_bytes(4, "big")
        return right(bytes(repaired))

    with patched((producer_snapshots, "decode_snapshot", decode)):
        yield


@bug(50)
def producers_are_not_replayed() -> Iterator[None]:
    """Recovery takes the newest snapshot and leaves out the batches after it: a batch that is sent again is taken for
    a new one, and a transaction that is open for none."""
    with patched((recovery, "replay", lambda *_, **__: None)):
        yield


@bug(50)
def indexes_are_not_rebuilt() -> Iterator[None]:
    """Recovery leaves the indexes as the crash left them, padded or of records that are gone."""

    def nothing(*_: object) -> None:
        return None

    with patched((Segment, "start_rebuild", nothing), (Segment, "index_batch", _index_batch_when_appending)):
        yield


@bug(50)
def indexes_are_not_trimmed_at_a_clean_stop() -> Iterator[None]:
    """The active segment's indexes keep their zeros beside the marker: Apache Kafka reads them as time 0."""
    right = Segment.trim_indexes

    def trim(segment: Segment) -> None:
        if not _is_called_from("_finish_indexes"):
            right(segment)

    with patched((Segment, "trim_indexes", trim)):
        yield


@bug(50)
def a_gap_between_segments_is_taken_for_none() -> Iterator[None]:
    """Records at a segment's end were lost and the next segment was kept: recovery leaves the hole."""
    with patched((recovery, "_is_gap", lambda *_: False)):
        yield


@bug(50, seed=115)
def an_older_checkpoint_outlives_a_partition() -> Iterator[None]:
    """A recreated partition gets the recovery point and the log start offset of the deleted one."""
    with patched((LogDirectory, "_forget_deleted", lambda *_: None)):
        yield


def _index_batch_when_appending(segment: Segment, *arguments: Any) -> None:
    if not _is_called_from("_recover_segment"):
        _right_index_batch(segment, *arguments)


_right_index_batch = Segment.index_batch


def _is_partition(directory: str) -> bool:
    return names.partition_of(directory.rpartition("/")[2]) is not None


def _is_called_from(function: str, module: str = "") -> bool:
    """Whether a function of that name is at work."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == function and module in frame.f_code.co_filename:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
