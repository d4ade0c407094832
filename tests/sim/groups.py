"""The groups of a run: which there are, their members, and whether they settle when the faults are over (G5)."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import random
from collections.abc import Iterator

from sordini.protocol.messages.describe_groups import DescribedGroup
from sordini.protocol.types import TopicPartition
from tests.sim.assignments import assigned
from tests.sim.client import Connection
from tests.sim.group_admin import BRIEF_GROUP, FIXED_TOPIC, GROWING_TOPIC, PASSING_TOPIC, GroupAdmin
from tests.sim.group_client import MemberRules, TryAgain, partition_counts
from tests.sim.member import Member
from tests.sim.world import ADDRESS, World

TOPICS = {FIXED_TOPIC: 2, GROWING_TOPIC: 2, PASSING_TOPIC: 2}
SETTLED_WITHIN_S = 75.0
"""A join that waits over a dead connection; two sessions, and what lies between: a member that vanished last, and what
it left of a join without an answer."""
LOOK_S = 1.0
STAYS_S = 11.0
ADMIN_GAP_S = 1.5
COMMIT_GAPS_S = (0.6, 1.5, 40.0)
"""A member that rarely commits keeps its session by heartbeats."""


def member_rules(source: random.Random) -> tuple[MemberRules, ...]:
    """Some dynamic members in one group, static and dynamic ones in another, and one by itself."""
    dynamic = [_dynamic(source, "flow", (FIXED_TOPIC, GROWING_TOPIC)) for _ in range(source.randint(1, 3))]
    static = [_static(source, "still", f"still-{index}") for index in range(source.randint(1, 2))]
    brief = dataclasses.replace(_dynamic(source, BRIEF_GROUP, (FIXED_TOPIC,)), commit_gap_s=0.6, change_gap_s=2.0)
    return (*dynamic, *static, _dynamic(source, "still", (GROWING_TOPIC,)), brief)


def _dynamic(source: random.Random, group_id: str, topics: tuple[str, ...]) -> MemberRules:
    return MemberRules(
        group_id,
        topics,
        join_version=source.choice((1, 2, 3, 4, 5, 7, 9, 9)),
        sync_version=source.choice((0, 2, 4, 5)),
        commit_version=source.choice((2, 5, 7, 9)),
        fetch_version=source.choice((1, 3, 5, 7, 8, 9)),
        commit_gap_s=source.choice(COMMIT_GAPS_S),
        change_gap_s=source.choice((6.0, 15.0)),
    )


def _static(source: random.Random, group_id: str, instance_id: str) -> MemberRules:
    return MemberRules(
        group_id,
        (GROWING_TOPIC,),
        instance_id,
        join_version=source.choice((5, 7, 9)),
        sync_version=source.choice((3, 5)),
        commit_version=source.choice((7, 9)),
        fetch_version=source.choice((3, 7, 8)),
        commit_gap_s=source.choice(COMMIT_GAPS_S),
        change_gap_s=source.choice((6.0, 15.0)),
    )


class Groups:
    """All members and the administrator of one run."""

    def __init__(self, world: World, rules: tuple[MemberRules, ...], seed: int) -> None:
        self._world = world
        self._now = world.loop.time
        self.members = [
            Member(f"m{index}", world.network, ADDRESS, world.history.groups, each, seed)
            for index, each in enumerate(rules)
        ]
        names = sorted({each.group_id for each in rules})
        self.admin = GroupAdmin(world.network, ADDRESS, world.history, names, seed)
        self.findings: list[str] = []

    async def run(self, calm_from: float) -> None:
        """Run until a moment, then settle; groups that do not settle are in `findings`."""
        async with asyncio.TaskGroup() as tasks:
            runs = [tasks.create_task(member.run(calm_from, float("inf"))) for member in self.members]
            await self.admin.run(calm_from, ADMIN_GAP_S)
            await asyncio.sleep(max(0.0, calm_from - self._now()))
            await self._settle(calm_from)
            for run in runs:
                run.cancel()
        for member in self.members:
            if member.connection is not None:
                member.connection.close()

    async def _settle(self, calm_from: float) -> None:
        """Wait until no generation has changed for longer than a session: until then a member may still expire."""
        problems, last, since = ["not checked yet"], self._generations(), self._now()
        while problems or self._now() < since + STAYS_S:
            if self._now() > max(calm_from, self._quiet_from()) + SETTLED_WITHIN_S:
                problems = problems or [f"generations go on, to {last}"]
                break
            await asyncio.sleep(LOOK_S)
            problems = await self._look()
            generations = self._generations()
            if problems or generations != last:
                last, since = generations, self._now()
        self.findings += [f"G5 {problem}" for problem in problems]

    def _quiet_from(self) -> float:
        """The last fault may have ended later than it should."""
        return max((restart.back for restart in self._world.history.restarts), default=0.0)

    def _generations(self) -> list[int]:
        return [member.generation_id for member in self.members if not member.is_gone]

    async def _look(self) -> list[str]:
        try:
            connection = await Connection.open(self._world.network, ADDRESS, "settled")
            try:
                described = (await self.admin.describe(connection)).groups
                counts = await partition_counts(connection, (FIXED_TOPIC, GROWING_TOPIC))
            finally:
                connection.close()
        except (OSError, TryAgain, TimeoutError) as error:
            return [f"the broker could not be asked: {error!r}"]
        return [problem for group in described for problem in self._problems(group, counts)]

    def _problems(self, group: DescribedGroup, counts: dict[str, int]) -> Iterator[str]:
        living = [member for member in self.members if member.rules.group_id == group.group_id and not member.is_gone]
        if not living:
            if group.group_state not in ("Empty", "Dead"):
                yield f"{group.group_id} has no members, and is {group.group_state}"
            return
        if group.group_state != "Stable":
            yield f"{group.group_id} is {group.group_state}"
            return
        shares = {member.member_id: assigned(bytes(member.member_assignment)) for member in group.members}
        topics = {topic for member in living for topic in member.rules.topics}
        wanted = {TopicPartition(topic, number): 1 for topic in topics for number in range(counts[topic])}
        owned = collections.Counter(partition for share in shares.values() for partition in share)
        if owned != wanted:
            yield f"of {group.group_id}, {sorted(owned.items())} are owned, of {sorted(wanted)}"
        for member in living:
            if member.is_about_to_look:
                yield f"{member.member_id} of {group.group_id} does not know yet whether that is all"
            if member.assignment is None or shares.get(member.member_id) != member.assignment:
                yield f"{member.member_id} of {group.group_id} has {member.assignment}, and the broker says {shares}"
        if len(shares) != len(living):
            yield f"{group.group_id} has {len(shares)} members, and {len(living)} are alive"
