"""The picture of docs/consumer-groups.md: what a history says of each partition's owners, and what is drawn of that."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

from scripts.rolling_restart_picture import PARTITIONS, PICTURE, RECORDED, Run, Span, figures, picture, spans

SVG = "{http://www.w3.org/2000/svg}"


def recorded() -> dict[str, Run]:
    return {name: Run(**run) for name, run in json.loads(RECORDED.read_text(encoding="utf-8")).items()}


def at(ms: int) -> str:
    return f"1970-01-01T00:00:{ms / 1000:06.3f}Z"


def a_row(protocol: str, began: int, ended: int, **fields: Any) -> dict[str, Any]:
    return {"protocol": protocol, "began": at(began), "ended": at(ended), "causes": [], "members": [], **fields}


def member(name: str, waited_ms: int | None = None) -> dict[str, Any]:
    return {"member_id": name, "client_id": name, "waited_ms": waited_ms}


def move(source: str | None, target: str, partition: int = 0, **fields: Any) -> dict[str, Any]:
    return {"partition": partition, "from": source, "to": target, "released": None, "without_owner_ms": None, **fields}


def test_the_picture_in_the_documentation_is_that_of_the_recorded_histories() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(recorded())


def test_each_partition_is_a_row_and_the_figures_of_the_page_are_those_of_the_run() -> None:
    page = PICTURE.with_name("consumer-groups.md").read_text(encoding="utf-8")
    for protocol, run in recorded().items():
        assert len(spans(run)) == PARTITIONS
        middle, worst = figures(run)
        paused = sum(any(span.owner is None for span in found) for found in spans(run).values())
        row = next(line for line in page.splitlines() if line.startswith(f"| {protocol}") and " s |" in line)
        assert row.split(" | ")[1:] == [f"{middle:.2f} s", f"{worst:.2f} s", f"{paused} of {PARTITIONS} |"]
    rows = [text.text for text in ET.fromstring(picture(recorded())).iter(f"{SVG}text")]
    assert rows.count("orders:0") == len(recorded())


def test_a_moved_partition_of_a_consumer_group_has_no_owner_from_its_release_until_it_is_given() -> None:
    first = a_row("consumer", 0, 100, moves=[move(None, "a"), move(None, "a", 1)], members=[member("a")])
    given = move("a", "b", released=at(2_000), without_owner_ms=700)
    second = a_row("consumer", 1_500, 2_800, moves=[given], members=[member("a"), member("b")])
    found = spans(Run(1_000, 5_000, {"rebalances": [first, second]}))
    assert found[0] == [Span("a", 1_000, 2_000), Span(None, 2_000, 2_700), Span("b", 2_700, 5_000)]
    assert found[1] == [Span("a", 1_000, 5_000)]


def test_all_partitions_of_a_classic_group_have_no_owner_from_their_owners_join_until_the_end_of_the_rebalance() -> (
    None
):
    first = a_row("classic", 0, 100, moves=[move(None, "a"), move(None, "b", 1)], members=[member("a"), member("b")])
    gone = {**member("b"), "at": at(2_000)}
    second = a_row("classic", 2_000, 3_000, moves=[move("b", "a", 1)], members=[member("a", 400)], causes=[gone])
    found = spans(Run(1_000, 5_000, {"rebalances": [first, second]}))
    assert found[0] == [Span("a", 1_000, 2_600), Span(None, 2_600, 3_000), Span("a", 3_000, 5_000)]
    assert found[1] == [Span("b", 1_000, 2_000), Span(None, 2_000, 3_000), Span("a", 3_000, 5_000)]
