"""What becomes of a lag if the rates stay: the forecast of one partition and of a group."""

from __future__ import annotations

import pytest

from sordini.client.lag.outlook import (
    CAUGHT_UP,
    NOISE,
    STUCK_MS,
    UNKNOWN,
    WINDOW_S_MIN,
    Outlook,
    OutlookKind,
    Rate,
    outlook_of,
    outlook_of_group,
)

PACE = Outlook(OutlookKind.KEEPING_PACE)


def rate(per_s: float, window_s: float = 60) -> Rate:
    return Rate(per_s, window_s)


def test_without_unread_records_it_has_caught_up_whatever_the_lag() -> None:
    assert outlook_of(3, None, None, has_unread=False) == CAUGHT_UP


def test_a_lag_that_shrinks_is_gone_after_lag_over_gain() -> None:
    found = outlook_of(400, rate(10), rate(20), has_unread=True)
    assert found == Outlook(OutlookKind.CATCHING_UP, seconds=40)


def test_a_lag_that_grows_falls_behind_by_the_difference() -> None:
    found = outlook_of(400, rate(20), rate(5), has_unread=True)
    assert found == Outlook(OutlookKind.FALLING_BEHIND, per_s=15)


@pytest.mark.parametrize("out", [100 * (1 - NOISE), 100, 110])
def test_a_difference_within_the_steps_of_commits_is_none(out: float) -> None:
    assert outlook_of(400, rate(100), rate(out), has_unread=True) == PACE


def test_an_offset_that_has_not_moved_for_long_enough_is_not_read() -> None:
    long, short = rate(0, STUCK_MS / 1000), rate(0, STUCK_MS / 1000 - 1)
    assert outlook_of(4, rate(2), long, has_unread=True) == Outlook(OutlookKind.NOT_READING, per_s=2)
    assert outlook_of(4, rate(2), short, has_unread=True) == UNKNOWN


def test_a_record_that_has_only_just_come_is_not_neglected() -> None:
    """An idle group has a rate of nothing, too."""
    assert outlook_of(4, rate(2), rate(0), has_unread=True, unread_ms=STUCK_MS - 1) == UNKNOWN
    assert outlook_of(4, rate(2), rate(0), has_unread=True, unread_ms=STUCK_MS).kind is OutlookKind.NOT_READING


def test_over_less_than_two_commits_nothing_is_said() -> None:
    assert outlook_of(4, rate(2, WINDOW_S_MIN - 1), rate(9), has_unread=True) == UNKNOWN
    assert outlook_of(4, None, rate(9), has_unread=True) == UNKNOWN


def test_a_group_has_caught_up_when_its_last_partition_has() -> None:
    rows = [Outlook(OutlookKind.CATCHING_UP, seconds=3), Outlook(OutlookKind.CATCHING_UP, seconds=50), PACE]
    assert outlook_of_group(rows) == Outlook(OutlookKind.CATCHING_UP, seconds=50)
    assert outlook_of_group([]) == CAUGHT_UP
    assert outlook_of_group([PACE, PACE]) == PACE


def test_one_partition_that_falls_behind_is_the_groups_outlook() -> None:
    rows = [
        Outlook(OutlookKind.CATCHING_UP, seconds=3),
        Outlook(OutlookKind.FALLING_BEHIND, per_s=2),
        Outlook(OutlookKind.FALLING_BEHIND, per_s=5),
        UNKNOWN,
    ]
    assert outlook_of_group(rows) == Outlook(OutlookKind.FALLING_BEHIND, per_s=7)
    stuck, idle = Outlook(OutlookKind.NOT_READING, per_s=1), Outlook(OutlookKind.NOT_READING, per_s=0)
    assert outlook_of_group([*rows, stuck]) == Outlook(OutlookKind.FALLING_BEHIND, per_s=8)
    assert outlook_of_group([stuck, stuck]) == Outlook(OutlookKind.NOT_READING, per_s=2)
    assert outlook_of_group([rows[0], idle]).kind is OutlookKind.NOT_READING
    assert outlook_of_group([rows[0], UNKNOWN]) == UNKNOWN
