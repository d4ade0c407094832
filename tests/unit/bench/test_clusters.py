"""The figures and tables of the benchmark's clusters that need no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import controller, failover, outage, partitions, replication
from bench.failover import Gap, Gaps

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "benchmarks.md"


@pytest.mark.parametrize("part", [controller, failover, outage, partitions, replication])
def test_every_part_has_its_place_on_the_page(part: object) -> None:
    text = PAGE.read_text(encoding="utf-8")
    name = part.PART  # type: ignore[attr-defined]
    assert text.index(f"<!-- {name}: begin -->") < text.index(f"<!-- {name}: end -->")


def test_gaps_are_shown_as_medians_of_all_and_of_those_of_the_controller() -> None:
    def side(scale: float) -> Gaps:
        gaps = [Gap(number % 2 == 1, scale * number, scale) for number in range(4)]
        return Gaps(gaps, gaps[:2])

    lines = failover.rows_of(side(1.0), side(2.0))
    assert lines[0].endswith("| longest gap, s | 1.500 | 3.000 | 2.00 |")
    assert lines[1].endswith("| 1.000 | 2.000 | 2.00 |")
    assert lines[-2].endswith("the victim not the controller, s | 0.000 | 0.000 | - |")
    assert lines[-1].endswith("the victim the controller, s | 1.000 | 2.000 | 2.00 |")


def test_five_rounds_are_ten_kills() -> None:
    assert failover.counts(5, quick=False) == (10, 4)
    assert "10 kills and 4 orderly stops" in failover.note(5)


def test_partitions_are_shown_with_the_middle_of_all_rounds() -> None:
    rounds = [partitions.Seen(*(value + number for value in range(6))) for number in (0, 10, 2)]
    lines = partitions.rows_of(2_000, rounds, rounds[:1])
    assert lines[0].startswith("| 2,000 partitions, RF 3: created")
    assert lines[0].endswith("| 2.00 | 0.00 | 0.00 |")
    assert len(lines) == len(partitions.FIGURES)


def test_the_machine_alone_goes_through_all_that_happens_to_a_cluster() -> None:
    seen = dict(controller.costs(controller.Size(brokers=6, partitions=300)))
    lost = seen["a broker is lost"].writes
    assert 195 <= lost <= 205, "half of the 300 partitions and of the 100 that were created, three replicas over six"
    assert seen["it registers again"].writes == 0
    assert seen["it is in sync again: AlterPartition of its leaders"].writes == lost
    assert 60 <= seen["the preferred elections that it can win"].writes <= 70
    assert all(cost.seconds > 0 and cost.memory_bytes > 0 and cost.commands > 0 for cost in seen.values())
