"""The generator's own counts of what it sent, to be compared with the tables.

Whole events are counted by what they say; broken ones only as such. A record is counted once the broker has
acknowledged it, so the tally is what has to be found in the end, to the last one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from examples.activity.generator.sending import Sent
from examples.activity.generator.visits import CLICK, KINDS, MINUTE_MS, SEARCH, VIEW, time_text

LATE_MINUTES = 10
"""Later than this is late; the aggregates' watermark waits as long."""


class Tally:
    """Counts of what was sent."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        """Records by topic, broken ones too."""
        self.sent_per_minute: Counter[tuple[str, int]] = Counter()
        """The same by topic and by the minute of the record's time, in ms since 1970."""
        self.broken: Counter[tuple[str, str]] = Counter()
        """By topic and way."""
        self.per_minute: dict[str, Counter[int]] = {kind: Counter() for kind in KINDS}
        """Whole events by kind and by the minute in which they happened, in ms since 1970."""
        self.pages: Counter[str] = Counter()
        """Views by page."""
        self.visits: dict[str, set[str]] = {kind: set() for kind in KINDS}
        """The visits with at least one such event."""
        self.late: Counter[str] = Counter()
        """Whole events by kind that arrived more than LATE_MINUTES after they happened."""

    def add(self, sent: Sent) -> None:
        self.sent[sent.topic] += 1
        self.sent_per_minute[sent.topic, sent.timestamp_ms // MINUTE_MS * MINUTE_MS] += 1
        if sent.broken is not None:
            self.broken[sent.topic, sent.broken] += 1
            return
        event = sent.event
        self.per_minute[event.kind][event.at_ms // MINUTE_MS * MINUTE_MS] += 1
        self.visits[event.kind].add(str(event.fields["session_id"]))
        self.late[event.kind] += event.late_ms > LATE_MINUTES * MINUTE_MS
        if event.kind == VIEW:
            self.pages[str(event.fields["page"])] += 1

    @property
    def whole(self) -> dict[str, int]:
        """Whole events by kind."""
        return {kind: minutes.total() for kind, minutes in self.per_minute.items()}

    @property
    def funnel(self) -> dict[str, int]:
        """Visits that viewed; of those, that searched; of those, that clicked on what they found."""
        viewed, searched, clicked = (self.visits[kind] for kind in (VIEW, SEARCH, CLICK))
        stages = (viewed, viewed & searched, viewed & searched & clicked)
        return dict(zip(KINDS, map(len, stages), strict=True))

    def reported(self) -> dict[str, Any]:
        """As JSON's types; `visits` only as the funnel."""
        return {
            "sent": dict(self.sent),
            "whole": self.whole,
            "broken": [{"topic": topic, "way": way, "records": count} for (topic, way), count in self.broken.items()],
            "late": dict(self.late),
            "funnel": self.funnel,
            "pages": dict(self.pages),
            "per_minute": {
                kind: {str(at): count for at, count in sorted(minutes.items())}
                for kind, minutes in self.per_minute.items()
            },
        }

    def audit_lines(self, topic: str) -> Iterator[str]:
        """What was sent to a topic as `sordini pipeline audit` wants to be told: a line of JSON for each minute."""
        for (name, minute_ms), count in sorted(self.sent_per_minute.items()):
            if name == topic:
                yield json.dumps({"topic": topic, "window_start": time_text(minute_ms), "count": count})
