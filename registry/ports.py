"""The port to the topic of a registry's records, and what goes wrong there. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Apply = Callable[[bytes, bytes | None, int], None]
"""Takes the key, the value and the offset of each record, in the order of offsets. Raises nothing."""


class NotTheWriter(Exception):
    """Another process of the group writes, and only that one may."""

    def __init__(self, writer: str | None) -> None:
        """`writer` is its URL, None while none is known."""
        super().__init__(f"the registry at {writer} writes" if writer else "no registry is elected to write")
        self.writer = writer


class JournalFailed(Exception):
    """A record could not be written; the text says why."""


class Journal(Protocol):
    """The records of a registry: appended by one process, read by all."""

    async def append(self, key: bytes, value: bytes | None) -> int:
        """Append a record; its offset, when it is committed (acks=all) and was applied to the state of this process.

        Raises NotTheWriter and JournalFailed.
        """
        ...

    @property
    def is_writer(self) -> bool:
        """Whether this process is the one that writes."""
        ...

    @property
    def writer(self) -> str | None:
        """The URL of the process that writes, for requests that are forwarded; None while none is known."""
        ...

    async def wait_until_current(self) -> None:
        """Wait until everything up to the present end of the log is applied. Raises JournalFailed."""
        ...
