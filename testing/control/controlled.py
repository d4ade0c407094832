"""What endpoints work on: the brokers, and the faults in force by their numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from sordini.system.named_tuple import NamedTuple
from sordini.testing.cluster import BrokerState, Cluster
from sordini.testing.control.fields import Fields, WrongRequest
from sordini.testing.faults.script import Rule
from sordini.testing.kafka import Kafka
from sordini.testing.node_handle import NodeHandle

FAULTS_MAX: Final = 1_000
"""Faults in force."""


class Asked(NamedTuple):
    """A request to an endpoint: the variable parts of its path, and its fields."""

    parts: dict[str, str]
    fields: Fields


class Control:
    """What endpoints work on."""

    def __init__(self, kafka: Kafka, cluster: Cluster) -> None:
        self.kafka = kafka
        self.cluster = cluster
        self.one_at_a_time = threading.Lock()
        """Held by what sends requests to brokers: `Kafka` is used by one thread at a time."""
        self._faults: dict[int, Rule] = {}
        self._numbers = count(1)

    def broker(self, asked: Asked) -> NodeHandle:
        """The broker of a path. Raises WrongRequest."""
        found = next((one for one in self.kafka.brokers if str(one.id) == asked.parts["broker"]), None)
        if found is None:
            allowed = ", ".join(str(one.id) for one in self.kafka.brokers)
            raise WrongRequest(f"there is no broker {asked.parts['broker']!r}", "path", allowed, 404)
        return found

    def state(self, number: int) -> BrokerState:
        return next(state for state in self.cluster.states() if state.id == number)

    def faults(self) -> dict[int, Rule]:
        """Those in force, by their ids."""
        in_force = set(self.cluster.script.rules)
        self._faults = {number: rule for number, rule in self._faults.items() if rule in in_force}
        return self._faults

    def add_faults(self, make: Callable[[], Iterable[Rule]], at_most: int = 1) -> list[tuple[int, Rule]]:
        """Give numbers to the rules that `make` puts in force, which are `at_most` so many. Raises WrongRequest."""
        if len(self.faults()) > FAULTS_MAX - at_most:
            raise WrongRequest(f"{len(self._faults)} faults are in force", "faults", f"{FAULTS_MAX} at a time", 409)
        made = [(next(self._numbers), rule) for rule in make()]
        self._faults.update(made)
        return made

    def fault(self, asked: Asked) -> tuple[int, Rule]:
        """The fault of a path. Raises WrongRequest."""
        given = asked.parts["fault"]
        for number, rule in self.faults().items():
            if str(number) == given:
                return number, rule
        allowed = ", ".join(map(str, self.faults())) or "none: no fault is in force"
        raise WrongRequest(f"there is no fault {given!r}", "path", allowed, 404)
