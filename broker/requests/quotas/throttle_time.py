"""How long a client is throttled for one request, by its quotas.

The longest of three waits counts: for the bytes that it produced, for the bytes that it fetched, and for the time that
its request took. Each is what its meter computes (rates.py). The client is sent that time, and no request is read from
its connection for as long (KIP-219).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.broker.network.ports import Parts, Peer
from sordini.broker.requests.quotas.client_quotas import ClientMeters, Meter, Throttled
from sordini.broker.requests.quotas.throttle_time_field import set_throttle_time
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import ALL_APIS

FETCHES: Final = frozenset({int(ApiKey.FETCH), int(ApiKey.SHARE_FETCH)})
"""Whose responses count for consumer_byte_rate."""


def finish_request(
    peer: Peer,
    key: int,
    version: int,
    size: int,
    meters: ClientMeters,
    now_ms: Callable[[], int],
    counts: Throttled,
    spent_ns: int,
    parts: Parts | None,
) -> Parts | None:
    """Measure a request and its response, and throttle the client if that was too much."""
    at_ms = now_ms()
    wait_ms = 0
    if key == ApiKey.PRODUCE and meters.produced is not None:
        wait_ms = _used(meters.produced, size, at_ms)
    elif key in FETCHES and meters.fetched is not None and parts is not None:
        wait_ms = _used(meters.fetched, sum(map(_size, parts)), at_ms)
    if meters.request_time is not None:
        # One window at most, as in Apache Kafka: a request's time is known only when it is spent.
        windows = meters.request_time.rate.length
        wait_ms = max(wait_ms, min(_used(meters.request_time, spent_ns / 1e7, at_ms), windows.ms))
    if not wait_ms:
        return parts
    counts.responses += 1
    counts.milliseconds += wait_ms
    peer.mute(wait_ms)
    return None if parts is None else set_throttle_time(ALL_APIS[key], version, parts, wait_ms)


def _used(meter: Meter, units: float, now_ms: int) -> int:
    """How long to wait after so many more units."""
    meter.rate.record(units, now_ms)
    return meter.rate.throttle_ms(meter.bound, now_ms)


def _size(part: object) -> int:
    return part.nbytes if isinstance(part, memoryview) else getattr(part, "size", None) or len(part)  # type: ignore[arg-type]
