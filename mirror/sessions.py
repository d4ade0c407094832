"""A producer session in the target: the producer id and epoch, and the beginning and end of transactions.

A `TransactionalSession` fences every earlier one of its transactional id, and what that one left open is aborted, or
committed if its commit was decided. When `open` returns, this is over: what was committed can be read. An
`IdempotentSession` has no transactions: what is written is visible at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from sordini.client.errors import check
from sordini.client.transaction_requests import (
    ADDS,
    ENDS,
    INITS,
    Producer,
    add_request,
    added_partitions,
    end_request,
    init_request,
)
from sordini.mirror.cluster import Cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import TopicPartition

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""After so long without an end the target aborts; the flow then begins again."""
_TRANSACTIONAL: Final = (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN)


async def has_transactions(cluster: Cluster) -> bool:
    """Whether the target serves what transactions need."""
    link = await cluster.any_broker()
    return all(link.serves(key) for key in _TRANSACTIONAL)


class Session(Protocol):
    """What the writer needs to know and do."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None

    async def open(self) -> None:
        """Get the producer id. Raises ClientError."""

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Announce partitions that the transaction is about to write to."""

    async def commit(self) -> None:
        """End the transaction; its records are visible soon."""

    async def abort(self) -> None:
        """End the transaction without them."""


class TransactionalSession:
    """Writes in transactions of one transactional id."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.transactional_id: str | None = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self._cluster = cluster
        self._id = transactional_id

    @property
    def _producer(self) -> Producer:
        return Producer(self._id, self.producer_id, self.producer_epoch)

    async def open(self) -> None:
        request = init_request(self._id, TRANSACTION_TIMEOUT_MS)

        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(self._id)
            response = await link.ask(request, **INITS)
            check(f"getting a producer id for transactional id '{self._id}'", response.error_code)
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

        await self._cluster.retry(attempt)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        request = add_request(self._producer, partitions)

        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(self._id)
            response = await link.ask(request, **ADDS)
            for partition, code in added_partitions(response):
                check(f"adding {partition} to a transaction", code)

        await self._cluster.retry(attempt)

    async def commit(self) -> None:
        await self._end(committed=True)

    async def abort(self) -> None:
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        request = end_request(self._producer, committed=committed)

        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(self._id)
            response = await link.ask(request, **ENDS)
            check(f"ending a transaction of '{self._id}'", response.error_code)

        await self._cluster.retry(attempt)


class IdempotentSession:
    """Writes without transactions; without idempotence, too, where the target has none (-1 for all)."""

    transactional_id: str | None = None

    def __init__(self, cluster: Cluster) -> None:
        self.producer_id = -1
        self.producer_epoch = -1
        self._cluster = cluster

    async def open(self) -> None:
        link = await self._cluster.any_broker()
        if not link.serves(ApiKey.INIT_PRODUCER_ID):
            return
        request = init_request(None, TRANSACTION_TIMEOUT_MS)

        async def attempt() -> None:
            response = await (await self._cluster.any_broker()).ask(request, **INITS)
            check("getting a producer id", response.error_code)
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

        await self._cluster.retry(attempt)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing: there is no transaction."""

    async def commit(self) -> None:
        """Nothing: what is written is visible."""

    async def abort(self) -> None:
        """Nothing: what is written stays."""
