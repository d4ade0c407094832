"""How fast lagging replicas may catch up (KIP-73)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import TopicPartition
from sordini.replication.replica_throttling import RateMeter, ReplicaQuota

LISTED, OTHER = TopicPartition("moving", 0), TopicPartition("orders", 0)


def a_quota(rate: int) -> ReplicaQuota:
    quota = ReplicaQuota(lambda name: name == LISTED)
    quota.limit(rate)
    return quota


def test_a_burst_is_measured_over_a_whole_window() -> None:
    meter = RateMeter(11, 1000)
    meter.record(500, 0)
    meter.record(500, 10)
    assert meter.bytes_per_second(10) == 1000
    assert meter.bytes_per_second(2000) == 500


def test_bytes_older_than_all_windows_are_not_measured() -> None:
    meter = RateMeter(3, 1000)
    meter.record(900, 0)
    meter.record(100, 2500)
    assert meter.bytes_per_second(2999) == 1000 * 1000 / 2999
    assert meter.bytes_per_second(3000) == 100


def test_only_listed_replicas_are_throttled_and_measured() -> None:
    quota = a_quota(100)
    quota.record(OTHER, 1_000_000, 0)
    assert not quota.is_throttled(LISTED, 0)
    quota.record(LISTED, 1_000, 0)
    assert quota.is_throttled(LISTED, 0)
    assert not quota.is_throttled(OTHER, 0)


def test_without_a_rate_nothing_is_measured() -> None:
    quota = ReplicaQuota(lambda _: True)
    quota.record(LISTED, 1_000_000, 0)
    quota.limit(1)
    assert not quota.is_throttled(LISTED, 0)


def test_a_quota_of_zero_throttles_after_the_first_byte() -> None:
    quota = a_quota(0)
    quota.record(LISTED, 1, 0)
    assert quota.wait_ms(LISTED, 0) == 1000


@given(
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 300)), min_size=60, max_size=120), st.integers(50, 2000)
)
@settings(max_examples=30)
def test_a_replica_that_checks_before_each_transfer_exceeds_the_quota_by_one_transfer_at_most(
    steps: list[tuple[int, int]], rate: int
) -> None:
    quota, now_ms, moved = a_quota(rate), 0, 0
    for size, pause_ms in steps:
        now_ms += pause_ms
        while wait_ms := quota.wait_ms(LISTED, now_ms):
            assert 0 < wait_ms <= 1000
            now_ms += wait_ms
        # The step before was allowed, so up to here no more than the rate was moved over the windows' time.
        quota.record(LISTED, size, now_ms)
        moved += size
    assert moved <= rate * (now_ms / 1000 + 1) + 5_000 * (1 + now_ms / 11_000)
