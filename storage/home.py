"""What a log needs of the log directory it lives in."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError
from sordini.storage.open_files import OpenFiles

PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""A full disk, and no descriptor left: the call is refused, and a later one may succeed."""


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
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] = _ignore
        self.save_recovery_points: Callable[[], None] = _nothing
        """Writes the recovery points at once, for a log whose own has just moved back."""

    def wrong(self, error: OSError) -> BrokerError | StorageError:
        """What to raise for a failed call: a full disk refuses and heals, anything else takes the directory away."""
        if error.errno in PASSING:
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: {error}")
        return self.fail(error)

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


def _nothing() -> None:
    """Nobody keeps recovery points yet."""
