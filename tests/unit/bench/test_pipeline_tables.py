"""The pipeline's two tables, from figures that need neither Spark nor brokers."""

from __future__ import annotations

from pathlib import Path

from bench.pipeline import DEFAULT, OURS, SOURCES, TUNED, Measured, broker_rows, source_rows
from bench.pipeline_job import WORKS
from bench.sides import Side, Sides
from bench.topic_sinks import Written, table_rows
from tests.outside.processes import SordiniProcess

COLD = {DEFAULT.label: 12.0, TUNED.label: 9.0, OURS.label: 6.0}
WARM = {DEFAULT.label: 8.0, TUNED.label: 5.0, OURS.label: 4.0}
MEASURED = {
    (work, source.label): Measured(
        COLD[source.label], [3 * WARM[source.label], 100.0, 1.0], [2 * WARM[source.label], 1.0, WARM[source.label]]
    )
    for work in WORKS
    for source in SOURCES
}


def start(home: Path, settings: dict[str, object]) -> SordiniProcess:
    return SordiniProcess(home, settings)


def test_the_sources_are_compared_by_their_times_from_our_broker() -> None:
    head, line, cold, warm, *_ = source_rows(MEASURED)
    assert head.count("|") == line.count("|") == cold.count("|") == warm.count("|")
    assert cold == f"| {WORKS[0]} | cold | 12.00 | 9.00 | 6.00 | 2.00 | 1.50 |"
    assert warm == "|  | warm | 8.00 | 5.00 | 4.00 | 2.00 | 1.25 |"


def test_the_brokers_are_compared_by_the_median_of_their_pairs_and_more_is_better() -> None:
    head, line, first, *_ = broker_rows(MEASURED, Sides(Side("Theirs", start), Side("Ours", start)))
    assert head.count("|") == line.count("|") == first.count("|")
    # The pairs' quotients are 3/2, 100 and 1/8; the quotient of the medians would be 3.
    assert first == f"| {WORKS[0]} | {DEFAULT.label} | 24.00 | 8.00 | 1.50 |"


def test_sinks_stand_beside_sparks_own() -> None:
    measured = {
        "Spark's own sink": Written(9.0, [4.0, 5.0, 6.0], [2.0, 4.0, 6.0]),
        "our sink": Written(8.0, [8.0], [8.0]),
        "our sink, a transaction": Written(7.0, [3.0], [2.0]),
    }
    *_, own, plain, transaction = table_rows(measured, Sides(Side("Theirs", start), Side("Ours", start)), 1_000_000)
    assert own == "| Spark's own sink | 9.00 | 5.00 | 4.00 | 250,000 | 1.00 |"
    assert plain == "| our sink | 8.00 | 8.00 | 8.00 | 125,000 | 0.50 |"
    assert transaction == "| our sink, a transaction | 7.00 | 3.00 | 2.00 | 500,000 | 2.00 |"
