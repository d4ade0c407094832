"""The figures and the table of what clients wait for while ZooKeeper is away, from moments that are given."""

from __future__ import annotations

from bench import outage
from bench.outage import Extent, Seen
from bench.silences import KINDS, longest


def test_the_longest_silence_is_that_of_the_partition_that_was_silent_for_longest() -> None:
    assert longest({0: [1.0, 2.0, 3.0], 1: [0.5, 3.5]}, 0.0, 4.0) == 3.0


def test_a_silence_is_cut_off_by_the_ends_of_its_window() -> None:
    times = {0: [1.0, 9.0]}
    assert [longest(times, *window) for window in ((0.0, 4.0), (4.0, 6.0), (6.0, 12.0))] == [3.0, 2.0, 3.0]


def test_a_partition_with_nothing_in_a_window_was_silent_for_all_of_it() -> None:
    assert longest({0: [1.0, 1.1, 1.9], 1: []}, 1.0, 2.0) == 1.0


def test_of_all_rounds_the_longest_silence_is_shown() -> None:
    first = {kind: Seen(0.1, 2.0, 0.3) for kind in KINDS}
    second = {kind: Seen(0.2, 1.0, 0.4) for kind in KINDS}
    head, _, *lines = outage.rows_of(["theirs", "ours"], [[first, second], [second, second]], Extent(10, 30, 60))
    assert head == "| longest silence, s | when | theirs | ours |"
    assert lines[:3] == [
        "| acknowledged writes, acks=all | 10 s before | 0.20 | 0.20 |",
        "|  | ZooKeeper frozen for 30 s | 2.00 | 1.00 |",
        "|  | 60 s after | 0.40 | 0.40 |",
    ]
    assert len(lines) == 3 * len(KINDS)


def test_rounds_are_two_at_most() -> None:
    assert "the longest of 2 outages" in outage.note(5)
    assert "the longest of 1 outages" in outage.note(1)
