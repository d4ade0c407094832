"""Errors of the disk: `StorageError` takes a log directory offline, a refusal leaves it online."""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode


class StorageError(Exception):
    """The log directory `directory` failed, or must not be used: it goes offline, and the broker keeps running.

    The broker stops only when no directory is left, or when this one belongs to another broker.
    """

    def __init__(self, directory: str, message: str) -> None:
        super().__init__(f"{directory}: {message}")
        self.directory = directory


class RetriableRefusal(BrokerError):
    """A full disk, or no descriptor left: the call is refused, and a retry may succeed (KAFKA_STORAGE_ERROR)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFull(RetriableRefusal):
    """The disk is full, or a quota is used up. `DiskSpace` reports it once for the whole log directory."""


class NameTaken(RetriableRefusal):
    """The file system does not distinguish the case of letters, and a directory has the name in another case."""


class WrongDirectory(StorageError):
    """A log directory is another broker's, or in use: the start is refused, whatever the other directories hold."""
