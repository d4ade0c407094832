"""Requests to many brokers of a cluster at once, one to each, so that a silent broker delays no other.

A broker that did not answer once gets no more requests: the total time is that of the slowest answers, plus one
timeout for brokers that do not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from sordini.admin.cluster_client import ClusterClient
from sordini.client.cluster import Link
from sordini.client.errors import ClientError

T = TypeVar("T")
W = TypeVar("W")

TIMEOUTS_MAX: Final = 6
"""How many request timeouts fit into the command's timeout: one for each round of requests."""
REQUEST_TIMEOUT_S_MIN: Final = 3.0
"""A broker takes 2 s to report that its coordination store is silent, and must not count as silent itself."""


class ParallelRequests:
    """Sends requests to the live brokers of one cluster, and keeps those that have not answered."""

    def __init__(self, cluster: ClusterClient, live: Iterable[int], timeout_s: float) -> None:
        """`timeout_s` is the timeout of the whole command."""
        self._cluster = cluster
        self._live = frozenset(live)
        self._request_timeout_s = max(timeout_s / TIMEOUTS_MAX, min(REQUEST_TIMEOUT_S_MIN, timeout_s / 2))
        self.silent: dict[int, str] = {}
        """Brokers of the cluster that did not answer, with the reason."""

    async def send(self, send_request: Callable[[Link, W], Awaitable[T]], wanted: Mapping[int, W]) -> dict[int, T]:
        """The answer of each live broker; none from a broker that is silent."""
        ids = [one for one in wanted if one in self._live and one not in self.silent]
        answers = await asyncio.gather(*(self._send_one(send_request, one, wanted[one]) for one in ids))
        return {one: answer for one, found in zip(ids, answers, strict=True) for answer in found}

    async def _send_one(self, send_request: Callable[[Link, W], Awaitable[T]], broker_id: int, wanted: W) -> list[T]:
        """The answer, or an empty list."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return [await send_request(await self._cluster.broker(broker_id), wanted)]
        except TimeoutError:
            self.silent[broker_id] = f"no answer within {self._request_timeout_s:g} s"
        except ClientError as failure:
            self.silent[broker_id] = str(failure)
        return []
