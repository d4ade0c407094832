"""Which requests are slow, and how many of them are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.metrics.tracing.slow_request import (
    MILLISECOND,
    NANOSECONDS,
    RequestRate,
    Times,
    requested_wait_ms,
    slow_part_ns,
)
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchRequest, ReplicaState
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.served_apis import APIS

DURATIONS = st.integers(0, 100_000 * MILLISECOND)


def a_fetch(version: int, max_wait_ms: int, replica_id: int = -1, client_id: str | None = "ä") -> bytes:
    request = FetchRequest(replica_id=replica_id, max_wait_ms=max_wait_ms)
    if version >= 15:
        request = FetchRequest(replica_state=ReplicaState(replica_id=replica_id), max_wait_ms=max_wait_ms)
    return request_header(APIS[ApiKey.FETCH], version, 7, client_id) + codecs.encode(request, version)


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("replica_id", [-1, 2])
def test_the_wait_that_a_fetch_requests_is_read_in_every_version(version: int, replica_id: int) -> None:
    assert requested_wait_ms(a_fetch(version, 1_234, replica_id)) == 1_234
    assert requested_wait_ms(a_fetch(version, 1_234, replica_id, client_id=None)) == 1_234


@given(st.binary(max_size=40))
def test_a_fetch_that_cannot_be_read_requests_no_wait(data: bytes) -> None:
    assert isinstance(requested_wait_ms(b"\x00\x01" + data), int)


@given(DURATIONS, DURATIONS, st.integers(-5, 100_000))
def test_of_a_fetch_only_what_exceeds_its_requested_wait_is_slow(handled: int, waited: int, max_wait_ms: int) -> None:
    times = Times(0, handled, waited)
    found = slow_part_ns(a_fetch(12, max_wait_ms), times)
    assert found == handled + max(waited - max(max_wait_ms, 0) * MILLISECOND, 0)
    assert handled <= found <= times.duration_ns


@given(DURATIONS, DURATIONS)
def test_of_every_other_request_all_is_slow(handled: int, waited: int) -> None:
    head = request_header(APIS[ApiKey.METADATA], 9, 1, "x") + codecs.encode(MetadataRequest(), 9)
    assert slow_part_ns(head, Times(0, handled, waited)) == handled + waited


@given(st.integers(1, 50), st.lists(st.integers(0, NANOSECONDS // 2), max_size=200))
def test_in_no_second_more_requests_are_admitted_than_twice_the_rate(per_second: int, pauses: list[int]) -> None:
    rate, now = RequestRate(per_second), 5
    admitted = []
    for pause in pauses:
        now += pause
        if rate.admits(now):
            admitted.append(now)
    for start in admitted:
        within = [at for at in admitted if start <= at < start + NANOSECONDS]
        assert len(within) <= 2 * per_second
    total_s = (now - 5) / NANOSECONDS
    assert len(admitted) <= per_second * (total_s + 1) + 1


@given(st.integers(1, 50), st.integers(0, 60))
def test_requests_at_the_rate_are_all_admitted_and_after_a_pause_the_bucket_is_full_again(
    per_second: int, burst: int
) -> None:
    rate = RequestRate(per_second)
    assert [rate.admits(0) for _ in range(burst)] == [number < per_second for number in range(burst)]
    assert [rate.admits(NANOSECONDS) for _ in range(burst)] == [number < per_second for number in range(burst)]
    assert sum(rate.admits(100 * NANOSECONDS) for _ in range(3 * per_second)) == per_second, "it holds no more"
