"""What a site's machines, visitors and members do in some minutes, with trouble planted in it: what has to be found.

The same plan gives the same records. Measures out of their limits, crawlers and visits are counted as they are made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from examples.activity.generator.site import Skewed
from examples.activity.generator.visits import MINUTE_MS, time_text

MEASURES, REQUESTS, VISITS = TOPICS = ("measures", "requests", "member-visits")

HOSTS = tuple(f"web-{number}" for number in range(1, 7))
MEASURED_EVERY_MS = 10_000
USUAL = {"cpu_percent": (45.0, 12.0), "io_mb_per_s": (120.0, 40.0), "request_ms": (180.0, 60.0)}
"""Metric -> its mean and deviation on a good day."""
CALM = {"cpu_percent": 85.0, "io_mb_per_s": 300.0, "request_ms": 600.0}
"""Metric -> what it stays below on a good day."""
TROUBLED = {"cpu_percent": 97.0, "io_mb_per_s": 520.0, "request_ms": 2_400.0}
"""Metric -> what it is about in an incident; see LIMITS in jobs/alerts.py for what is too much."""

CRAWLERS = {
    "2001:db8::c:1": "FetchEverything/2.1",
    "2001:db8::c:2": "Mozilla/5.0 (Windows NT 10.0) Sample/1.0",
    "2001:db8::c:3": "Mozilla/5.0 (X11; Linux x86_64) Sample/1.0",
}
"""Address -> what it calls itself: two of three do not say that they are crawlers."""
_CRAWLER_PAUSE_MS = 700
_VISITOR_PAUSE_MS = 12_000
_PAGES = 400


class Plan(NamedTuple):
    """What is to happen."""

    seed: int
    start_ms: int
    minutes: int
    incidents: int = 3
    visitors: int = 25
    """At any moment."""
    visits: int = 600
    members: int = 150


class Record(NamedTuple):
    """One record to send."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


class Incident(NamedTuple):
    """A machine in trouble for some minutes."""

    host: str
    metric: str
    begins_ms: int
    ends_ms: int


class Happened(NamedTuple):
    """All records by time, and what is hidden in them."""

    records: list[Record]
    incidents: list[Incident]
    too_much: Counter[tuple[str, str]]
    """Measures that are out of their limits, by host and metric."""
    visits: Counter[int]
    """Visits by member."""


def happen(plan: Plan) -> Happened:
    """Make everything up."""
    random = Random(plan.seed)
    incidents = [_incident(plan, random) for _ in range(plan.incidents)]
    too_much: Counter[tuple[str, str]] = Counter()
    visits: Counter[int] = Counter()
    records = [*_measures(plan, random, incidents, too_much), *_requests(plan, random), *_visits(plan, random, visits)]
    return Happened(sorted(records, key=lambda record: record.timestamp_ms), incidents, too_much, visits)


def _incident(plan: Plan, random: Random) -> Incident:
    begins = random.randrange(max(1, plan.minutes - 2))
    lasts = random.randint(1, 2)
    start_ms = plan.start_ms + begins * MINUTE_MS
    return Incident(random.choice(HOSTS), random.choice(list(USUAL)), start_ms, start_ms + lasts * MINUTE_MS)


def _measures(
    plan: Plan, random: Random, incidents: list[Incident], too_much: Counter[tuple[str, str]]
) -> Iterator[Record]:
    for at_ms in range(plan.start_ms, plan.start_ms + plan.minutes * MINUTE_MS, MEASURED_EVERY_MS):
        for host in HOSTS:
            for metric, (mean, deviation) in USUAL.items():
                value = min(abs(random.gauss(mean, deviation)), CALM[metric])
                if any(_is_in(incident, host, metric, at_ms) for incident in incidents):
                    value = TROUBLED[metric] * random.uniform(0.98, 1.02)
                    too_much[host, metric] += 1
                fields = {"event_time": time_text(at_ms), "host": host, "metric": metric, "value": round(value, 1)}
                yield _record(MEASURES, host, fields, at_ms)


def _is_in(incident: Incident, host: str, metric: str, at_ms: int) -> bool:
    return (incident.host, incident.metric) == (host, metric) and incident.begins_ms <= at_ms < incident.ends_ms


def _requests(plan: Plan, random: Random) -> Iterator[Record]:
    pages = Skewed([f"/pages/{number}" for number in range(_PAGES)], 0.9)
    for number in range(plan.visitors):
        address, session = f"2001:db8::{number + 16:x}", f"{random.getrandbits(64):016x}"
        for at_ms in _moments(plan, random, _VISITOR_PAUSE_MS):
            yield _request(random, address, "Mozilla/5.0 (X11) Sample/1.0", session, pages.draw(random), at_ms)
    for address, name in CRAWLERS.items():
        session = f"{random.getrandbits(64):016x}"
        for count, at_ms in enumerate(_moments(plan, random, _CRAWLER_PAUSE_MS)):
            yield _request(random, address, name, session, f"/pages/{count % _PAGES}", at_ms)


def _moments(plan: Plan, random: Random, pause_ms: int) -> Iterator[int]:
    at_ms = plan.start_ms + random.randrange(pause_ms)
    while at_ms < plan.start_ms + plan.minutes * MINUTE_MS:
        yield at_ms
        at_ms += round(pause_ms * random.uniform(0.5, 1.5))


def _request(random: Random, address: str, name: str, session: str, page: str, at_ms: int) -> Record:
    fields = {
        "event_id": f"{random.getrandbits(128):032x}",
        "event_time": time_text(at_ms),
        "session_id": session,
        "page": page,
        "user_agent": name,
        "address": address,
        "status": 200,
    }
    return _record(REQUESTS, address, fields, at_ms)


def _visits(plan: Plan, random: Random, counted: Counter[int]) -> Iterator[Record]:
    members = Skewed(range(1, plan.members + 1), 0.8)
    for _ in range(plan.visits):
        at_ms = plan.start_ms + random.randrange(plan.minutes * MINUTE_MS)
        member = members.draw(random)
        counted[member] += 1
        fields = {
            "event_id": f"{random.getrandbits(128):032x}",
            "event_time": time_text(at_ms),
            "member_id": member,
            "visitor_id": random.randint(1, plan.members),
            "page": "/profile",
        }
        # The key decides the partition: all visits to one member are in one, in order, for one consumer to count.
        yield _record(VISITS, str(member), fields, at_ms)


def _record(topic: str, key: str, fields: dict[str, object], at_ms: int) -> Record:
    return Record(topic, key.encode(), json.dumps(fields, separators=(",", ":")).encode(), at_ms)
