"""Values that were written in transactions without a marker yet, by key.

A commit marker makes the values of its producer the latest of their keys, unless a value that follows in the log is
committed already: the record with the higher offset wins, whichever marker comes first. So each value has a number, in
the order of the log. A value that has lost is superseded; it stays until its marker, because until then the key is
unstable for readers that require stable values (KIP-447). A tombstone ends the values before it at once.

Pure. Loading folds a log with it, and the group coordinator keeps the open offsets of a group in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OpenValue(NamedTuple, Generic[V]):
    """One value; None when it is superseded."""

    number: int
    value: V | None


def _no_size(_key: object, _value: object) -> int:
    return 0


class OpenTransactions(Generic[K, V]):
    """The open values of any number of producers."""

    __slots__ = ("_by_key", "_by_producer", "_size_of", "held_bytes")

    def __init__(self, size_of: Callable[[K, V | None], int] = _no_size) -> None:
        """`size_of`: the size of one value in bytes; None is a superseded one."""
        self.held_bytes = 0
        """The sizes of all values."""
        self._size_of = size_of
        self._by_key: dict[K, dict[int, OpenValue[V]]] = {}
        self._by_producer: dict[int, dict[K, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __contains__(self, key: object) -> bool:
        """Whether a transaction that wrote this key is open."""
        return key in self._by_key

    def keys(self) -> list[K]:
        return list(self._by_key)

    def producers(self) -> list[int]:
        return list(self._by_producer)

    def entries(self) -> Iterator[tuple[int, int, K, V | None]]:
        """Number, producer id, key and value (None: superseded) of each, in no order."""
        for key, values in self._by_key.items():
            for producer_id, (number, value) in values.items():
                yield number, producer_id, key, value

    def add(self, producer_id: int, key: K, value: V | None, number: int) -> None:
        """Note a value; an earlier one of the same producer and key is replaced."""
        values = self._by_key.setdefault(key, {})
        replaced = values.get(producer_id)
        self.held_bytes += self._size_of(key, value)
        self.held_bytes -= 0 if replaced is None else self._size_of(key, replaced.value)
        values[producer_id] = OpenValue(number, value)
        self._by_producer.setdefault(producer_id, {})[key] = None

    def supersede(self, key: K, number: int) -> None:
        """A value with this number is committed: open values before it are not to replace it."""
        values = self._by_key.get(key, {})
        for producer_id, value in values.items():
            if value.number < number:
                values[producer_id] = OpenValue(value.number, None)
                self.held_bytes += self._size_of(key, None) - self._size_of(key, value.value)

    def delete(self, key: K, number: int) -> None:
        """A tombstone with this number: open values before it are gone."""
        for producer_id, value in list(self._by_key.get(key, {}).items()):
            if value.number < number:
                self._remove(producer_id, key)

    def end(self, producer_id: int, *, commit: bool) -> dict[K, V]:
        """A marker: the values that are committed by it, without those that are superseded."""
        committed: dict[K, V] = {}
        for key in list(self._by_producer.get(producer_id, ())):
            number, value = self._remove(producer_id, key)
            if commit and value is not None:
                committed[key] = value
                self.supersede(key, number)
        return committed

    def _remove(self, producer_id: int, key: K) -> OpenValue[V]:
        values, keys = self._by_key[key], self._by_producer[producer_id]
        removed = values.pop(producer_id)
        self.held_bytes -= self._size_of(key, removed.value)
        if not values:
            del self._by_key[key]
        del keys[key]
        if not keys:
            del self._by_producer[producer_id]
        return removed
