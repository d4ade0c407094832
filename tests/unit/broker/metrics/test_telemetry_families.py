"""What Prometheus gets of clients that push their metrics; nothing where they do not (KIP-714)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sordini.broker.metrics.telemetry_families import TELEMETRY_FAMILIES
from sordini.protocol.types import topic_id_text
from tests.support.telemetry_pushes import LAG_MAX, ON, ask, gauges, push, push_metrics
from tests.support.unit_broker import UnitBroker, a_broker


def read(broker: UnitBroker) -> dict[str, list[Any]]:
    sources: Any = SimpleNamespace(parts=broker.parts)
    return {family.name: list(family.read(sources)) for family in TELEMETRY_FAMILIES}


async def test_without_telemetry_there_is_no_sample() -> None:
    async with a_broker() as broker:
        assert [sample for samples in read(broker).values() for sample in samples] == []


async def test_values_have_their_client_and_attributes_as_labels_and_what_was_dropped_is_counted() -> None:
    async with a_broker({**ON, "sordini.client.telemetry.series.max": "1"}) as broker:
        broker.parts.client_metrics.changed("client-metrics/all", {"metrics": "*"})
        given = ask(broker)
        metrics = gauges({LAG_MAX: 3.0, "beyond": 1.0}, {"topic": "orders", "partition": "0"})
        assert await push_metrics(broker, given, metrics) == 0
        assert push(broker, given) == 89
        found = read(broker)
        labels = (topic_id_text(given.client_instance_id), "test", "unknown", LAG_MAX, "partition=0,topic=orders")
        assert found["sordini_client_metric"] == [(labels, 3.0)]
        pushes = {"NONE": 1, "THROTTLING_QUOTA_EXCEEDED": 1}
        assert {name: count for (name,), count in found["sordini_client_telemetry_pushes_total"]} == pushes
        for name, value in (("series", 1), ("series_dropped_total", 1), ("clients", 1), ("bytes_total", len(metrics))):
            assert found[f"sordini_client_telemetry_{name}"] == [((), value)]
