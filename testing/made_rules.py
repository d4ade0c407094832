"""The rules that a test has made: its mistakes in them are raised at its end, or as soon as it waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import FrameType

from sordini.testing.cluster import Cluster
from sordini.testing.faults.names import ApiName
from sordini.testing.faults.script import REMOVED_MAX, Rule
from sordini.testing.faults.validation import rule


class MadeRules:
    """Those of one test, oldest first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._unchecked: deque[Rule] = deque(maxlen=REMOVED_MAX)

    def add(
        self,
        api: ApiName,
        selected: Mapping[str, object],
        brokers: Iterable[int],
        times: int | None,
        after: int,
        caller: FrameType,
    ) -> Rule:
        """Make a rule. A mistake in it is reported with the line of the caller. Raises ValueError."""
        made_at = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        made = rule(self._cluster.script, api, selected, list(brokers), times, after, made_at)
        self._unchecked.append(made)
        return made

    def check(self) -> None:
        """Raise what a `when` has raised, and ValueError for a rule that does nothing; each rule is checked once."""
        made = list(self._unchecked)
        self._unchecked.clear()
        for each in made:
            each.check()

    def check_mistakes(self) -> None:
        """Raise what a `when` has raised so far: what a test waits for may never come."""
        for each in self._unchecked:
            if each.mistake is not None:
                each.check()

    def forget(self) -> None:
        """Those until now are of an earlier test."""
        self._unchecked.clear()
