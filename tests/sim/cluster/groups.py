"""The consumer groups of one run of the cluster: members of both protocols, whose coordinator moves.

They read what producers write, and commit; their group's partition of `__consumer_offsets` has replicas, so that each of
its leaders coordinates them with what the ones before have committed. Judged is what members consume and commit (K1 to
K3), what becomes of static members (K5, K6), and whether all groups settle when the faults are over (K4): each partition
has one owner, and everything is read.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.cluster.group_brokers import ClusterBrokers
from tests.sim.cluster.leaderships import Coordinators
from tests.sim.consumption import check_offsets
from tests.sim.group_client import ConsumerMemberRules, LifeRules, MemberRules, Pace, TryAgain
from tests.sim.groups import new_member
from tests.sim.history import History
from tests.sim.member_life import MemberLife
from tests.sim.offsets_client import OffsetsClient
from tests.sim.settled import classic_group_problems, consumer_group_problems
from tests.sim.static_members import check_static_members
from tests.sim.transactions.client import Coordinator
from tests.sim.transactions.producer import GROUP

PACE = Pace(
    session_s=3.0,
    heartbeat_s=0.6,
    rebalance_s=4.0,
    answer_s=1.5,
    join_s=5.0,
    poll_s=0.4,
    metadata_s=1.5,
    backoff_s=0.1,
)
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "600",
    "offsets.commit.timeout.ms": "1500",
}
"""Of the brokers: sessions as short as the run needs them."""
CLASSIC_GROUP, CONSUMER_GROUP, MIXED_GROUP = "classic", "consumer", "mixed"
SETTLED_WITHIN_S = 15.0
"""Two sessions, a join that waits over a dead connection, and a classic member's look at its topics."""
LOOK_S = 0.3
TIMEOUT_S = 1.0


def group_rules(seed: int, topics: tuple[str, ...], *, has_topic_ids: bool) -> tuple[LifeRules, ...]:
    """Members of both protocols, some of them static; of the classic one alone where topics have no ids."""
    source = random.Random(f"cluster groups {seed}")
    classic = [_classic(source, CLASSIC_GROUP, topics, None if number else "c0") for number in range(2)]
    if not has_topic_ids:
        return tuple(classic)
    instance_id = source.choice((None, "k0"))
    consumers = [_consumer(source, CONSUMER_GROUP, topics, None if number else instance_id) for number in range(2)]
    mixed = (
        _classic(source, MIXED_GROUP, topics, None, is_mixed=True),
        _consumer(source, MIXED_GROUP, topics, source.choice((None, "k1"))),
    )
    return (*classic, *consumers, *mixed)


def _classic(
    source: random.Random, group_id: str, topics: tuple[str, ...], instance_id: str | None, *, is_mixed: bool = False
) -> MemberRules:
    return MemberRules(
        group_id,
        topics,
        instance_id,
        join_version=source.choice((5, 7, 9)),
        sync_version=source.choice((3, 4, 5)),
        commit_version=source.choice((7, 8, 9)),
        fetch_version=source.choice((3, 7, 8)),
        commit_gap_s=source.choice((0.3, 1.0)),
        change_gap_s=source.choice((2.5, 5.0)),
        pace=PACE,
        protocol="range",
        is_mixed=is_mixed,
        reads=True,
    )


def _consumer(
    source: random.Random, group_id: str, topics: tuple[str, ...], instance_id: str | None
) -> ConsumerMemberRules:
    return ConsumerMemberRules(
        group_id,
        topics,
        instance_id,
        commit_gap_s=source.choice((0.3, 1.0)),
        change_gap_s=source.choice((2.5, 5.0)),
        pace=PACE,
        slow_revocation_chance=source.choice((0.0, 0.3)),
        names_itself_chance=1.0,
    )


