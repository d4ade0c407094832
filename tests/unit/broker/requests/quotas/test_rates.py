"""Rates of clients over windows, and the token bucket of controller mutations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.requests.quotas.rates import RateWindows, TokenBucket, WindowedRate

USES = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 100_000)), max_size=60)


def test_a_quiet_client_may_use_the_allowance_of_all_windows_but_one_at_once() -> None:
    rate = WindowedRate(RateWindows(11, 1000))
    rate.record(10_000, 5_000)
    assert rate.throttle_ms(1_000, 5_000) == 0
    rate.record(1, 5_000)
    assert rate.throttle_ms(1_000, 5_000) == 1


def test_a_client_above_its_quota_waits_until_its_rate_is_the_quota_again() -> None:
    rate = WindowedRate(RateWindows(11, 1000))
    rate.record(30_000, 0)
    # 30,000 in a span of ten seconds: another twenty seconds make it 1,000 a second.
    assert rate.throttle_ms(1_000, 0) == 20_000
    assert rate.per_second(0) == 3_000
    assert rate.throttle_ms(1_000, 11_000) == 0, "the window is over"


@given(USES, st.integers(1, 50_000))
def test_a_client_that_waits_for_the_throttle_time_gets_its_quota_and_no_more(
    uses: list[tuple[int, int]], bound: int
) -> None:
    """Its uses are of a window's allowance at most; for larger ones see the next law."""
    rate = WindowedRate(RateWindows(11, 1000))
    now_ms, total = 0, 0
    for pause_ms, units in uses:
        used = min(units, bound)
        now_ms += pause_ms
        rate.record(used, now_ms)
        total += used
        now_ms += rate.throttle_ms(bound, now_ms)
    # What all windows allow at once, a use before the first and after the last, and waits that are rounded down.
    assert total <= bound * (now_ms + len(uses)) / 1000 + 13 * bound


@given(USES, st.integers(1, 50_000))
def test_each_use_above_the_allowance_of_ten_windows_costs_at_least_what_is_above_it(
    uses: list[tuple[int, int]], bound: int
) -> None:
    """As with Apache Kafka: it is forgotten after eleven windows, so such uses have that allowance again and again."""
    rate = WindowedRate(RateWindows(11, 1000))
    now_ms = 0
    for pause_ms, units in uses:
        now_ms += pause_ms
        rate.record(units, now_ms)
        waits_ms = rate.throttle_ms(bound, now_ms)
        assert waits_ms >= (units / bound - 11) * 1000 - 1
        now_ms += waits_ms


@given(USES, st.integers(1, 50_000))
def test_a_client_that_uses_half_of_its_quota_never_waits(uses: list[tuple[int, int]], bound: int) -> None:
    rate = WindowedRate(RateWindows(11, 1000))
    now_ms = 0
    for pause_ms, units in uses:
        allowed = min(units, bound * pause_ms // 2000)
        now_ms += pause_ms
        rate.record(allowed, now_ms)
        assert rate.throttle_ms(bound, now_ms) == 0


@given(USES)
def test_what_is_remembered_is_what_the_windows_have(uses: list[tuple[int, int]]) -> None:
    rate = WindowedRate(RateWindows(11, 1000))
    now_ms = 0
    for pause_ms, units in uses:
        now_ms += pause_ms
        rate.record(units, now_ms)
    assert rate.per_second(now_ms + 12_000) == 0
    assert len(rate._windows) == 0


def test_a_quota_of_zero_has_a_bounded_throttle_time() -> None:
    rate = WindowedRate(RateWindows(11, 1000))
    rate.record(1, 0)
    assert rate.throttle_ms(0, 0) == 10_000


def test_a_bucket_is_overdrawn_once_and_says_when_it_is_not() -> None:
    bucket = TokenBucket(2.0, RateWindows(11, 1000), 0)
    bucket.take(22, 0)
    assert bucket.wait_ms(0) == 0, "its burst"
    bucket.take(10, 0)
    assert bucket.wait_ms(0) == 5_000
    assert bucket.wait_ms(4_999) == 1
    assert bucket.wait_ms(5_000) == 0


def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket = TokenBucket(1.0, RateWindows(11, 1000), 0)
    bucket.take(11, 3_600_000)
    assert bucket.wait_ms(3_600_000) == 0
    bucket.take(1, 3_600_000)
    assert bucket.wait_ms(3_600_000) == 1_000
    bucket.limit(10.0, RateWindows(11, 1000))
    assert bucket.wait_ms(3_600_000) == 100
