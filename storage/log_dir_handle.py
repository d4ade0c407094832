"""What a log needs of the log directory it lives in."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.storage.disk import Disk, File
from sordini.storage.disk_space import NO_ROOM, Room
from sordini.storage.errors import NoRoom, NotNow, StorageError
from sordini.storage.open_files import OpenFiles
from sordini.storage.preallocation import Reservations
from sordini.storage.retention import Retention

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
PASSING = NO_ROOM | NO_DESCRIPTOR
"""A full disk, and no descriptor left: the call is refused, and a later one may succeed."""
REFUSED = frozenset(
    {
        errno.EBADF,
        errno.EEXIST,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOMEM,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.EOVERFLOW,
        errno.EXDEV,
    }
)
"""What was asked for cannot be done: a name, a size, a descriptor, or what lies in the way. The call is refused, and
says nothing about the disk. A sync or a cut that fails with one of these is a failed sync or cut all the same."""


def condemns(error: OSError) -> bool:
    """Whether a failed call means that the log directory can no longer be trusted."""
    return error.errno not in PASSING and error.errno not in REFUSED


class Randomness(Protocol):
    """The port of chance: `random.Random` and `random.SystemRandom` both fit."""

    def getrandbits(self, k: int, /) -> int: ...


class Home:
    """A log directory while it works: where it is, through what its files are opened, and whether it failed."""

    def __init__(self, disk: Disk, path: str, files: OpenFiles, randomness: Randomness) -> None:
        self.disk = disk
        self.path = path
        self.files = files
        self.randomness = randomness
        self.reservations = Reservations(disk, path)
        self.room = Room(disk, path)
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = _ignore
        self.retention = Retention()
        """Which of its logs' segments are due to be deleted."""
        self.log_start_moved = False
        """Whether a log's start has moved since the log starts were last written down."""
        self.on_cut: Callable[[File, int], object] = _nobody_reads
        """Told before a segment's file is cut, and from which position on: bytes may be on their way to readers."""
        self.save_recovery_points: Callable[[], None] = _nothing
        """Writes the recovery points at once, for a log whose own has just moved back."""
        self.saved_recovery_point: Callable[[TopicPartition], int] = _zero
        """What the disk says of a partition, or may say once a write that runs has ended."""

    def wrong(self, error: OSError) -> BrokerError | StorageError:
        """What to raise for a failed call: a refusal, unless it means that the directory can no longer be trusted.

        A full disk, or no descriptor left, is a NotNow: a later call may succeed.
        """
        if error.errno in NO_ROOM:
            self.room.missing(error, is_refused=True)
            return NoRoom(f"{self.path}: {error}")
        if error.errno in PASSING:
            return NotNow(f"{self.path}: {error}")
        if not condemns(error):
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: {error}")
        return self.fail(error)

    def is_condemned_by(self, error: OSError) -> bool:
        """As `condemns`, for a call that can be done without: a full disk is noted all the same."""
        if error.errno in NO_ROOM:
            self.room.missing(error, is_refused=False)
        return condemns(error)

    def fail(self, error: Exception) -> StorageError:
        """Take the directory offline; the error to raise. Only the first failure is told to `on_failure`."""
        if self.failure is None:
            self.failure = StorageError(self.path, str(error))
            self.on_failure(self.failure)
        return StorageError(self.path, str(self.failure))

    def check(self) -> None:
        """Raise StorageError when the directory is offline."""
        if self.failure is not None:
            raise StorageError(self.path, f"offline since: {self.failure}")


def _ignore(_failure: StorageError) -> None:
    """Nobody listens yet."""


def _nobody_reads(_file: File, _position: int) -> None:
    """Nobody sends files yet."""


def _zero(_partition: TopicPartition) -> int:
    return 0


def _nothing() -> None:
    """Nobody keeps recovery points yet."""
