"""The groups of a run: which there are, their members, and whether they settle when the faults are over (G5)."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Iterator

from sordini.protocol.messages.describe_groups import DescribedGroup
from sordini.protocol.types import TopicPartition
from tests.sim.brokers import Brokers, LoneBroker
from tests.sim.client import Connection
from tests.sim.consumer_member import ConsumerMember
from tests.sim.group_admin import BRIEF_GROUP, FIXED_TOPIC, GROWING_TOPIC, PASSING_TOPIC, GroupAdmin
from tests.sim.group_client import ConsumerMemberRules, LifeRules, MemberRules, TryAgain, partition_counts
from tests.sim.group_history import GroupHistory
from tests.sim.member import Member
from tests.sim.member_life import MemberLife
from tests.sim.poster import POSTS_TOPIC, Poster
from tests.sim.settled import classic_group_problems, consumer_group_problems
from tests.sim.static_consumer_member import StaticConsumerMember
from tests.sim.world import ADDRESS, World

TOPICS = {FIXED_TOPIC: 2, GROWING_TOPIC: 2, PASSING_TOPIC: 2, POSTS_TOPIC: 3}
READING_GROUP, MIXED_GROUP, STATIC_GROUP, LONE_GROUP = "reading", "mixed", "static", "lone"
SETTLED_WITHIN_S = 75.0
"""A join that waits over a dead connection; two sessions, and what lies between: a member that vanished last, and what
it left of a join without an answer."""
CONSUMERS_SETTLED_WITHIN_S = 30.0
"""Groups of consumer protocol members alone: two sessions, after the time in which a dead connection is given up."""
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


def consumer_member_rules(source: random.Random) -> tuple[LifeRules, ...]:
    """Members of the consumer protocol: some in a group that reads, and some beside a classic one."""
    reading = [_consumer(source, READING_GROUP) for _ in range(source.randint(1, 3))]
    mixed = [_consumer(source, MIXED_GROUP) for _ in range(source.randint(1, 2))]
    classic = _dynamic(source, MIXED_GROUP, (POSTS_TOPIC,))
    return (*reading, *mixed, dataclasses.replace(classic, protocol="range", is_mixed=True, reads=True))


def static_member_rules(source: random.Random) -> tuple[LifeRules, ...]:
    """Static members of the consumer protocol: one by itself, or with others, dynamic ones and classic ones among them."""
    if source.random() < 0.4:
        return (dataclasses.replace(_consumer(source, LONE_GROUP), instance_id="lone-0"),)
    group_id = source.choice((STATIC_GROUP, STATIC_GROUP, MIXED_GROUP))
    count = source.randint(1, 2)
    static = [dataclasses.replace(_consumer(source, group_id), instance_id=f"kept-{index}") for index in range(count)]
    return (*static, _consumer(source, group_id)) if group_id == STATIC_GROUP else (*static,)


def _consumer(source: random.Random, group_id: str) -> ConsumerMemberRules:
    return ConsumerMemberRules(
        group_id,
        (POSTS_TOPIC,),
        commit_gap_s=source.choice(COMMIT_GAPS_S),
        change_gap_s=source.choice((6.0, 15.0)),
        slow_revocation_chance=source.choice((0.0, 0.2, 0.5)),
    )


def new_member(name: str, brokers: Brokers, history: GroupHistory, rules: LifeRules, seed: int) -> MemberLife:
    """The member that these rules are for."""
    if isinstance(rules, MemberRules):
        return Member(name, brokers, history, rules, seed)
    assert isinstance(rules, ConsumerMemberRules), rules
    kind = ConsumerMember if rules.instance_id is None else StaticConsumerMember
    return kind(name, brokers, history, rules, seed)


class Groups:
    """All members and the administrator of one run."""

    def __init__(self, world: World, rules: tuple[LifeRules, ...], seed: int) -> None:
        self._world = world
        self._now = world.loop.time
        self.members = [self._member(f"m{index}", each, seed) for index, each in enumerate(rules)]
        consumers = {each.group_id for each in rules if isinstance(each, ConsumerMemberRules)}
        history = world.history.groups
        history.consumer_groups |= consumers
        history.reading_groups |= consumers
        history.unmixed_groups |= consumers - {MIXED_GROUP}
        history.static.lone_groups |= consumers & {LONE_GROUP}
        self.poster = Poster(world.network, ADDRESS, world.history, seed)
        names = sorted({each.group_id for each in rules} - consumers)
        self.admin = GroupAdmin(world.network, ADDRESS, world.history, names, seed)
        self.findings: list[str] = []
        self._unsettled: list[str] = []
        """What was last seen to be missing in groups of consumer protocol members alone."""

    def _member(self, name: str, rules: LifeRules, seed: int) -> MemberLife:
        brokers = LoneBroker(name, self._world.network, ADDRESS)
        return new_member(name, brokers, self._world.history.groups, rules, seed)

    async def run(self, calm_from: float) -> None:
        """Run until a moment, then settle; groups that do not settle are in `findings`."""
        async with asyncio.TaskGroup() as tasks:
            runs = [tasks.create_task(member.run(calm_from, float("inf"))) for member in self.members]
            runs.append(tasks.create_task(self.poster.run(calm_from)))
            await self.admin.run(calm_from, ADMIN_GAP_S)
            await asyncio.sleep(max(0.0, calm_from - self._now()))
            await self._settle(calm_from)
            for run in runs:
                run.cancel()
        for member in self.members:
            member.close()

    async def _settle(self, calm_from: float) -> None:
        """Wait until no generation has changed for longer than a session: until then a member may still expire."""
        problems, last, since = ["not checked yet"], self._generations(), self._now()
        while problems or self._now() < since + STAYS_S:
            if self._unsettled and self._now() > max(calm_from, self._quiet_from()) + CONSUMERS_SETTLED_WITHIN_S:
                self.findings += [f"K4 {problem}" for problem in self._unsettled]
                break
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
                counts = await partition_counts(connection, (FIXED_TOPIC, GROWING_TOPIC, POSTS_TOPIC))
                consumers = await self.admin.describe_consumers(connection, self._world.history.groups.consumer_groups)
                classic = [group.group_id for group in consumers if group.error_code]
                described = [*described, *(await self.admin.describe(connection, classic)).groups]
            finally:
                connection.close()
        except (OSError, TryAgain, TimeoutError) as error:
            return [f"the broker could not be asked: {error!r}"]
        found = [problem for group in described for problem in self._problems(group, counts)]
        self._unsettled = []
        for group in consumers:
            if not group.error_code:
                problems = [*consumer_group_problems(group, self._living(group.group_id), _all(POSTS_TOPIC, counts))]
                found += problems
                if group.group_id in self._world.history.groups.unmixed_groups:
                    self._unsettled += problems
        return found

    def _living(self, group_id: str) -> list[MemberLife]:
        return [member for member in self.members if member.group_id == group_id and not member.is_gone]

    def _problems(self, group: DescribedGroup, counts: dict[str, int]) -> Iterator[str]:
        living = self._living(group.group_id)
        wanted = [
            each for topic in {topic for member in living for topic in member.topics} for each in _all(topic, counts)
        ]
        return classic_group_problems(group, living, wanted)


def _all(topic: str, counts: dict[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(counts[topic])]
