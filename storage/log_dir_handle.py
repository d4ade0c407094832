"""The log directory as its logs see it: its open files, its free space, its failure, its listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.storage.directory_failure import PASSING, is_directory_failure
from sordini.storage.disk import Disk, File
from sordini.storage.disk_space import DISK_FULL, DiskSpace
from sordini.storage.errors import DiskFull, RetriableRefusal, StorageError
from sordini.storage.open_files import OpenFiles
from sordini.storage.preallocation import Reservations
from sordini.storage.retention import Retention


class Randomness(Protocol):
    """The port for randomness: `random.Random` and `random.SystemRandom` both fit."""

    def getrandbits(self, k: int, /) -> int: ...


class LogEvents(Protocol):
    """The port for log lines: a logger's `info` fits. Called once for each roll and truncation, never per record."""

    def __call__(self, event: str, **fields: Any) -> object: ...


class SegmentsDeleted(Protocol):
    """The port for deletions of a log's oldest segments: by retention, or below its log start offset."""

    def __call__(self, name: TopicPartition, count: int, size: int, /) -> object:
        """`size`: bytes of their records."""


class DeletedFiles(Protocol):
    """The deleted files of one log, which keep a `.deleted` name for a while."""

    def take_due(self, now_ms: int) -> list[str]:
        """The paths of those that are due; the caller removes them."""


class LogDirHandle:
    """One log directory in use: its path, its open files, its free space and its failure."""

    def __init__(self, disk: Disk, path: str, files: OpenFiles, randomness: Randomness) -> None:
        self.disk = disk
        self.path = path
        self.files = files
        self.randomness = randomness
        self.reservations = Reservations(disk, path)
        self.space = DiskSpace(disk, path)
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = _ignore
        self.on_event: LogEvents = _ignore_event
        self.retention = Retention()
        """Decides which segments of its logs are due to be deleted."""
        self.log_start_moved = False
        """Whether a log start offset has moved since the log start checkpoint was last written."""
        self.flush_candidates: dict[TopicPartition, None] = {}
        """Logs that may be due for a flush: the check need not read the others."""
        self.with_deleted_files: dict[DeletedFiles, None] = {}
        """What has deleted files that are not removed yet."""
        self.before_truncate: Callable[[File, int], object] = _ignore_truncation
        """Called with a segment's file and the position before the file is truncated: a response may still send it."""
        self.on_segments_deleted: SegmentsDeleted = _ignore_deletion
        self.save_recovery_points: Callable[[], None] = _nothing
        """Writes the recovery point checkpoint at once, for a log whose recovery point has just moved back."""
        self.saved_recovery_point: Callable[[TopicPartition], int] = _zero
        """The recovery point of a partition in the checkpoint, or in a checkpoint that is being written."""

    def classify(self, error: OSError) -> BrokerError | StorageError:
        """The error to raise for a failed call. The directory goes offline when it can no longer be trusted.

        A full disk (DiskFull) and a lack of descriptors are each a RetriableRefusal.
        """
        if error.errno in DISK_FULL:
            self.space.found_full(error, is_refused=True)
            return DiskFull(f"{self.path}: {error}")
        if error.errno in PASSING:
            return RetriableRefusal(f"{self.path}: {error}")
        if not is_directory_failure(error):
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: {error}")
        return self.take_offline(error)

    def fails_directory(self, error: OSError) -> bool:
        """As `is_directory_failure`, for a call whose failure is tolerated: a full disk is noted all the same."""
        if error.errno in DISK_FULL:
            self.space.found_full(error, is_refused=False)
        return is_directory_failure(error)

    def take_offline(self, error: Exception) -> StorageError:
        """Take the directory offline; the error to raise. `on_failure` is called for the first failure only."""
        if self.failure is None:
            self.failure = StorageError(self.path, str(error))
            self.on_failure(self.failure)
        return StorageError(self.path, str(self.failure))

    def ensure_online(self) -> None:
        """Raise StorageError when the directory is offline."""
        if self.failure is not None:
            raise StorageError(self.path, f"offline since: {self.failure}")


def _ignore(_failure: StorageError) -> None:
    """The default: no listener."""


def _ignore_event(event: str, **_fields: Any) -> None:
    """The default: no log."""


def _ignore_truncation(_file: File, _position: int) -> None:
    """The default: no response sends from files."""


def _ignore_deletion(_name: TopicPartition, _count: int, _size: int, /) -> None:
    """The default: no listener."""


def _zero(_partition: TopicPartition) -> int:
    return 0


def _nothing() -> None:
    """The default: no checkpoints."""
