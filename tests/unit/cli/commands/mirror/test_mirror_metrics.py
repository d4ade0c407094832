"""The metrics of a mirror, and their table in docs/mirror.md."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from sordini.cli.commands.mirror.mirror_metrics import FAMILIES, LAG, LAG_MEANING, FlowCollector
from sordini.client.addresses import Address
from sordini.client.sockets import connect
from sordini.mirror.copier import Shared
from sordini.mirror.flow import Flow
from sordini.mirror.groups import MergedOffsets
from sordini.mirror.naming import Naming, Selection
from sordini.mirror.plan import Access, Plan, Source
from sordini.protocol.types import TopicPartition

PAGE = Path(__file__).resolve().parents[5] / "docs" / "mirror.md"


def a_flow() -> Flow:
    def access(alias: str) -> Access:
        return Access(alias, (Address("127.0.0.1", 9092),), connect)

    source = Source(access("east"), Selection(()), Selection(()))
    plan = Plan("test", access("central"), (source,))
    return Flow(Shared(plan, MergedOffsets(["east"], Naming.PREFIX), print), source)


def test_each_source_has_its_figures_and_each_partition_its_lag() -> None:
    flow = a_flow()
    flow.figures.records = 7
    flow.figures.is_running = True
    flow.figures.delivery = "exactly once"
    flow.figures.lags[TopicPartition("orders", 3)] = 5
    registry = CollectorRegistry()
    registry.register(FlowCollector([flow]))
    text = generate_latest(registry).decode()
    assert 'sordini_mirror_records_total{source="east"} 7.0' in text
    assert 'sordini_mirror_up{source="east"} 1.0' in text
    assert 'sordini_mirror_exactly_once{source="east"} 1.0' in text
    assert 'sordini_mirror_lag_records{partition="3",source="east",topic="orders"} 5.0' in text


def test_the_page_lists_every_metric_with_its_meaning() -> None:
    rows = re.findall(r"^\| `(sordini_mirror_\w+)` \| (\w+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    listed = {name: (kind, meaning) for name, kind, meaning in rows}
    expected = {LAG: ("gauge", LAG_MEANING)}
    for family in FAMILIES:
        is_counter = "Counter" in family.kind.__name__
        name = f"sordini_mirror_{family.name}{'_total' if is_counter else ''}"
        expected[name] = ("counter" if is_counter else "gauge", family.meaning)
    assert listed == expected
