"""Members of a group as processes that can be stopped, what they wrote down, and the law that it obeys."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess

_PROGRAM = Path(__file__).with_name("member.py")


class Fetch(NamedTuple):
    """One fetch of a partition, on the machine's monotonic clock, in seconds."""

    began_s: float
    ended_s: float
    member: str


class MemberProcess(OutsideProcess):
    """One member, in a process of its own."""

    start_seconds_max = 60.0

    def __init__(self, directory: Path, name: str, topic: str, properties: Mapping[str, object]) -> None:
        super().__init__(directory)
        self.name = name
        self._history = directory / f"{name}.history"
        self._orders = {"properties": dict(properties), "topic": topic, "history": str(self._history)}

    def command(self) -> list[str]:
        return [sys.executable, str(_PROGRAM), json.dumps(self._orders)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": os.pathsep.join([str(ROOT / ".import"), str(ROOT)])}

    def is_ready(self) -> bool:
        return "ready" in self.output()

    def messages(self) -> list[str]:
        """All messages that it has got, in its order."""
        return [line["message"] for line in self._lines() if "message" in line]

    def fetches(self, partition: int) -> list[Fetch]:
        """All fetches, those that were dropped among them."""
        found = (line for line in self._lines() if line.get("fetched") == partition)
        return [Fetch(line["began_s"], line["ended_s"], self.name) for line in found]

    def _lines(self) -> list[dict[str, object]]:
        text = self._history.read_text() if self._history.exists() else ""
        return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def overlaps(members: Iterable[MemberProcess], partitions: Iterable[int]) -> list[tuple[int, Fetch, Fetch]]:
    """Pairs of fetches of one partition by two members at the same time."""
    found = []
    for partition, (one, other) in ((p, pair) for p in partitions for pair in combinations(members, 2)):
        fetches = sorted([*one.fetches(partition), *other.fetches(partition)])
        latest = {one.name: Fetch(0, 0, one.name), other.name: Fetch(0, 0, other.name)}
        for fetch in fetches:
            rival = latest[other.name if fetch.member == one.name else one.name]
            if fetch.began_s < rival.ended_s:
                found.append((partition, rival, fetch))
            if fetch.ended_s > latest[fetch.member].ended_s:
                latest[fetch.member] = fetch
    return found
