"""What a session has seen of the lag of a group."""

from __future__ import annotations

from sordini.client.lag.model import Condition, GroupLag, PartitionLag
from sordini.client.lag.outlook import UNKNOWN, OutlookKind
from sordini.console.readers.group_lags import POINTS_MAX, LagHistory


def group(committed: int, end: int, problem: str | None = None) -> GroupLag:
    row = PartitionLag(
        topic="orders",
        partition=0,
        condition=Condition.BEHIND,
        committed=committed,
        start=0,
        end=end,
        stable_end=end,
        lag=end - committed,
        unread=None,
        rate_in=None,
        rate_out=None,
        commit_age_ms=None,
        owner=None,
        lacks_owner=False,
        outlook=UNKNOWN,
    )
    return GroupLag("billing", "classic", "Stable", 1, (row,), problem)


def test_rates_that_no_broker_tells_are_measured_between_looks() -> None:
    history = LagHistory()
    history.add(group(0, 100), 1_000, 1_000)
    seen = history.add(group(200, 400), 21_000, 21_000)
    assert seen.rate_in is not None
    assert seen.rate_out is not None
    assert (seen.rate_in.per_s, seen.rate_out.per_s) == (15, 10)
    assert seen.partitions[0].outlook.kind is OutlookKind.FALLING_BEHIND


def test_a_look_that_failed_is_no_point() -> None:
    history = LagHistory()
    history.add(group(0, 100), 1_000, 1_000)
    history.add(group(0, 0, "not allowed"), 3_000, 3_000)
    assert [point.lag for point in history.points] == [100]


def test_points_are_bounded_and_the_first_and_the_newest_stay() -> None:
    history = LagHistory()
    for number in range(POINTS_MAX * 5):
        history.add(group(0, number), number * 2_000, number * 2_000)
        assert len(history.points) <= POINTS_MAX
    lags = [point.lag for point in history.points]
    assert lags == sorted(lags)
    assert (lags[0], lags[-1]) == (0, POINTS_MAX * 5 - 1)
    assert lags[-POINTS_MAX // 4 :] == list(range(lags[-POINTS_MAX // 4], POINTS_MAX * 5))
