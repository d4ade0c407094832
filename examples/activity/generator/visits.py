"""Visits to the site as a stream of events, in the order in which they arrive: views, searches, clicks.

A visit is a walk: look at a page, stay a while, then leave, look at another or search; a search leads to a click on one
of its results more often the higher that stands, and a click to the view of a page. Visits come more densely in the
middle of the time played than at its ends, and in a wave after a newsletter. Phones lose their network: whatever a
visitor does meanwhile happens on time and arrives late, all at once, which is where late events come from in life.

No clock is read: times are milliseconds since 1970, from the `start_ms` of the plan on. The same plan gives the same
events, byte for byte.
"""

from __future__ import annotations

import heapq
import math
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import NamedTuple

from examples.activity.generator.site import NEWSLETTER_PAGE, Site, Skewed, a_site

VIEW, SEARCH, CLICK = KINDS = ("page_view", "search", "click")
"""As the schemas of the same names in sordini.pipeline.schemas."""
SEARCH_PAGE = "/search"

MINUTE_MS = 60_000
EVENTS_PER_VISIT = 4.15
"""What the walk below comes to, measured over 100,000 visits; it turns a number of events into one of visits."""

_NEWSLETTER_AT = 0.62
_NEWSLETTER_SHARE = 0.35
"""Of the visits while its wave is at its height, so many start on the page it names."""
_SEARCH_CHANCE = 0.26
_ANOTHER_PAGE_CHANCE = 0.42
_NO_RESULTS_CHANCE = 0.07
_FAILURE_CHANCE = 0.004
_CLICK_CHANCE = 0.66
_POSITION_DECAY = 0.62
"""Each result is clicked this often compared with the one above it."""
_ANONYMOUS_CHANCE = 0.3
_DEVICES = {"phone": 0.56, "desktop": 0.39, "tablet": 0.05}
_BROWSERS = {
    "phone": ("Mozilla/5.0 (Android 15; Mobile) Sample/1.0", "Mozilla/5.0 (iPhone; OS 18_1) Sample/1.0"),
    "desktop": ("Mozilla/5.0 (X11; Linux x86_64) Sample/1.0", "Mozilla/5.0 (Windows NT 10.0) Sample/1.0"),
    "tablet": ("Mozilla/5.0 (iPad; OS 18_1) Sample/1.0",),
}
_TUNNEL_CHANCE = 0.06
_TUNNEL_MINUTES_MEAN = 9.0
_TUNNEL_MINUTES_MAX = 55.0


class Plan(NamedTuple):
    """What is to be played. `late_share` scales how many phones lose their network; 1 is life as usual."""

    seed: int
    start_ms: int
    minutes: int
    events: int
    """About so many; the walks are random."""
    members: int = 20_000
    late_share: float = 1.0

    @property
    def end_ms(self) -> int:
        """Visits start before this; their last events come a little later."""
        return self.start_ms + self.minutes * MINUTE_MS


class Event(NamedTuple):
    """One thing that a visitor did."""

    kind: str
    at_ms: int
    arrives_ms: int
    """When it reaches the site's producer; never before `at_ms`."""
    fields: dict[str, object]
    """As they are sent, JSON's types only."""

    @property
    def late_ms(self) -> int:
        return self.arrives_ms - self.at_ms


def events(plan: Plan) -> Iterator[Event]:
    """All that happens, by time of arrival."""
    random = Random(plan.seed)
    site, members = a_site(random), Skewed(range(1, plan.members + 1), 0.7)
    pending: list[tuple[int, int, Event]] = []
    count = 0
    for start_ms in _starts(plan, random):
        while pending and pending[0][0] < start_ms:
            yield heapq.heappop(pending)[2]
        for event in _Visit(plan, site, members, random, start_ms).events():
            # The count keeps the order of those that arrive together, and dictionaries out of comparisons.
            heapq.heappush(pending, (event.arrives_ms, count, event))
            count += 1
    while pending:
        yield heapq.heappop(pending)[2]


def _starts(plan: Plan, random: Random) -> list[int]:
    """When visits begin, in order: drawn minute by minute from how busy the site is."""
    sums = list(accumulate(_busyness(minute / plan.minutes) for minute in range(plan.minutes)))
    visits = round(plan.events / EVENTS_PER_VISIT)
    drawn = (bisect_left(sums, random.random() * sums[-1]) for _ in range(visits))
    return sorted(plan.start_ms + minute * MINUTE_MS + random.randrange(MINUTE_MS) for minute in drawn)


