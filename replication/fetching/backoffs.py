"""Partitions that are not fetched until a time. Pure: times are milliseconds on the monotonic clock."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Backoffs(Generic[T]):
    """Items that are delayed, each until its own time."""

    __slots__ = ("_until_ms",)

    def __init__(self) -> None:
        self._until_ms: dict[T, int] = {}

    def __contains__(self, item: T) -> bool:
        return item in self._until_ms

    def __bool__(self) -> bool:
        return bool(self._until_ms)

    def delay(self, item: T, until_ms: int) -> None:
        """Delay an item; a longer delay in force stays."""
        self._until_ms[item] = max(until_ms, self._until_ms.get(item, until_ms))

    def remove(self, item: T) -> None:
        """End a delay, if there is one."""
        self._until_ms.pop(item, None)

    def take_due(self, now_ms: int) -> list[T]:
        """Remove and return the items whose delay is over."""
        due = [item for item, until_ms in self._until_ms.items() if until_ms <= now_ms]
        for item in due:
            del self._until_ms[item]
        return due

    def next_due_ms(self) -> int | None:
        """When the first delay ends; None when nothing is delayed."""
        return min(self._until_ms.values(), default=None)
