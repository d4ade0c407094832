"""A session whose calls another session carries out: what those that renew, or belong to a process, have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sordini.replication.ports import (
    ANY_VERSION,
    Operation,
    OperationResult,
    Session,
    SessionState,
    Stat,
    Watch,
)


class SessionProxy:
    """Every call goes to `current`; see the port for what the methods promise."""

    def __init__(self, session: Session) -> None:
        self.current = session
        """The session that calls go to; it may have expired."""

    @property
    def session_id(self) -> int:
        return self.current.session_id

    @property
    def state(self) -> SessionState:
        return self.current.state

    @property
    def lives_until_ms(self) -> int | None:
        return self.current.lives_until_ms

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self.current.on_state(listener)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        return await self.current.create(
            path, data, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
        )

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self.current.get(path, watch=watch)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self.current.set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.current.delete(path, version)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        return await self.current.children(path, watch=watch)

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        return await self.current.exists(path, watch=watch)

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self.current.multi(operations)

    async def close(self) -> None:
        await self.current.close()
