"""Where an offset was at which time: bounds of a record's age always hold, whatever was thinned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.administration.lag.offset_history import (
    AGES_PER_GAP,
    NO_ADVANCE,
    SAMPLES_MAX,
    UNKNOWN_AGE,
    WINDOW_MS,
    Advance,
    AgeBounds,
    OffsetHistory,
)

SECOND = 1_000


def history(*samples: tuple[int, int], samples_max: int = SAMPLES_MAX) -> OffsetHistory:
    made = OffsetHistory(samples_max)
    for time, offset in samples:
        made.add(time, offset)
    return made


def test_a_record_was_appended_between_the_last_sample_without_it_and_the_first_with_it() -> None:
    made = history((1_000, 5), (2_000, 8), (3_000, 9))
    assert made.age_of(6, 10_000) == AgeBounds(8_000, 9_000)
    assert made.age_of(8, 10_000) == AgeBounds(7_000, 8_000)


def test_a_record_of_before_the_first_sample_has_no_upper_bound_of_its_age() -> None:
    made = history((1_000, 5), (2_000, 8))
    assert made.age_of(4, 10_000) == AgeBounds(9_000, None)
    assert made.is_before(4)
    assert not made.is_before(5)


def test_a_record_after_the_last_sample_is_younger_than_the_last_sample_that_lacks_it() -> None:
    made = history((1_000, 5))
    assert made.age_of(5, 10_000) == AgeBounds(0, 9_000)
    assert made.age_of(5, 10_000, unchanged_until_ms=9_400) == AgeBounds(0, 600)


def test_a_later_sample_without_change_says_nothing_of_earlier_records() -> None:
    made = history((1_000, 5), (2_000, 8))
    assert made.age_of(6, 10_000, unchanged_until_ms=9_400) == AgeBounds(8_000, 9_000)


def test_samples_of_a_follower_bound_the_age_from_below_only() -> None:
    made = OffsetHistory()
    made.add(1_000, 5, bounds_later=False)
    made.add(2_000, 8, bounds_later=False)
    assert made.age_of(6, 10_000) == AgeBounds(8_000, None)
    made.add(3_000, 8)
    made.add(4_000, 9)
    assert made.age_of(8, 10_000) == AgeBounds(6_000, 7_000)


def test_a_lower_offset_is_of_another_log() -> None:
    made = history((1_000, 5), (2_000, 3))
    assert len(made) == 1
    assert made.age_of(2, 3_000) == AgeBounds(1_000, None)


def test_nothing_is_known_without_a_sample() -> None:
    assert OffsetHistory().age_of(0, 5) == UNKNOWN_AGE
    assert OffsetHistory().advance(9, 5) == NO_ADVANCE


def test_an_advance_is_counted_over_the_last_minute() -> None:
    made = history(*((second * SECOND, second * 10) for second in range(200)))
    assert made.advance(2_000, 200 * SECOND) == Advance(600, WINDOW_MS)


def test_an_advance_is_counted_since_the_first_sample_while_that_is_younger() -> None:
    made = history((0, 0), (10 * SECOND, 50))
    assert made.advance(70, 20 * SECOND) == Advance(70, 20 * SECOND)


def test_an_offset_that_held_still_has_advanced_by_nothing() -> None:
    made = history((0, 0), (1_000, 50))
    assert made.advance(50, 500 * SECOND) == Advance(0, WINDOW_MS)


def test_samples_are_bounded_and_reach_back_for_a_week() -> None:
    made = OffsetHistory()
    week = 7 * 24 * 3_600
    for second in range(0, week, 7):
        made.add(second * SECOND, second)
        assert len(made) <= SAMPLES_MAX
    now = week * SECOND
    age = made.age_of(week - 3_600, now)  # Appended an hour ago.
    assert age.at_least_ms is not None
    assert age.at_most_ms is not None
    assert age.at_least_ms <= 3_600 * SECOND <= age.at_most_ms
    assert age.at_most_ms - age.at_least_ms <= 3_600 * SECOND // AGES_PER_GAP + 2 * 7 * SECOND


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 50)), min_size=1, max_size=200),
    st.integers(2, 12),
    st.data(),
)
def test_the_bounds_of_an_age_hold_whatever_is_thinned(
    steps: list[tuple[int, int]], samples_max: int, data: st.DataObject
) -> None:
    """Records come at the time of a step; the sample is in the same moment, and sees them."""
    made, now, end = OffsetHistory(samples_max), 0, 0
    appended: dict[int, int] = {}
    made.add(now, end)
    for elapsed, count in steps:
        now += elapsed
        appended |= dict.fromkeys(range(end, end + count), now)
        end += count
        made.add(now, end)
        assert len(made) <= samples_max
    if not appended:
        return
    offset = data.draw(st.sampled_from(sorted(appended)))
    later = now + data.draw(st.integers(0, 10_000))
    least, most = made.age_of(offset, later)
    true_age = later - appended[offset]
    assert least is not None
    assert least <= true_age
    assert most is None or most >= true_age
