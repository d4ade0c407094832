"""One coordination store for several brokers of a process: each gets a lease, and the last owner closes the store.

A broker closes its store when it has stopped. With a lease that ends the broker's own sessions, as the end of its
process would, and leaves the others theirs.
"""

from __future__ import annotations

import asyncio

from sordini.replication.ports import CoordinationStore, Session


class StoreLease:
    """A `CoordinationStore` that one broker may take for its own."""

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self._sessions: list[Session] = []

    async def open_session(self) -> Session:
        session = await self._store.open_session()
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """End the sessions that were opened through this lease; the store stays open."""
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(session.close() for session in sessions))
