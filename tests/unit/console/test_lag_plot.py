"""The lag's drawing: where its points are, and where the forecast ends."""

from __future__ import annotations

import pytest

from sordini.client.lag.outlook import CAUGHT_UP, UNKNOWN, Outlook, OutlookKind
from sordini.console.pages.lag_plot import GAP_MS, HEIGHT, WIDTH, LagPlot, lag_plot
from sordini.console.readers.group_lags import HISTORIES_MAX, LagHistories, LagPoint

POINTS = [LagPoint(0, 100), LagPoint(20_000, 300), LagPoint(40_000, 200), LagPoint(60_000, 400)]


def plot(outlook: Outlook, points: list[LagPoint] = POINTS) -> LagPlot:
    found = lag_plot(points, outlook)
    assert found is not None
    return found


def coordinates(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (pair.partition(",") for pair in line.split())]


def test_nothing_is_drawn_before_the_first_look() -> None:
    assert lag_plot([], UNKNOWN) is None


def test_time_goes_right_and_lag_goes_up() -> None:
    (line,) = plot(UNKNOWN).lines
    xs, ys = zip(*coordinates(line), strict=True)
    assert xs == (0, 222.2, 444.4, 666.7)
    assert ys[3] < ys[1] < ys[2] < ys[0] < HEIGHT
    assert plot(UNKNOWN).highest == 400


def test_one_look_stands_where_a_minute_is_behind_it() -> None:
    found = plot(UNKNOWN, [LagPoint(90_000, 0)])
    assert found.now == (666.7, HEIGHT)
    assert (found.first_ms, found.ends_ms) == (30_000, 120_000)


def test_looks_with_a_gap_between_them_are_not_joined() -> None:
    later = [LagPoint(60_000 + GAP_MS + 1 + step, 400) for step in (0, 1_000)]
    assert [len(coordinates(line)) for line in plot(UNKNOWN, POINTS + later).lines] == [4, 2]


def test_a_lag_that_goes_away_reaches_the_ground_when_the_forecast_says() -> None:
    found = plot(Outlook(OutlookKind.CATCHING_UP, seconds=15.0))
    assert found.forecast == (pytest.approx(WIDTH * 75 / 90, abs=0.1), HEIGHT)


def test_a_lag_that_goes_away_later_is_drawn_as_far_as_the_edge() -> None:
    found = plot(Outlook(OutlookKind.CATCHING_UP, seconds=60.0))
    assert found.forecast is not None
    x, y = found.forecast
    assert x == WIDTH
    assert HEIGHT - y == pytest.approx((HEIGHT - found.now[1]) / 2, abs=0.1)


@pytest.mark.parametrize("kind", [OutlookKind.FALLING_BEHIND, OutlookKind.NOT_READING])
def test_a_lag_that_grows_makes_room_for_where_it_will_be(kind: OutlookKind) -> None:
    found = plot(Outlook(kind, per_s=20.0))
    assert found.highest == 400 + 20 * 30
    assert found.forecast is not None
    assert found.forecast[0] == WIDTH
    assert found.forecast[1] < found.now[1]


def test_a_group_that_keeps_pace_has_a_level_forecast_and_others_have_none() -> None:
    found = plot(Outlook(OutlookKind.KEEPING_PACE))
    assert found.forecast == (WIDTH, found.now[1])
    assert plot(CAUGHT_UP).forecast is None
    assert plot(UNKNOWN).forecast is None


def test_a_session_remembers_the_groups_that_it_looked_at_last() -> None:
    histories = LagHistories()
    first, second = histories.of("first"), histories.of("second")
    for number in range(HISTORIES_MAX - 1):
        histories.of(f"other-{number}")
        assert histories.of("second") is second
    assert histories.of("first") is not first
