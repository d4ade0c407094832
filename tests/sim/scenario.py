"""One seeded run from an empty disk to the verdict.

    topics are made -> producers and consumers, with faults -> a quiet time -> the final read -> stop -> the files

`run_seed` returns what was found and enough figures to see that something was tried at all.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence

from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.trace import LINES_KEPT, escaped
from sordini.testing.simulation.virtual_loop import Deadlock, Runaway, run
from tests.sim.admin import create_topics
from tests.sim.checkers import check
from tests.sim.consumer import Consumer, ConsumerRules
from tests.sim.faults import FAILING, GENTLE, KILLING, PULLING_THE_PLUG, Fault, Faults
from tests.sim.files import index_findings
from tests.sim.final_read import read_all
from tests.sim.group_client import LifeRules
from tests.sim.groups import TOPICS as GROUP_TOPICS
from tests.sim.groups import Groups, consumer_member_rules, member_rules, static_member_rules
from tests.sim.poster import POSTS_TOPIC
from tests.sim.producer import Producer, ProducerRules
from tests.sim.world import ADDRESS, Broker, World

TOPICS = {"audit": 1, "ledger": 1, "orders": 2}
RETENTION = {"retention.bytes", "retention.ms"}
QUIET_S = 8.0
FINAL_S = 30.0
LINES_SHOWN = 40
OF_A_KIND_SHOWN = 3
KIND_CHARACTERS = 40
FAULT_GAP_S = 2.0
CONSUMER_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "3000",
}
"""As the members of classic groups have them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """What one seed stands for."""

    seed: int
    seconds: float
    faults: Sequence[Fault]
    producers: tuple[ProducerRules, ...]
    consumers: tuple[ConsumerRules, ...]
    members: tuple[LifeRules, ...]
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    topics: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def durable_topics(self) -> frozenset[str]:
        return frozenset(name for name, config in self.topics.items() if config.get("flush.messages") == "1")

    @property
    def retained_topics(self) -> frozenset[str]:
        return frozenset(
            name for name, config in self.topics.items() if name != POSTS_TOPIC and config.keys() & RETENTION
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended."""

    seed: int
    findings: list[str]
    digest: str
    acknowledged: int
    polled: int
    faults: dict[str, int]
    steps: int
    seconds: float
    fenced: int
    committed: int
    generations: int
    tenures: int
    """Partitions that members of the consumer protocol were given, and classic members beside them."""
    fenced_members: int
    claims: int
    """Joins of static members of the consumer protocol that were answered."""
    consumed: int
    last_lines: list[str]

    @classmethod
    def of_escaped(cls, seed: int, error: BaseException) -> Verdict:
        """Of a run that could not be judged."""
        return cls(seed, [escaped(error)], "", 0, 0, {}, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, [])

    def text(self) -> str:
        """What a failing test prints: the seed first, then why, then the end of the trace."""
        head = f"seed {self.seed}: {len(self.findings)} findings, faults {self.faults}"
        return "\n".join([head, *self._shown(), "...", *self.last_lines[-LINES_SHOWN:]])

    def _shown(self) -> Iterator[str]:
        """The first findings of each kind: one cause may bring hundreds."""
        kinds: collections.Counter[str] = collections.Counter()
        for finding in self.findings:
            kind = re.sub(r"\d+", "#", finding)[:KIND_CHARACTERS]
            kinds[kind] += 1
            if kinds[kind] <= OF_A_KIND_SHOWN:
                yield finding


def scenario(seed: int) -> Scenario:
    """Seeds go round through killed processes, failing disks, power losses and gentle runs."""
    source = random.Random(f"scenario {seed}")
    faults = (PULLING_THE_PLUG, KILLING, FAILING, PULLING_THE_PLUG, GENTLE)[seed % 5]
    # A power loss may make the broker forget an epoch, and then it may take a batch of the one before.
    zombies = 0.0 if faults is PULLING_THE_PLUG else 0.8
    return Scenario(
        seed=seed,
        seconds=source.uniform(12, 40),
        faults=faults,
        producers=(
            ProducerRules(
                version=source.choice((3, 7, 9, 13)), gap_mean_s=source.choice((0.04, 0.1)), zombie_chance=zombies
            ),
            ProducerRules(version=source.choice((5, 8, 12)), in_flight=source.choice((1, 5)), zombie_chance=zombies),
            ProducerRules(idempotent=False, acks=source.choice((-1, 1, 0)), in_flight=source.choice((1, 3))),
        ),
        consumers=(
            ConsumerRules(version=source.choice((4, 10, 11, 17)), total_bytes=source.choice((2_000, 50_000))),
            ConsumerRules(version=source.choice((7, 11, 12, 13)), incremental=True, wait_ms=500, min_bytes=200),
        ),
        settings=_settings(source),
        topics=_topics(source),
        members=(
            *member_rules(random.Random(f"members {seed}")),
            *consumer_member_rules(random.Random(f"consumer members {seed}")),
            *static_member_rules(random.Random(f"static members {seed}")),
        ),
    )


def _settings(source: random.Random) -> dict[str, str]:
    settings = {
        "num.network.threads": str(source.choice((1, 2, 3))),
        "log.index.size.max.bytes": source.choice(("120", "2048")),
        "sordini.open.segments.max": source.choice(("16", "4096")),
        "offsets.topic.num.partitions": source.choice(("1", "2", "5")),
        "offsets.load.buffer.size": source.choice(("200", "4096", "5242880")),
        "offsets.topic.compression.codec": source.choice(("0", "0", "1")),
        "group.initial.rebalance.delay.ms": source.choice(("0", "1000", "3000")),
        **CONSUMER_SESSIONS,
    }
    if source.random() < 0.5:
        settings["broker.id"] = "7"
    if source.random() < 0.2:
        settings["log.flush.interval.messages"] = "1"
    if source.random() < 0.15:
        # The clock's jumps are longer than this.
        settings |= {"offsets.retention.minutes": "30", "offsets.retention.check.interval.ms": "3000"}
    return settings


def _topics(source: random.Random) -> dict[str, dict[str, str]]:
    """One topic that keeps everything, one that flushes everything, one that forgets, all with small segments."""
    configs = {
        name: {
            "segment.bytes": str(source.choice((6_000, 20_000, 60_000))),
            "index.interval.bytes": source.choice(("0", "1000", "4096")),
        }
        for name in TOPICS
    }
    configs["ledger"]["flush.messages"] = "1"
    if source.random() < 0.7:
        configs["orders"]["retention.bytes"] = str(source.choice((15_000, 60_000)))
    if source.random() < 0.5:
        configs["orders"]["retention.ms"] = str(source.choice((4_000, 600_000)))
    if source.random() < 0.3:
        configs["orders"]["segment.ms"] = "3000"
    if source.random() < 0.3:
        configs["audit"]["flush.ms"] = "1000"
    configs[POSTS_TOPIC] = {"flush.messages": "1", "retention.ms": "-1"}
    return configs


def run_seed(plan: Scenario, build: Callable[[World], Broker], lines_kept: int | None = LINES_KEPT) -> Verdict:
    """Run one scenario on a broker that `build` makes, and judge it."""
    world = World(plan.seed, build, plan.settings, lines_kept)
    world.history.durable_topics = plan.durable_topics
    world.history.retained_topics = plan.retained_topics
    world.history.groups.is_durable = "log.flush.interval.messages" in plan.settings
    world.history.groups.offsets_partitions = int(plan.settings["offsets.topic.num.partitions"])
    if "offsets.retention.check.interval.ms" in plan.settings:
        world.history.groups.empty_for_s = int(plan.settings["offsets.retention.check.interval.ms"]) / 1000
    story = _Story(world, plan)
    began = world.loop.time()
    try:
        run(world.loop, story.tell())
    except (Exception, Runaway, Deadlock) as error:  # noqa: BLE001 - every way to fail is a finding with a seed.
        story.findings.append(f"the run broke: {error!r}")
    findings = [
        *world.findings,
        *story.findings,
        *world.log.bugs,
        *(f"stray exception: {text}" for text in world.loop.stray),
        *check(world.history),
    ]
    return Verdict(
        seed=plan.seed,
        findings=findings,
        digest=world.trace.digest(),
        acknowledged=sum(producer.acknowledged for producer in story.producers),
        polled=sum(len(poll.seen) for poll in world.history.polls),
        faults=story.faults,
        steps=world.loop.steps,
        seconds=world.loop.time() - began,
        fenced=world.history.fenced,
        committed=sum(commit.outcome == "ok" for commit in world.history.groups.commits),
        generations=len({(synced.group_id, synced.generation_id) for synced in world.history.groups.synced}),
        tenures=len(world.history.groups.tenures),
        fenced_members=world.history.groups.fenced_members,
        claims=len(world.history.groups.static.claims),
        consumed=sum(map(len, world.history.groups.consumed.values())),
        last_lines=list(world.trace.lines),
    )


class _Story:
    def __init__(self, world: World, plan: Scenario) -> None:
        self._world = world
        self._plan = plan
        self.findings: list[str] = []
        self.producers: list[Producer] = []
        self.faults: dict[str, int] = {}

    async def tell(self) -> None:
        world, plan = self._world, self._plan
        if not await world.start():
            raise RuntimeError("the broker did not come up on an empty disk")
        world.admit()
        now = world.loop.time
        partitions = {**TOPICS, **GROUP_TOPICS}
        made = await create_topics(world.network, ADDRESS, partitions, plan.topics, now() + 30)
        topics = {partition: topic_id for partition, topic_id in made.items() if partition.topic in TOPICS}
        quiet_from = now() + plan.seconds
        await self._work(topics, quiet_from)
        for producer, rules in zip(self.producers, plan.producers, strict=True):
            if rules.acks != 0 and producer.last_acknowledged < quiet_from:
                self.findings.append(f"I14 {rules} had nothing acknowledged in the quiet time")
        await read_all(world, topics, now() + FINAL_S)
        await world.stop()
        world.history.dumps = world.dumps()
        if not world.findings:  # Else the stop may not have been a clean one.
            self.findings += index_findings(world.disk.visible_tree())

    async def _work(self, topics: dict[TopicPartition, TopicId], quiet_from: float) -> None:
        world, plan = self._world, self._plan
        self.producers = [
            Producer(f"p{index}", world.network, ADDRESS, topics, world.history, rules, plan.seed)
            for index, rules in enumerate(plan.producers)
        ]
        consumers = [
            Consumer(f"c{index}", world.network, ADDRESS, topics, world.history, rules, plan.seed)
            for index, rules in enumerate(plan.consumers)
        ]
        groups = Groups(world, plan.members, plan.seed)
        faults = Faults(world, [*self.producers, *consumers, *groups.members, groups.admin, groups.poster], plan.faults)
        self.faults = faults.struck
        end = quiet_from + QUIET_S
        async with asyncio.TaskGroup() as group:
            group.create_task(groups.run(quiet_from))
            group.create_task(faults.run(quiet_from, FAULT_GAP_S))
            for producer in self.producers:
                group.create_task(producer.run(end, end + QUIET_S))
            for consumer in consumers:
                group.create_task(consumer.run(end + 2))
        self.findings += groups.findings
