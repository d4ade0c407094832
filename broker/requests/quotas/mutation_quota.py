"""Quotas of controller mutations: how many partitions a client may have created and deleted per second (KIP-599).

A client that overdraws its tokens is served once. What comes after is refused with THROTTLING_QUOTA_EXCEEDED in
versions whose clients know that code, until the tokens are back; clients of older versions are served, and their
connection is muted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.requests.quotas.rates import TokenBucket
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode

STRICT_SINCE: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
"""The first version in which mutations are refused."""
EXCEEDED: Final = "The throttling quota has been exceeded."


class MutationQuota:
    """The mutations of one request."""

    __slots__ = ("_bucket", "_is_exceeded", "_is_strict", "_monotonic_ms", "_peer")

    def __init__(
        self, bucket: TokenBucket | None, peer: Peer, monotonic_ms: Callable[[], int], *, strict: bool
    ) -> None:
        self._bucket = bucket
        self._peer = peer
        self._monotonic_ms = monotonic_ms
        self._is_strict = strict
        self._is_exceeded = False

    def spend(self, partitions: int) -> None:
        """So many partitions are created or deleted. Raises BrokerError THROTTLING_QUOTA_EXCEEDED."""
        if self._bucket is None:
            return
        now_ms = self._monotonic_ms()
        if self._is_strict and self._bucket.wait_ms(now_ms):
            self._is_exceeded = True
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
        self._bucket.take(partitions, now_ms)
        self._is_exceeded = not self._is_strict

    def throttle(self) -> int:
        """Mute the connection of a client that asked for more than its tokens; for how long, in milliseconds."""
        wait_ms = self._bucket.wait_ms(self._monotonic_ms()) if self._bucket is not None and self._is_exceeded else 0
        if wait_ms:
            self._peer.mute(wait_ms)
        return wait_ms


class MutationQuotas:
    """Finds the quota of a request."""

    def __init__(self, quotas: ClientQuotas, monotonic_ms: Callable[[], int]) -> None:
        self._quotas = quotas
        self._monotonic_ms = monotonic_ms

    def of(self, key: ApiKey, version: int, peer: Peer, client_id: str | None) -> MutationQuota:
        """The quota of one request of these APIs."""
        bucket = self._quotas.mutation_bucket(peer.principal.name, client_id or "", self._monotonic_ms())
        return MutationQuota(bucket, peer, self._monotonic_ms, strict=version >= STRICT_SINCE[key])
