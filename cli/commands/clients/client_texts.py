"""What `sordini clients` prints; every text of a client is escaped."""

from __future__ import annotations

from typing import Any

from sordini.cli.common.output import table
from sordini.protocol.printable import shown

HEAD = ("CLIENT INSTANCE", "CLIENT ID", "SOFTWARE", "ADDRESS", "BROKER", "LAST PUSH", "LAG MAX", "LATENCY MS")


def list_cells(row: dict[str, Any]) -> list[object]:
    """One row of the list."""
    return [
        row["client_instance_id"],
        row["client_id"] or None,
        f"{row['software_name']} {row['software_version']}",
        row["address"],
        row["broker"],
        row["last_push"],
        number_text(row["lag_max"]),
        number_text(row["request_latency_avg_ms"]),
    ]


def client_text(row: dict[str, Any]) -> str:
    """A paragraph, and the table of its metrics."""
    subscribed = ", ".join(map(shown, row["subscribed_metrics"])) or "none: no subscription matches it"
    lines = [
        f"client {row['client_instance_id']} ({shown(row['client_id']) or 'without a client id'})",
        f"  software     {shown(row['software_name'])} {shown(row['software_version'])}",
        f"  connected    {shown(row['address'])}:{row['port']} as {shown(row['principal'])} to broker {row['broker']}",
        f"  subscribed   {subscribed}, every {row['push_interval_ms'] / 1000:g} s",
        f"  pushed       {_pushed(row)}",
    ]
    if row["group"]:
        lines.insert(3, f"  member       of group {shown(row['group'])}: {shown(row['group_member_id'])}")
    if row["last_error"]:
        lines.append(f"  last error   {row['last_error']}")
    if row["terminating"]:
        lines.append("  it has said that it ends")
    if row["metrics_dropped"]:
        lines.append(f"  of its last push {row['metrics_dropped']} values were not kept")
    if not row["metrics"]:
        return "\n".join(lines)
    cells = [
        [figure["name"], _labels(figure["labels"]), figure["type"], number_text(figure["value"])]
        for figure in row["metrics"]
    ]
    return "\n".join(lines) + "\n\n" + table(["METRIC", "ATTRIBUTES", "TYPE", "VALUE"], cells)


def number_text(value: float | None) -> str | None:
    """Up to three digits behind the point."""
    if value is None:
        return None
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _pushed(row: dict[str, Any]) -> str:
    if not row["pushes"]:
        return f"never; first seen {row['first_seen']}"
    times = "once" if row["pushes"] == 1 else f"{row['pushes']} times"
    return f"{times} since {row['first_seen']}, {row['pushed_bytes']} bytes; last {row['last_push']}"


def _labels(labels: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