class ClusterGroups:
    """All members of one run."""

    def __init__(
        self,
        network: ClientNetwork,
        addresses: list[Address],
        history: History,
        rules: tuple[LifeRules, ...],
        seed: int,
    ) -> None:
        self._network = network
        self._now = network.loop.time
        self._addresses = addresses
        self._history = history
        groups = history.groups
        self._consumers = sorted({each.group_id for each in rules if isinstance(each, ConsumerMemberRules)})
        self._names = sorted({each.group_id for each in rules})
        groups.consumer_groups |= {*self._names}
        groups.reading_groups |= {*self._names}
        groups.unmixed_groups |= {*self._consumers} - {MIXED_GROUP}
        groups.session_s = PACE.session_s
        self.members: list[MemberLife] = []
        for number, each in enumerate(rules):
            name = f"g{number}"
            brokers = ClusterBrokers(name, network, addresses, each.group_id, seed)
            self.members.append(new_member(name, brokers, groups, each, seed))
        self._tasks: list[asyncio.Task[None]] = []
        self._finders = {name: Coordinator(network, addresses, name, GROUP, f"settled {seed}") for name in self._names}
        self._readers = {name: OffsetsClient("settled", network, groups, name) for name in self._names}

    def start(self, tasks: asyncio.TaskGroup, calm_from: float) -> None:
        """Members live until `stop`, from `calm_from` on without disturbances of their own."""
        self._tasks = [tasks.create_task(member.run(calm_from, float("inf"))) for member in self.members]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for member in self.members:
            member.close()

    async def settle(self, calm_from: float, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Wait until every group is whole and has read everything; what is missing after a while is a finding."""
        give_up = max(calm_from + SETTLED_WITHIN_S, self._now() + 2 * LOOK_S)
        for name in self._names:
            while problems := [*self._unread(name, ends), *await self._look(name, ends)]:
                if self._now() > give_up:
                    return [f"K4 {problem}" for problem in problems]
                await asyncio.sleep(LOOK_S)
        return []

    def _unread(self, name: str, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
        if not self._living(name):
            return
        for partition, end in ends.items():
            consumed = self._history.groups.consumed.get((name, partition), set())
            if missing := sorted(set(range(end)) - consumed):
                yield f"of {partition}, {name} has not read {missing[:5]} and others of {end}"

    async def _look(self, name: str, ends: Mapping[TopicPartition, int]) -> list[str]:
        """Why a group has not settled, by its coordinator; its committed offsets are read as well."""
        try:
            connection = await Connection.open(self._network, await self._finders[name].find(), "settled")
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    problems = await self._problems(connection, name, ends)
                    if not problems:
                        await self._readers[name].fetch(connection, 7, sorted(ends))
                    return problems
            finally:
                connection.close()
        except (OSError, TryAgain, TimeoutError) as error:
            return [f"{name} could not be described: {error!r}"]

    async def _problems(self, connection: Connection, name: str, ends: Mapping[TopicPartition, int]) -> list[str]:
        group: Any
        if name in self._consumers:
            described = ConsumerGroupDescribeRequest(group_ids=[name])
            (group,) = (await connection.request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, described)).groups
            if not group.error_code:
                return [*consumer_group_problems(group, self._living(name), ends)]
        classic = DescribeGroupsRequest(groups=[name])
        (group,) = (await connection.request(ApiKey.DESCRIBE_GROUPS, 5, classic)).groups
        if group.error_code:
            return [f"{name} was not described: {ErrorCode(group.error_code).name}"]
        return [*classic_group_problems(group, self._living(name), ends)]

    def _living(self, name: str) -> list[MemberLife]:
        return [member for member in self.members if member.group_id == name and not member.is_gone]

    def tally(self) -> dict[str, int]:
        groups = self._history.groups
        return {
            "offsets committed by members": sum(commit.outcome == "ok" for commit in groups.commits),
            "commits of the past refused": groups.refused,
            "partitions given to members": len(groups.tenures),
            "records consumed in groups": sum(map(len, groups.consumed.values())),
            "members fenced": groups.fenced_members,
            "claims of instance ids": len(groups.static.claims),
        }


def check_cluster_groups(history: History, coordinators: Coordinators) -> list[str]:
    """All findings of all checkers of groups in a cluster.

    A coordinator that does not know that it is superseded answers reads and heartbeats that change nothing.
    """
    groups = history.groups
    stale = [read for read in groups.reported if coordinators.is_superseded(read.began, read.coordinator)]
    groups.stale = stale
    unknown = {id(read) for read in stale}
    groups.reported = [read for read in groups.reported if id(read) not in unknown]

    def is_interrupted(_group_id: str, began: float, ended: float) -> bool:
        return coordinators.had_superseded_groups(began - groups.session_s, ended)

    return [
        *check_offsets(history),
        *check_static_members(groups.static, groups.tenures, groups.commits, groups.session_s, is_interrupted),
        *(f"G6 {text}" for text in groups.strange),
    ]
