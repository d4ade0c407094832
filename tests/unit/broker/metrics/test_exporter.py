"""The text that Prometheus reads: what a parser finds in it, and that writing it leaves the loop its turns."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sordini.broker.metrics.exporter import FAMILIES, LINES_PER_SLICE, render
from sordini.broker.metrics.families import Histogram, MetricFamily, MetricKind, Sample
from sordini.broker.metrics.latency import BITS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"
NOTHING: Any = None

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def family_of(
    rows: list[Sample], labels: tuple[str, ...] = (), kind: MetricKind = MetricKind.GAUGE, name: str = "a_thing"
) -> MetricFamily:
    return MetricFamily(name, kind, "What it is.", labels, lambda _: rows)


async def rendered(*families: MetricFamily) -> str:
    return b"".join(await render(families, NOTHING)).decode()


def read(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


async def test_numbers_come_out_as_they_went_in() -> None:
    text = await rendered(
        family_of([((), 2.5)]),
        family_of([(("x",), 3), (("y",), 4)], ("kind",), MetricKind.COUNTER, "things_total"),
    )
    assert read(text) == {
        ("a_thing", ()): 2.5,
        ("things_total", (("kind", "x"),)): 3,
        ("things_total", (("kind", "y"),)): 4,
    }
    assert "# TYPE a_thing gauge\n" in text
    assert "# TYPE things_total counter\n" in text
    assert "# HELP a_thing What it is.\n" in text


@pytest.mark.parametrize("label", ['a"} 1\nforged 2', "back\\slash", "Zoë", "\n\n", 'x",y="z'])
async def test_a_label_forges_no_line(label: str) -> None:
    assert read(await rendered(family_of([((label,), 1)], ("group",)))) == {("a_thing", (("group", label),)): 1}


async def test_a_histogram_has_its_buckets_count_and_sum() -> None:
    counts = [0] * (BITS + 1)
    counts[14], counts[40] = 3, 1
    rows: list[Sample] = [(("FETCH",), Histogram(counts, 2_000_000_000))]
    samples = read(await rendered(family_of(rows, ("api",), MetricKind.HISTOGRAM)))
    assert samples["a_thing_count", (("api", "FETCH"),)] == 4
    assert samples["a_thing_sum", (("api", "FETCH"),)] == 2.0
    assert samples["a_thing_bucket", (("api", "FETCH"), ("le", "8.192e-06"))] == 0
    assert samples["a_thing_bucket", (("api", "FETCH"), ("le", "1.6384e-05"))] == 3
    assert samples["a_thing_bucket", (("api", "FETCH"), ("le", "+Inf"))] == 4


@pytest.mark.parametrize(
    "count", [0, 1, LINES_PER_SLICE - 1, LINES_PER_SLICE, LINES_PER_SLICE + 1, 3 * LINES_PER_SLICE]
)
async def test_a_family_of_any_size_is_announced_once_and_whole(count: int) -> None:
    rows: list[Sample] = [((str(number),), number) for number in range(count)]
    text = await rendered(family_of(rows, ("n",)))
    assert text.count("# HELP a_thing ") == text.count("# TYPE a_thing ") == 1
    assert read(text) == {("a_thing", (("n", str(number)),)): number for number in range(count)}


async def test_ten_thousand_partitions_do_not_keep_the_loop_for_longer_than_one_portion() -> None:
    in_this_turn = most = 0

    def rows(_: Any) -> Iterator[Sample]:
        nonlocal in_this_turn, most
        for number in range(10_000):
            in_this_turn += 1
            most = max(most, in_this_turn)
            yield (str(number),), number

    async def others() -> None:
        nonlocal in_this_turn
        while True:
            in_this_turn = 0
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(others())
    await render([MetricFamily("a_thing", MetricKind.GAUGE, "What it is.", ("n",), rows)], NOTHING)
    turning.cancel()
    assert 0 < most <= LINES_PER_SLICE


async def test_the_process_itself_is_described_under_the_usual_names() -> None:
    text = await rendered()
    found = {family.name for family in text_string_to_metric_families(text)}
    assert {"process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds"} <= found


def test_names_follow_the_conventions_and_texts_are_sentences() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"sordini_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER), family.name
        assert re.fullmatch(r"[A-Z0-9].{10,}\.", family.meaning), family.meaning


def page() -> str:
    """docs/metrics.md as it should be: what is above the table stays."""
    intro = PAGE.read_text(encoding="utf-8").partition("| name |")[0]
    rows = [
        f"| `{family.name}` | {family.kind.value} | {', '.join(family.labels)} | {family.meaning} |"
        for family in FAMILIES
    ]
    return intro + "\n".join(["| name | type | labels | meaning |", "| --- | --- | --- | --- |", *rows, ""])


def test_the_page_lists_every_metric() -> None:
    """`UPDATE=1` rewrites the table."""
    if os.environ.get("UPDATE"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
