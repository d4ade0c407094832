"""The site whose visitors are played: its pages, what people search for in it, and how unevenly they like both.

Popularity follows Zipf's law: the page of rank r is asked for with a weight of 1 / r^s. So few pages have most of
the views and most pages have few, as on every real site.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

PAGES_SKEW = 0.9
QUERIES_SKEW = 0.8
LANDING_PAGES = 40
"""Visits start on one of the best known pages."""
NEWSLETTER_PAGE = "/articles/how-a-log-became-a-database"

_SECTIONS = ("jobs", "people", "companies", "articles", "courses", "groups")
_SUBJECTS = (
    "data-engineer",
    "gardening",
    "double-bass",
    "brass-section",
    "open-water-swimming",
    "compilers",
    "letterpress",
    "night-trains",
    "beekeeping",
    "glaciology",
    "type-design",
    "lighthouses",
    "chamber-music",
    "cartography",
    "sourdough",
    "radio-plays",
    "oboe",
    "bridge-building",
    "ceramics",
    "harpsichord",
)
_PLACES = ("lisbon", "oslo", "kyoto", "lima", "graz", "accra", "hobart", "quebec")


class Skewed(Generic[T]):
    """Things in the order of their popularity, drawn by Zipf's law."""

    def __init__(self, things: Sequence[T], skew: float) -> None:
        self.things = tuple(things)
        self._sums = list(accumulate(1 / rank**skew for rank in range(1, len(self.things) + 1)))

    def draw(self, random: Random) -> T:
        return self.things[bisect_left(self._sums, random.random() * self._sums[-1])]


class Site(NamedTuple):
    """What there is to look at and to look for."""

    pages: Skewed[str]
    landing_pages: Skewed[str]
    queries: Skewed[str]


def a_site(random: Random) -> Site:
    """Make a site; the same `random` makes the same one."""
    rest = [f"/{section}/{subject}" for section in _SECTIONS for subject in _SUBJECTS]
    rest += [f"/jobs/{subject}-in-{place}" for subject in _SUBJECTS for place in _PLACES]
    random.shuffle(rest)
    pages = ["/", "/feed", "/jobs", "/people", *rest]
    pages.insert(12, NEWSLETTER_PAGE)
    queries = [subject.replace("-", " ") for subject in _SUBJECTS]
    queries += [f"{query} {place}" for query in queries for place in _PLACES]
    random.shuffle(queries)
    return Site(Skewed(pages, PAGES_SKEW), Skewed(pages[:LANDING_PAGES], PAGES_SKEW), Skewed(queries, QUERIES_SKEW))
