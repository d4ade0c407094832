"""The demo's tables as they have to come out, made from the records themselves: no broker, no Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any

import pyarrow as pa

from examples.activity.generator.sending import TOPICS, Sent, records
from examples.activity.generator.tally import LATE_MINUTES, Tally
from examples.activity.generator.visits import MINUTE_MS, VIEW, Plan, events
from examples.activity.report.findings import Tables

START_MS = 1_790_000_000_000 // MINUTE_MS * MINUTE_MS
PLAN = Plan(seed=7, start_ms=START_MS, minutes=60, events=2_000)

TIME = pa.timestamp("us", tz="UTC")
RECORD = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", TIME)]
EVENTS = pa.schema(
    [
        *[(name, pa.string()) for name in ("event_id", "session_id", "page", "query", "target", "search_id")],
        ("event_time", TIME),
        ("position", pa.int32()),
        *RECORD,
    ]
)
DEAD_LETTERS = pa.schema([("reason", pa.string()), ("value", pa.binary()), *RECORD])
QUARTER_MS = 15 * MINUTE_MS
PAGES = pa.schema([("window_start", TIME), ("page", pa.string()), ("views", pa.int64())])
WINDOWS = pa.schema([("window_start", TIME), ("topic", pa.string()), ("events", pa.int64())])


def sent_of(plan: Plan, broken_share: float = 0.02) -> list[Sent]:
    return list(records(events(plan), seed=plan.seed, broken_share=broken_share))


def tally_of(sent: Sequence[Sent]) -> Tally:
    tally = Tally()
    for one in sent:
        tally.add(one)
    return tally


def tables_of(sent: Sequence[Sent]) -> Tables:
    """Every record where it belongs, and a streaming aggregate that has dropped what was late."""
    offsets = {topic: count() for topic in TOPICS.values()}
    rows, dead = [], []
    for one in sent:
        place = {
            "topic": one.topic,
            "partition": 0,
            "offset": next(offsets[one.topic]),
            "timestamp": one.timestamp_ms * 1000,
        }
        if one.broken is not None:
            dead.append({**place, "reason": f"it is {one.broken}", "value": one.value})
            continue
        fields = json.loads(one.value)
        at = datetime.fromisoformat(fields["event_time"])
        rows.append({**{name: fields.get(name) for name in EVENTS.names}, **place, "event_time": at})
    return Tables(
        pa.Table.from_pylist(rows, EVENTS),
        pa.Table.from_pylist(dead, DEAD_LETTERS),
        windows_of([one for one in sent if one.event.late_ms < LATE_MINUTES * MINUTE_MS]),
        windows_of(sent),
        pages_of(sent),
        visits_of(rows),
    )


def visits_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The newest view of each visit."""
    views = (row for row in rows if row["topic"] == TOPICS[VIEW])
    newest = {row["session_id"]: row for row in sorted(views, key=lambda row: row["event_time"])}
    return pa.Table.from_pylist(list(newest.values()), EVENTS)


def windows_of(sent: Sequence[Sent]) -> pa.Table:
    counts = Counter((one.event.at_ms // MINUTE_MS * MINUTE_MS, one.topic) for one in sent if one.broken is None)
    rows = [{"window_start": at * 1000, "topic": topic, "events": found} for (at, topic), found in counts.items()]
    return pa.Table.from_pylist(rows, WINDOWS)


def pages_of(sent: Sequence[Sent]) -> pa.Table:
    """Views by page and quarter of an hour."""
    views = Counter(
        (one.event.at_ms // QUARTER_MS * QUARTER_MS, one.event.fields["page"])
        for one in sent
        if one.broken is None and one.event.kind == VIEW
    )
    rows = [{"window_start": at * 1000, "page": page, "views": found} for (at, page), found in views.items()]
    return pa.Table.from_pylist(rows, PAGES)
