"""The disk kind of wrong: a log directory that can no longer be trusted."""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode


class StorageError(Exception):
    """The log directory `directory` failed or holds what must not be touched: it goes offline, the broker lives.

    The broker itself only stops when no directory is left, or when this one belongs to someone else.
    """

    def __init__(self, directory: str, message: str) -> None:
        super().__init__(f"{directory}: {message}")
        self.directory = directory


class NotNow(BrokerError):
    """A full disk, or no descriptor left: the call is refused, and a later one may succeed (KAFKA_STORAGE_ERROR)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class NoRoom(NotNow):
    """The disk is full, or a quota used up. The log directory's `Room` writes a line for all of them together."""


class WrongDirectory(StorageError):
    """A log directory is another broker's, or in use: the start must be refused, whatever other directories hold."""
