from __future__ import annotations

from bench.pipeline import DEFAULT, OURS, TUNED
from bench.wide_topic import WORKS, lines


def test_a_row_has_the_seconds_of_each_source_and_the_gain_of_ours() -> None:
    seconds = {DEFAULT.label: 30.0, TUNED.label: 20.0, OURS.label: 10.0}
    head, _, *found = lines({(work, label): took for work in WORKS for label, took in seconds.items()})
    assert head.startswith("| work | Spark's own source, s | the same, tuned, s | our source, s |")
    assert found == [f"| {work} | 30.00 | 20.00 | 10.00 | 3.00 | 2.00 |" for work in WORKS]
