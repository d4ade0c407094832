"""The asyncio shell of a snapshot: each round of requests is sent at once, to all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sordini.client.cluster import Cluster, Link
from sordini.client.errors import ClientError, Disconnected
from sordini.client.lag.asking import ANY_BROKER, Ask, Rounds
from sordini.client.lag.model import GroupLag
from sordini.client.lag.reading import Reader, snapshot_of_groups, snapshot_of_readers
from sordini.protocol.messages.metadata import MetadataResponse

T = TypeVar("T")


async def read_lags(
    cluster: Cluster,
    names: Sequence[str] | None,
    now_ms: Callable[[], int],
    *,
    topics: frozenset[str] = frozenset(),
    committed_only: bool = True,
) -> list[GroupLag]:
    """As `snapshot_of_groups`; `now_ms` reads the wall clock. Repeated while leaders and coordinators change."""
    return await cluster.retry(
        lambda: run_rounds(cluster, snapshot_of_groups(names, now_ms(), topics=topics, committed_only=committed_only))
    )


async def read_lags_of_readers(
    cluster: Cluster, readers: Sequence[Reader], now_ms: Callable[[], int], *, committed_only: bool = True
) -> list[GroupLag]:
    """As `snapshot_of_readers`."""
    return await cluster.retry(
        lambda: run_rounds(cluster, snapshot_of_readers(readers, now_ms(), committed_only=committed_only))
    )


async def run_rounds(cluster: Cluster, rounds: Rounds[T]) -> T:
    """Carry out the steps of a snapshot on a cluster."""
    try:
        asks = next(rounds)
        while True:
            asks = rounds.send(await asyncio.gather(*(_answer(cluster, ask) for ask in asks)))
    except StopIteration as end:
        result: T = end.value
        return result


async def _answer(cluster: Cluster, ask: Ask) -> Any:
    try:
        link = await (cluster.any_broker() if ask.broker == ANY_BROKER else _broker(cluster, ask.broker))
        answer = await link.ask(ask.request, at_least=ask.at_least, at_most=ask.at_most)
    except ClientError as error:
        return error
    if isinstance(answer, MetadataResponse):
        cluster.cluster_map.learn(answer)
    return answer


async def _broker(cluster: Cluster, broker_id: int) -> Link:
    if broker_id not in cluster.cluster_map.addresses:
        await cluster.metadata([])
    address = cluster.cluster_map.addresses.get(broker_id)
    if address is None:
        raise Disconnected(f"broker {broker_id} is not registered at present")
    return await cluster.known(address)
