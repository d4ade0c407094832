"""The database of the example services: tables in memory, transactions that take time and sometimes fail.

It outlives the services' crashes. A transaction that fails has either not happened, or it has and its answer is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Tables = dict[str, dict[Any, Any]]


class DatabaseError(Exception):
    """A transaction failed, or its outcome is not known."""


class Database:
    def __init__(self, source: random.Random, *, failing: float = 0.03) -> None:
        self.tables: Tables = {}
        self._random = source
        self._failing = failing

    def table(self, name: str) -> dict[Any, Any]:
        return self.tables.setdefault(name, {})

    async def transaction(self, change: Callable[[Callable[[str], dict[Any, Any]]], T]) -> T:
        """Call `change` with the tables, at one moment. Raises DatabaseError."""
        await asyncio.sleep(self._random.expovariate(1 / 0.01))
        if self._random.random() < self._failing:
            raise DatabaseError("the database was not reached")
        result = change(self.table)
        await asyncio.sleep(self._random.expovariate(1 / 0.01))
        if self._random.random() < self._failing:
            raise DatabaseError("the connection was lost before the answer came")
        return result
