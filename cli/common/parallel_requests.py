"""Questions to many brokers of a cluster at once, one request to each, so that one that is silent delays no other.

A broker that does not answer once is not asked again in the same survey: the whole takes as long as the slowest
answers, and one wait for those that never come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from sordini.cli.cluster import Cluster
from sordini.cli.common.options import Failure
from sordini.cli.link import Link

T = TypeVar("T")
W = TypeVar("W")

TIMEOUTS_MAX: Final = 6
"""Waits for silent brokers that fit into the time that a command has: those of all questions, one after another."""
REQUEST_TIMEOUT_S_MIN: Final = 3.0
"""A broker needs 2 s to say that its coordination store is silent: it is not to be taken for silent itself."""


class ParallelRequests:
    """What is asked of the living brokers of one cluster, and which of them have not answered."""

    def __init__(self, cluster: Cluster, live: Iterable[int], timeout_s: float) -> None:
        """`timeout_s` is what the whole command has."""
        self._cluster = cluster
        self._live = frozenset(live)
        self._request_timeout_s = max(timeout_s / TIMEOUTS_MAX, min(REQUEST_TIMEOUT_S_MIN, timeout_s / 2))
        self.silent: dict[int, str] = {}
        """Brokers that the cluster has and that did not answer, with the reason."""

    async def ask(self, question: Callable[[Link, W], Awaitable[T]], wanted: Mapping[int, W]) -> dict[int, T]:
        """What each living broker answers to what is wanted of it; nothing from one that is silent."""
        ids = [one for one in wanted if one in self._live and one not in self.silent]
        answers = await asyncio.gather(*(self._ask_one(question, one, wanted[one]) for one in ids))
        return {one: answer for one, found in zip(ids, answers, strict=True) for answer in found}

    async def _ask_one(self, question: Callable[[Link, W], Awaitable[T]], broker_id: int, wanted: W) -> list[T]:
        """One answer, or none."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return [await question(await self._cluster.broker(broker_id), wanted)]
        except TimeoutError:
            self.silent[broker_id] = f"no answer within {self._request_timeout_s:g} s"
        except Failure as failure:
            self.silent[broker_id] = str(failure)
        return []
