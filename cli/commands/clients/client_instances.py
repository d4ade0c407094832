"""The clients of a cluster that push their metrics: asked of every broker, since each client pushes to one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.client.cluster import Link
from sordini.client.errors import NotServed, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_client_instances import (
    ClientFigureRow,
    ClientInstanceRow,
    DescribeClientInstancesRequest,
    DescribeClientInstancesResponse,
)
from sordini.protocol.primitives import ZERO_UUID
from sordini.protocol.types import TopicId, topic_id_from_text, topic_id_text
from sordini.system.clock import utc_text

PAGE: Final = 200
"""Instances asked for in one request."""
TOTAL: Final = 1
LAG_MAX: Final = "records.lag.max"
LATENCY: Final = "request.latency.avg"
KEY: Final = "org.apache.kafka."
OFF: Final = (
    "no broker of this cluster takes metrics of clients: set sordini.client.telemetry.enable=true "
    "(docs/client-telemetry.md)"
)


async def list_clients(cluster: ClusterClient) -> list[dict[str, Any]]:
    """All clients that any broker knows, as JSON has them, by client id. Raises Failure where telemetry is off."""
    found = await cluster.retry(lambda: _of_all_brokers(cluster, ZERO_UUID, has_all=False))
    return sorted(found, key=lambda row: (row["client_id"], row["client_instance_id"]))


async def describe_clients(cluster: ClusterClient, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Instances with all figures that are kept. Raises Failure for one that no broker knows."""
    found = []
    for text in texts:
        try:
            instance_id = topic_id_from_text(text)
        except ValueError:
            raise Failure(f"'{text}' is no id of a client instance: `sordini clients list` shows them") from None
        rows = await cluster.retry(lambda named=instance_id: _of_all_brokers(cluster, named, has_all=True))  # type: ignore[misc]
        if not rows:
            raise Failure(f"no broker knows the client instance {text}: it has not pushed, or was silent for too long")
        found += rows
    return found


async def _of_all_brokers(cluster: ClusterClient, instance_id: bytes, *, has_all: bool) -> list[dict[str, Any]]:
    newest: dict[bytes, tuple[int, dict[str, Any]]] = {}
    is_enabled = False
    for broker_id, link in (await cluster.brokers()).items():
        async for answer in _pages(link, broker_id, instance_id, has_all=has_all):
            is_enabled |= answer.is_enabled
            for row in answer.instances:
                # A client that goes to another broker is known to both for a while.
                if row.client_instance_id not in newest or newest[row.client_instance_id][0] < row.last_push_at_ms:
                    newest[row.client_instance_id] = row.last_push_at_ms, _as_json(row, broker_id)
    if not is_enabled:
        raise Failure(OFF)
    return [found for _, found in newest.values()]


async def _pages(link: Link, broker_id: int, instance_id: bytes, *, has_all: bool) -> Any:
    after = ZERO_UUID
    while True:
        request = DescribeClientInstancesRequest(
            client_instance_id=instance_id, after=after, instances_max=PAGE, has_all_figures=has_all
        )
        try:
            answer: DescribeClientInstancesResponse = await link.ask(request)
        except NotServed:
            return  # Another broker, or an older Sordini.
        check(f"clients of broker {broker_id}", answer.error_code, answer.error_message)
        yield answer
        if not answer.has_more or not answer.instances:
            return
        last = answer.instances[-1].client_instance_id
        if last <= after:
            raise Failure(f"broker {broker_id} sends the same clients again")
        after = last


def _as_json(row: ClientInstanceRow, broker_id: int) -> dict[str, Any]:
    figures = [_figure(figure) for figure in row.figures]
    return {
        "client_instance_id": topic_id_text(TopicId(row.client_instance_id)),
        "client_id": row.client_id,
        "software_name": row.software_name,
        "software_version": row.software_version,
        "address": row.address,
        "port": row.port,
        "principal": row.principal,
        "group": row.group_id or None,
        "group_member_id": row.group_member_id or None,
        "broker": broker_id,
        "subscribed_metrics": list(row.metrics),
        "push_interval_ms": row.push_interval_ms,
        "first_seen": _time(row.first_seen_at_ms),
        "last_push": _time(row.last_push_at_ms),
        "pushes": row.pushes,
        "pushed_bytes": row.pushed_bytes,
        "last_error": None if row.last_error == ErrorCode.NONE else _error(row.last_error),
        "terminating": row.is_terminating,
        "lag_max": _largest(figures, LAG_MAX),
        "request_latency_avg_ms": _mean(figures, LATENCY),
        "metrics_dropped": row.figures_dropped,
        "metrics": figures,
    }


def _figure(row: ClientFigureRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "labels": {label.key: label.value for label in row.labels},
        "type": "total" if row.kind == TOTAL else "gauge",
        "value": row.value,
        "at": _time(row.at_ms),
    }


def _largest(figures: Iterable[dict[str, Any]], ending: str) -> float | None:
    return max((figure["value"] for figure in figures if figure["name"].endswith(ending)), default=None)


def _mean(figures: Iterable[dict[str, Any]], ending: str) -> float | None:
    """Of the client as a whole, or where it has one for each broker only, of these: not of its bootstrap addresses."""
    named = [figure for figure in figures if figure["name"].endswith(ending) and not _is_bootstrap(figure["labels"])]
    whole = [figure["value"] for figure in named if ".node." not in figure["name"]]
    values = whole or [figure["value"] for figure in named]
    return sum(values) / len(values) if values else None


def _is_bootstrap(labels: dict[str, str]) -> bool:
    return any(labels.get(key, "").startswith("-") for key in ("node.id", "node_id"))


def _error(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"


def _time(at_ms: int) -> str | None:
    return None if at_ms < 0 else utc_text(at_ms)
