"""Who is not to be asked for before when. Pure: times are milliseconds on the monotonic clock."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Backoffs(Generic[T]):
    """A few things that wait, each until a time of its own."""

    __slots__ = ("_until_ms",)

    def __init__(self) -> None:
        self._until_ms: dict[T, int] = {}

    def __contains__(self, thing: T) -> bool:
        return thing in self._until_ms

    def __bool__(self) -> bool:
        return bool(self._until_ms)

    def begin(self, thing: T, until_ms: int) -> None:
        """Let it wait; a longer wait that was begun before goes on."""
        self._until_ms[thing] = max(until_ms, self._until_ms.get(thing, until_ms))

    def drop(self, thing: T) -> None:
        """It waits no longer."""
        self._until_ms.pop(thing, None)

    def ended(self, now_ms: int) -> list[T]:
        """Those whose time has come; they are no longer among these."""
        due = [thing for thing, until_ms in self._until_ms.items() if until_ms <= now_ms]
        for thing in due:
            del self._until_ms[thing]
        return due

    def next_ms(self) -> int | None:
        """When the first of them is due; None when none waits."""
        return min(self._until_ms.values(), default=None)
