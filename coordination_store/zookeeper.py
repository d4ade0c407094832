"""The coordination store as a ZooKeeper ensemble, through kazoo: where it is, how it is reached, and its sessions.

Imported only when ZooKeeper is configured, because kazoo is slow to import.
"""

from __future__ import annotations

import asyncio

from sordini.coordination_store.znode_tree import check_path
from sordini.coordination_store.zookeeper_access import OPEN, ZooKeeperAccess
from sordini.coordination_store.zookeeper_session import ZooKeeperSession
from sordini.replication.ports import SessionExpired, StoreUnusable


class ZooKeeperStore:
    """An ensemble, named as in `zookeeper.connect`: "host:port,host:port/chroot"."""

    def __init__(
        self, connect: str, access: ZooKeeperAccess = OPEN, *, session_timeout_ms: int, connection_timeout_ms: int
    ) -> None:
        hosts, slash, chroot = connect.partition("/")
        self._hosts = hosts
        self._chroot = f"/{chroot}".rstrip("/") if slash else ""
        check_path(self._chroot or "/")
        self._access = access
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._sessions: list[ZooKeeperSession] = []

    async def open_session(self) -> ZooKeeperSession:
        """Connect and log in; nothing is written, so the chroot may be absent.

        Raises StoreUnusable without an answer in time, and when the login is refused; the text has TLS's own reason.
        """
        session = ZooKeeperSession(self._hosts, self._chroot, self._session_timeout_ms, self._access)
        self._sessions = [other for other in self._sessions if not other.is_over]
        self._sessions.append(session)
        is_open = False
        try:
            # Not `wait_for`, which does not pass on a cancellation that comes together with the result (before 3.12).
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await session.connected()
                if self._access.login is not None:
                    await self._check_login(session)
            is_open = True
        except TimeoutError:
            why = session.tls_failure
            raise StoreUnusable(
                f"no ZooKeeper at {self._hosts} answered within {self._connection_timeout_ms} ms"
                f"{'' if why is None else f'; the TLS connection failed: {why}'}"
            ) from None
        finally:
            if not is_open:  # A caller without a session, also a cancelled one, must not leave one open.
                session.end()
        return session

    async def _check_login(self, session: ZooKeeperSession) -> None:
        """Make a call that is answered after the login. Raises StoreUnusable when that was refused."""
        try:
            await session.exists("/")
        except SessionExpired:
            assert self._access.login is not None
            raise StoreUnusable(
                f"ZooKeeper at {self._hosts} refused the login of {self._access.login.user!r} by its scheme digest"
            ) from None

    async def close(self) -> None:
        await asyncio.gather(*(session.close() for session in self._sessions))
