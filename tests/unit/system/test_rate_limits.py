"""Token buckets of addresses."""

from __future__ import annotations

from sordini.system.rate_limits import ADDRESSES_MAX, RateLimit


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    limit = RateLimit(per_s=2.0, burst=3)
    assert [limit.is_allowed("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert [limit.is_allowed("a", 0.5) for _ in range(2)] == [True, False]
    assert [limit.is_allowed("a", 1000.0) for _ in range(4)] == [True, True, True, False], "no more than the burst"


def test_addresses_do_not_share_a_bucket() -> None:
    limit = RateLimit(per_s=1.0, burst=1)
    assert limit.is_allowed("a", 0.0)
    assert limit.is_allowed("b", 0.0)
    assert not limit.is_allowed("a", 0.0)


def test_a_permit_that_did_not_count_is_given_back() -> None:
    limit = RateLimit(per_s=0.0, burst=1)
    for _ in range(5):
        assert limit.is_allowed("a", 0.0)
        limit.give_back("a")
    limit.give_back("a")
    assert [limit.is_allowed("a", 0.0) for _ in range(2)] == [True, False]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limit = RateLimit(per_s=1.0, burst=1)
    assert limit.is_allowed("a", 100.0)
    assert not limit.is_allowed("a", 0.0)


def test_the_number_of_addresses_is_bounded() -> None:
    limit = RateLimit(per_s=0.0, burst=1)
    for number in range(ADDRESSES_MAX + 1):
        assert limit.is_allowed(str(number), 0.0)
    assert limit.is_allowed("0", 0.0), "the one that was used longest ago is forgotten"
    assert not limit.is_allowed(str(ADDRESSES_MAX), 0.0)
