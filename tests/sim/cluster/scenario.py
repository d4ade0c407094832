"""One seeded run of a cluster, from empty disks to the verdict.

    partitions are made -> load, with faults and a controller full of whims -> all is healed and calm
    -> everybody in sync, writes are taken -> the load ends -> the final read -> all processes end -> the files

Which settings, faults and clients a seed has is in `plan.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Sequence

from sordini.broker.records.fetch_reading import SERVED_BY_FOLLOWERS
from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.trace import LINES_KEPT, escaped
from sordini.testing.simulation.virtual_loop import Deadlock, Runaway, run
from tests.sim.cluster import groups, secured
from tests.sim.cluster.checkers import Evidence, check
from tests.sim.cluster.clients import LeaderConsumer, LeaderProducer, Observer
from tests.sim.cluster.faults import ClusterFaults
from tests.sim.cluster.node import SESSION_TIMEOUT_MS
from tests.sim.cluster.plan import ClusterScenario
from tests.sim.cluster.world import ClusterWorld
from tests.sim.consumer import Consumer, ConsumerRules
from tests.sim.history import History, Poll
from tests.sim.producer import ProducerRules
from tests.sim.transactions.cast import Cast
from tests.sim.transactions.checkers import check_transactions

START_S = 20.0
SETTLE_S = 15.0
AFTER_S = 1.2
AFTER_LONGER_S = 3.0
"""A secured client needs six round trips more before its first request, and as many again at another broker. A leader that
verifies a transaction may find that its connection to the coordinator is half-open, which takes request.timeout.ms."""
UNDER_LOAD_S = 2.5
"""Seconds of load after the last fault has begun."""
GIVE_UP_S = 8.0
FAULT_GAP_S = 0.9


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """How a run ended."""

    seed: int
    findings: list[str]
    digest: str
    tally: dict[str, int]
    faults: dict[str, int]
    steps: int
    seconds: float
    last_lines: list[str]

    @classmethod
    def of_escaped(cls, seed: int, error: BaseException) -> ClusterVerdict:
        """Of a run that could not be judged."""
        return cls(seed, [escaped(error)], "", {}, {}, 0, 0.0, [])

    def text(self) -> str:
        return "\n".join([f"seed {self.seed}: {len(self.findings)} findings, {self.faults}", *self.findings[:12]])


def run_cluster_seed(plan: ClusterScenario, lines_kept: int | None = LINES_KEPT) -> ClusterVerdict:
    """Run one scenario, and judge it."""
    world = ClusterWorld(
        plan.seed,
        plan.versions,
        plan.settings,
        plan.topic_configs,
        plan.replicas,
        lines_kept,
        is_secured=plan.is_secured,
    )
    story = _Story(world, plan)
    began = world.loop.time()
    try:
        run(world.loop, story.tell())
    except (Exception, Runaway, Deadlock) as error:  # noqa: BLE001 - every way to fail is a finding with a seed.
        story.findings.append(f"the run broke: {error!r}")
    history, controller = world.history, world.controller
    evidence = Evidence(
        history, story.strong, story.observer.marks, world.images, world.final_images, controller.leaders.keys()
    )
    findings = [
        *world.findings,
        *story.findings,
        *(bug for node in world.nodes for bug in node.log.bugs),
        *(f"stray exception: {text}" for text in world.loop.stray),
        *check(evidence),
        *([] if story.groups is None else groups.check_cluster_groups(history, world.coordinators)),
        *([] if story.cast is None else check_transactions(story.cast.history, world.final_images, world.coordinators)),
    ]
    tally = {
        "records acknowledged": sum(producer.acknowledged for producer in story.producers),
        "records polled": sum(len(poll.seen) for poll in history.polls),
        "watermarks looked at": len(story.observer.marks),
        "elections": controller.elections,
        "in-sync sets granted": world.grants.granted,
        "in-sync sets refused": world.grants.refused,
        "acknowledged without a session": sum(
            send.outcome == "ok" and send.producer in story.strong and _is_in(send.ended, story.outages)
            for send in history.sends
        ),
        "read without a session": sum(bool(poll.seen) and _is_in(poll.at, story.outages) for poll in history.polls),
        "logs compared": len(world.images) + len(world.final_images),
        **({} if story.guest is None else {"attempts of guests refused": story.guest.refused}),
        **({} if story.groups is None else story.groups.tally()),
        **({} if story.cast is None else _tally(story.cast, world)),
    }
    return ClusterVerdict(
        seed=plan.seed,
        findings=findings,
        digest=world.trace.digest(),
        tally=tally,
        faults=story.faults,
        steps=world.loop.steps,
        seconds=world.loop.time() - began,
        last_lines=list(world.trace.lines),
    )


def _tally(cast: Cast, world: ClusterWorld) -> dict[str, int]:
    offsets = cast.history.offsets
    superseded = sum(world.coordinators.is_superseded(offset.began, offset.coordinator) for offset in offsets)
    return {
        **cast.tally(),
        "offsets read": len(offsets),
        "offsets read of superseded coordinators": superseded,
        "transactional ids not known to a coordinator": len(cast.history.unknown_ids),
    }


def _is_in(at: float, outages: Sequence[tuple[float, float]]) -> bool:
    """Whether all sessions had expired by then in an outage of the store."""
    return any(began + 2 * SESSION_TIMEOUT_MS / 1000 <= at <= ended for began, ended in outages)


class _Story:
    def __init__(self, world: ClusterWorld, plan: ClusterScenario) -> None:
        self._world = world
        self._plan = plan
        self._now = world.loop.time
        self._addresses = [node.address for node in world.nodes]
        self._topics = {
            partition: world.states.ids[partition.topic]
            for partition in plan.replicas
            if not partition.topic.startswith("__")
        }
        self.findings: list[str] = []
        self.producers: list[LeaderProducer] = []
        self.consumers: list[LeaderConsumer] = []
        self.strong: frozenset[str] = frozenset()
        self.faults: dict[str, int] = {}
        self.outages: list[tuple[float, float]] = []
        self.cast: Cast | None = None
        self.groups: groups.ClusterGroups | None = None
        self.network = world.connections_of(secured.CLIENT)
        self.guest: secured.Guest | None = None
        if plan.is_secured:
            self.guest = secured.Guest(world.network, self._addresses, min(self._topics).topic, plan.seed)
        self.observer = Observer(self.network, world.states, {n.broker_id: n.address for n in world.nodes}, plan.seed)

    async def tell(self) -> None:
        world = self._world
        world.start()
        await self._until(lambda: bool(world.states.all()) and world.controller.is_settled(), START_S, "come up")
        self._people()
        async with asyncio.TaskGroup() as members:
            await self._load_and_judge(members)
        await world.end()

    async def _load_and_judge(self, members: asyncio.TaskGroup) -> None:
        """Everything between the start of the cluster and its end."""
        world, plan = self._world, self._plan
        faults = ClusterFaults(world, plan.faults)
        self.faults, self.outages = faults.struck, faults.outages
        end = self._now() + plan.seconds
        if self.groups is not None:
            self.groups.start(members, end)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work(end + UNDER_LOAD_S))
            await faults.run(end, FAULT_GAP_S)
            world.calm_down()
        await self._until(world.controller.is_settled, SETTLE_S, "have full in-sync sets again")
        calm_from = self._now()
        after_s = AFTER_LONGER_S if plan.is_secured or plan.has_transactions else AFTER_S
        await self._work(calm_from + after_s, is_quiet=True)
        for producer in self.producers:
            if producer.is_answered and producer.last_acknowledged < calm_from:
                self.findings.append(f"I14 {producer.name} had nothing acknowledged in the quiet time")
        if self.cast is not None:
            self.findings += await self.cast.settle(calm_from)
        if self.guest is not None:
            self.findings += self.guest.findings
            if not self.guest.refused:
                self.findings.append("no guest was refused")
        await self._read_all()
        if self.groups is not None:
            ends = {partition: poll.seen[-1].offset + 1 for partition, poll in world.history.final.items() if poll.seen}
            self.findings += await self.groups.settle(calm_from, {**dict.fromkeys(self._topics, 0), **ends})
            self.groups.stop()
        await asyncio.sleep(AFTER_S)

    async def _until(self, is_so: object, seconds_max: float, what: str) -> None:
        assert callable(is_so)
        give_up = self._now() + seconds_max
        while not is_so():
            if self._now() > give_up:
                states = "; ".join(f"{t.partition}: {t.state}" for t in self._world.states.all())
                self.findings.append(f"I14 the partitions did not {what} within {seconds_max} s: {states}")
                return
            await asyncio.sleep(0.1)

    def _people(self) -> None:
        """Producers and a consumer for each partition, and two producers that never send anything twice.

        With transactions: one idempotent producer among the transactional ones, and one consumer of everything.
        """
        source = random.Random(f"cluster load {self._plan.seed}")
        newest = 13 if self._plan.versions.uses_topic_ids else 8
        topics = sorted(self._topics.items())
        world, seed = self._world, self._plan.seed
        if self._plan.has_groups:
            names = tuple(sorted({partition.topic for partition in self._topics}))
            rules = groups.group_rules(seed, names, has_topic_ids=self._plan.versions.uses_topic_ids)
            self.groups = groups.ClusterGroups(self.network, self._addresses, world.history, rules, seed)
        if self._plan.has_transactions:
            self.cast = Cast(self.network, self._addresses, self._topics, world.history, seed)
            self.strong |= {one.name for one in self.cast.ids}
            topics = topics[:1]
        for index, partition in enumerate(topics):
            rules = ProducerRules(
                version=source.choice((3, 7, 9, newest)),
                in_flight=source.choice((1, 3, 5)),
                gap_mean_s=0.12,
                records_max=3,
            )
            self._add_producer(f"all{index}", partition, rules)
            newest_fetch = 13 if self._plan.versions.uses_topic_ids else 10
            reading = ConsumerRules(
                version=source.choice((9, 11, 12, newest_fetch)), incremental=source.random() < 0.5, wait_ms=400
            )
            self._add_consumer(f"c{index}", partition, reading)
        if self.cast is not None:
            return
        for name, acks in (("once", -1), ("weak", source.choice((0, 1)))):
            rules = ProducerRules(idempotent=False, acks=acks, in_flight=3, gap_mean_s=0.2, records_max=2)
            self._add_producer(name, source.choice(topics), rules)

    def _add_producer(self, name: str, partition: tuple[TopicPartition, TopicId], rules: ProducerRules) -> None:
        world, seed = self._world, self._plan.seed
        producer = LeaderProducer(name, self.network, self._addresses, partition, world.history, rules, seed)
        self.producers.append(producer)
        if rules.acks < 0:
            self.strong |= {name}

    def _add_consumer(self, name: str, partition: tuple[TopicPartition, TopicId], rules: ConsumerRules) -> None:
        world, seed = self._world, self._plan.seed
        if self._plan.reads_anywhere:
            rules = dataclasses.replace(rules, version=max(rules.version, SERVED_BY_FOLLOWERS))
        consumer = LeaderConsumer(name, self.network, self._addresses, partition, world.history, rules, seed)
        consumer.reads_anywhere = self._plan.reads_anywhere
        self.consumers.append(consumer)

    async def _work(self, until: float, *, is_quiet: bool = False) -> None:
        async with asyncio.TaskGroup() as group:
            for producer in self.producers:
                group.create_task(producer.run(until, until + GIVE_UP_S))
            for consumer in self.consumers:
                group.create_task(consumer.run(until))
            group.create_task(self.observer.run(until))
            if self.guest is not None:
                group.create_task(self.guest.run(until))
            if self.cast is not None:
                work = self.cast.work_in_quiet if is_quiet else self.cast.work
                for each in work(until, until + GIVE_UP_S):
                    group.create_task(each)

    async def _read_all(self) -> None:
        """Read every partition from its beginning to its end, from its leader."""
        world = self._world
        for partition, topic_id in sorted(self._topics.items()):
            reported = world.states.reported(partition)
            if reported is None or reported.state.leader is None:
                continue
            read, began = History(), self._now()
            address = next(node.address for node in world.nodes if node.broker_id == reported.state.leader)
            rules = ConsumerRules(total_bytes=1 << 20, partition_bytes=1 << 20)
            reader = Consumer("final", self.network, address, {partition: topic_id}, read, rules, 0)
            give_up = began + GIVE_UP_S
            try:
                ends = await reader.ends(give_up)
                await reader.run_to(ends, give_up)
            except (TimeoutError, OSError) as error:
                self.findings.append(f"I14 the final read of {partition} failed: {error!r}")
            seen = tuple(record for poll in read.polls for record in poll.seen)
            high = max((poll.high_watermark for poll in read.polls), default=0)
            world.history.final[partition] = Poll("final", 1, began, self._now(), partition, 0, seen, high)
            world.history.resets += read.resets
