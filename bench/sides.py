"""The two brokers that a part of the benchmark compares: what they are called, and how each is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import starting
from tests.outside.processes import BrokerProcess

Say = Callable[[str], None]
Start = Callable[[Path, dict[str, object]], BrokerProcess]


class Side(NamedTuple):
    """label: in the heads of tables; start: makes a broker in a directory, with settings of its own."""

    label: str
    start: Start


class Sides(NamedTuple):
    theirs: Side
    ours: Side


def both(theirs: str, ours: str, zookeeper: str, *, apache_only: bool) -> Sides:
    def apache_kafka(home: Path, settings: dict[str, object]) -> BrokerProcess:
        return starting.apache_kafka(home, zookeeper, settings)

    return Sides(Side(theirs, apache_kafka), Side(ours, apache_kafka if apache_only else starting.sordini))
