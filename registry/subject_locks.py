"""Locks by subject, which are there while they are held or waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class SubjectLocks:
    """One holder of each subject, in the order in which they came."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @contextlib.asynccontextmanager
    async def held(self, subject: str) -> AsyncIterator[None]:
        """Wait for the lock, and hold it; the caller bounds the time."""
        lock = self._locks.setdefault(subject, asyncio.Lock())
        self._users[subject] = self._users.get(subject, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[subject] -= 1
            if not self._users[subject]:
                del self._locks[subject], self._users[subject]
