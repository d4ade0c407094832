"""Rates from several snapshots, where the brokers know none."""

from __future__ import annotations

from sordini.client.lag.measured_rates import SAMPLES_MAX, WINDOW_MS, MeasuredRates
from sordini.client.lag.model import Age, Condition, GroupLag, PartitionLag, UnreadRecord
from sordini.client.lag.outlook import UNKNOWN, OutlookKind, Rate

UNREAD = UnreadRecord(5, True, 1, False, 99_000, Age(None, None))


def snapshot(committed: int, end: int, rate: Rate | None = None, topic: str = "orders") -> list[GroupLag]:
    row = PartitionLag(
        topic, 0, Condition.BEHIND, committed, 0, end, end, end - committed, UNREAD, rate, rate, None, None, False, UNKNOWN
    )  # fmt: skip
    return [GroupLag("billing", "classic", "Stable", 1, (row,))]


def rates(groups: list[GroupLag]) -> tuple[Rate | None, Rate | None]:
    return groups[0].partitions[0].rate_in, groups[0].partitions[0].rate_out


def test_the_first_look_has_no_rates_and_later_ones_those_since_the_first() -> None:
    measured = MeasuredRates()
    assert rates(measured.add(snapshot(0, 10), 1_000)) == (None, None)
    assert rates(measured.add(snapshot(20, 50), 11_000)) == (Rate(4, 10), Rate(2, 10))


def test_a_rate_is_that_of_the_last_minute() -> None:
    measured = MeasuredRates()
    for second in range(0, 200, 2):
        found = measured.add(snapshot(second * (10 if second > 100 else 1), 10_000), second * 1_000)
    rate_out = rates(found)[1]
    assert rate_out is not None
    assert rate_out.per_s == 10
    assert WINDOW_MS <= rate_out.window_s * 1_000 <= WINDOW_MS + 4_000


def test_looks_in_quick_succession_keep_no_more_samples() -> None:
    measured = MeasuredRates()
    for number in range(10 * SAMPLES_MAX):
        measured.add(snapshot(number, 10_000), number * 100)
    (samples,) = measured._samples.values()
    assert len(samples) <= SAMPLES_MAX


def test_what_the_broker_knows_is_left_as_it_is() -> None:
    measured, known = MeasuredRates(), Rate(7, 60)
    measured.add(snapshot(0, 10, known), 0)
    assert rates(measured.add(snapshot(5, 50, known), 5_000)) == (known, known)


def test_the_outlook_follows_the_measured_rates() -> None:
    measured = MeasuredRates()
    measured.add(snapshot(0, 100), 0)
    found = measured.add(snapshot(80, 120), 20_000)[0].partitions[0].outlook
    assert (found.kind, found.seconds) == (OutlookKind.CATCHING_UP, 40 / 3)


def test_after_a_reset_the_rate_of_reading_starts_from_there() -> None:
    measured = MeasuredRates()
    measured.add(snapshot(500, 1_000), 0)
    assert rates(measured.add(snapshot(0, 1_000), 10_000))[1] is None
    assert rates(measured.add(snapshot(50, 1_000), 20_000))[1] == Rate(5, 10)


def test_partitions_that_a_look_does_not_have_are_forgotten() -> None:
    measured = MeasuredRates()
    measured.add(snapshot(0, 10), 0)
    measured.add(snapshot(0, 10, topic="bills"), 5_000)
    assert rates(measured.add(snapshot(5, 50), 10_000)) == (None, None)