def _busyness(part: float) -> float:
    """How busy the site is when so large a part of the time has passed: a hill, and a wave on it."""
    return 0.55 + 0.45 * math.sin(math.pi * part) ** 2 + 0.8 * _newsletter_wave(part)


def _newsletter_wave(part: float) -> float:
    """Up at once, and down over a tenth of the time."""
    return math.exp((_NEWSLETTER_AT - part) / 0.06) if part >= _NEWSLETTER_AT else 0.0


class _Visit:
    """One visitor's walk, from its first page to its last."""

    def __init__(self, plan: Plan, site: Site, members: Skewed[int], random: Random, start_ms: int) -> None:
        self._site = site
        self._random = random
        self._now_ms = start_ms
        self._first_page = self._landing_page((start_ms - plan.start_ms) / (plan.end_ms - plan.start_ms))
        member = None if random.random() < _ANONYMOUS_CHANCE else members.draw(random)
        device = random.choices(list(_DEVICES), list(_DEVICES.values()))[0]
        self._visitor = {"session_id": f"{random.getrandbits(64):016x}", "member_id": member}
        # The network of RFC 3849, which nobody has.
        address = f"2001:db8::{random.getrandbits(16):x}:{random.getrandbits(16):x}"
        self._browser = {"user_agent": random.choice(_BROWSERS[device]), "address": address}
        self._tunnel = (0, 0)
        if device == "phone" and random.random() < _TUNNEL_CHANCE * plan.late_share:
            minutes = min(random.expovariate(1 / _TUNNEL_MINUTES_MEAN), _TUNNEL_MINUTES_MAX)
            begins_ms = start_ms + random.randrange(45_000)
            self._tunnel = (begins_ms, begins_ms + round(minutes * MINUTE_MS))

    def _landing_page(self, part: float) -> str:
        if self._random.random() < _NEWSLETTER_SHARE * _newsletter_wave(part):
            return NEWSLETTER_PAGE
        return self._site.landing_pages.draw(self._random)

    def events(self) -> Iterator[Event]:
        page, referrer = self._first_page, None
        yield self._view(page, referrer)
        while (chance := self._random.random()) < _SEARCH_CHANCE + _ANOTHER_PAGE_CHANCE:
            self._stay(25.0)
            page, referrer = self._site.pages.draw(self._random), page
            if chance < _SEARCH_CHANCE:
                yield (search := self._search())
                if not search.fields["results"] or self._random.random() > _CLICK_CHANCE:
                    continue
                self._stay(6.0)
                yield self._click(search, page)
                referrer = SEARCH_PAGE
                self._now_ms += 300
            yield self._view(page, referrer)

    def _stay(self, seconds_median: float) -> None:
        self._now_ms += 400 + round(1000 * self._random.lognormvariate(math.log(seconds_median), 0.8))

    def _view(self, page: str, referrer: str | None) -> Event:
        status = 503 if self._random.random() < _FAILURE_CHANCE else 200
        where = {"page": page, "referrer": referrer, **self._browser, "status": status}
        return self._event(VIEW, {**where, "duration_ms": self._duration_ms(90)})

    def _search(self) -> Event:
        found = 0 if self._random.random() < _NO_RESULTS_CHANCE else 1 + round(self._random.expovariate(1 / 60))
        asked = {"query": self._site.queries.draw(self._random), "results": found}
        return self._event(SEARCH, {**asked, "duration_ms": self._duration_ms(140)})

    def _click(self, search: Event, target: str) -> Event:
        shown = min(10, int(str(search.fields["results"])))
        weights = [_POSITION_DECAY**place for place in range(shown)]
        position = 1 + self._random.choices(range(shown), weights)[0]
        of = {"page": SEARCH_PAGE, "target": target, "search_id": search.fields["event_id"]}
        return self._event(CLICK, {**of, "position": position})

    def _duration_ms(self, median: float) -> int:
        return round(self._random.lognormvariate(math.log(median), 0.5))

    def _event(self, kind: str, fields: dict[str, object]) -> Event:
        event_id = f"{self._random.getrandbits(128):032x}"
        network_ms = round(self._random.lognormvariate(math.log(250), 0.9))
        begins_ms, ends_ms = self._tunnel
        sent_ms = ends_ms if begins_ms <= self._now_ms < ends_ms else self._now_ms
        own = {"event_id": event_id, "event_time": time_text(self._now_ms)}
        return Event(kind, self._now_ms, sent_ms + network_ms, {**own, **self._visitor, **fields})


def time_text(at_ms: int) -> str:
    """A time as events tell it: ISO 8601, in UTC, to the millisecond."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"
