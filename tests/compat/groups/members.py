"""Processes full of group members (member.py), and their reports so far."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.compat.groups.member import Settings
from tests.outside.processes import OutsideProcess, ProcessError

PROGRAM = Path(__file__).with_name("member.py")

Partition = tuple[str, int]


class Run(NamedTuple):
    """Offsets first, first + 1, ..., end - 1 of a partition, read by a member in this order."""

    member: str
    partition: Partition
    first: int
    end: int
    is_after_rebalance: bool
    """Whether the member got a new assignment since its last run of this partition."""


class MemberProcess(OutsideProcess):
    """One process of members. `owned` is empty when the process has ended."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.name = f"members-{settings.name}"
        super().__init__(directory)
        self.settings = settings

    def command(self) -> list[str]:
        return [sys.executable, str(PROGRAM), json.dumps(self.settings._asdict())]

    def is_ready(self) -> bool:
        return len(self.owned()) == self.settings.members

    def events(self) -> list[dict[str, object]]:
        """All whole lines; the last may be cut off by a kill, and libraries print warnings of their own."""
        lines = self.output().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith('{"member"')]

    def owned(self) -> dict[str, frozenset[Partition]]:
        """Member -> what it owns by its own last word."""
        if not self.is_running:
            return {}
        found = (event for event in self.events() if event["event"] == "owned")
        return {str(event["member"]): frozenset(map(tuple, event["partitions"])) for event in found}  # type: ignore[call-overload, arg-type]

    def runs(self) -> Iterator[Run]:
        fresh: dict[tuple[str, Partition], bool] = {}
        for event in self.events():
            member = str(event["member"])
            if event["event"] == "owned":
                fresh = {key: is_fresh for key, is_fresh in fresh.items() if key[0] != member}
            elif event["event"] == "read":
                partition = (str(event["topic"]), int(str(event["partition"])))
                is_fresh = fresh.get((member, partition), True)
                fresh[member, partition] = False
                yield Run(member, partition, int(str(event["first"])), int(str(event["end"])), is_fresh)


def all_owned(processes: Sequence[MemberProcess]) -> list[Partition]:
    """What the members of all these processes own, with repetitions where two own the same."""
    return sorted(one for process in processes for owned in process.owned().values() for one in owned)


def await_shared(processes: Sequence[MemberProcess], partitions: Sequence[Partition], seconds: float = 30) -> None:
    """Wait until these members own each of the partitions once, in about equal shares."""

    def is_shared() -> bool:
        sizes = [len(owned) for process in processes for owned in process.owned().values()]
        is_fair = len(sizes) == sum(one.settings.members for one in processes) and max(sizes) - min(sizes) <= 1
        return is_fair and all_owned(processes) == sorted(partitions)

    try:
        processes[0].wait_until(is_shared, seconds, "come to share the partitions with the others")
    except ProcessError as error:
        held = {member: sorted(owned) for one in processes for member, owned in one.owned().items()}
        raise ProcessError(f"owned: {held}\n{error}") from None
