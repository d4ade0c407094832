"""One seeded run from an empty disk to the verdict.

    topics are made -> producers and consumers, with faults -> a quiet time -> the final read -> stop -> the files

`run_seed` returns what was found and enough figures to see that something was tried at all.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Sequence

from sordini.protocol.types import TopicId, TopicPartition
from tests.sim.admin import create_topics
from tests.sim.checkers import check
from tests.sim.consumer import Consumer, ConsumerRules
from tests.sim.faults import GENTLE, KILLING, PULLING_THE_PLUG, Fault, Faults
from tests.sim.history import History, Poll
from tests.sim.loop import Deadlock, Runaway, run
from tests.sim.producer import Producer, ProducerRules
from tests.sim.world import ADDRESS, Broker, World

TOPICS = {"orders": 2, "audit": 1}
TOPIC_CONFIGS = {"segment.bytes": "30000", "index.interval.bytes": "1000"}
QUIET_S = 8.0
FINAL_S = 30.0
LINES_SHOWN = 40
FAULT_GAP_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """What one seed stands for."""

    seed: int
    seconds: float
    faults: Sequence[Fault]
    producers: tuple[ProducerRules, ...]
    consumers: tuple[ConsumerRules, ...]


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
    last_lines: list[str]

    def text(self) -> str:
        """What a failing test prints: the seed first, then why, then the end of the trace."""
        head = f"seed {self.seed}: {len(self.findings)} findings, faults {self.faults}"
        return "\n".join([head, *self.findings[:20], "...", *self.last_lines[-LINES_SHOWN:]])


def scenario(seed: int) -> Scenario:
    """Seeds go round through gentle runs, runs with killed processes and runs with power losses."""
    source = random.Random(f"scenario {seed}")
    return Scenario(
        seed=seed,
        seconds=source.uniform(12, 30),
        faults=(KILLING, PULLING_THE_PLUG, GENTLE)[seed % 3],
        producers=(
            ProducerRules(version=source.choice((3, 7, 9, 13)), gap_mean_s=source.choice((0.04, 0.1))),
            ProducerRules(version=source.choice((5, 8, 12)), in_flight=source.choice((1, 5))),
            ProducerRules(idempotent=False, acks=source.choice((-1, 1, 0)), in_flight=source.choice((1, 3))),
        ),
        consumers=(
            ConsumerRules(version=source.choice((4, 10, 11, 17)), total_bytes=source.choice((2_000, 50_000))),
            ConsumerRules(version=source.choice((7, 11, 12, 13)), incremental=True, wait_ms=500, min_bytes=200),
        ),
    )


def run_seed(plan: Scenario, build: Callable[[World], Broker]) -> Verdict:
    """Run one scenario on a broker that `build` makes, and judge it."""
    world = World(plan.seed, build)
    story = _Story(world, plan)
    try:
        run(world.loop, story.tell())
    except (Exception, Runaway, Deadlock) as error:  # noqa: BLE001 - every way to fail is a finding with a seed.
        story.findings.append(f"the run broke: {error!r}")
    findings = story.findings + [f"stray exception: {text}" for text in world.loop.stray] + check(world.history)
    return Verdict(
        seed=plan.seed,
        findings=findings,
        digest=world.trace.digest(),
        acknowledged=sum(producer.acknowledged for producer in story.producers),
        polled=sum(len(poll.seen) for poll in world.history.polls),
        faults=story.faults,
        steps=world.loop.steps,
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
        await world.start()
        world.admit()
        now = world.loop.time
        topics = await create_topics(world.network, ADDRESS, TOPICS, TOPIC_CONFIGS, now() + 30)
        quiet_from = now() + plan.seconds
        await self._work(topics, quiet_from)
        for producer, rules in zip(self.producers, plan.producers, strict=True):
            if rules.acks != 0 and producer.last_acknowledged < quiet_from:
                self.findings.append(f"I14 {rules} had nothing acknowledged in the quiet time")
        await self._read_all(topics, now() + FINAL_S)
        await world.stop()
        world.history.dumps = world.dumps()

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
        faults = Faults(world, [*self.producers, *consumers], plan.faults)
        end = quiet_from + QUIET_S
        async with asyncio.TaskGroup() as group:
            group.create_task(faults.run(quiet_from, FAULT_GAP_S))
            for producer in self.producers:
                group.create_task(producer.run(end, end + QUIET_S))
            for consumer in consumers:
                group.create_task(consumer.run(end + 2))
        self.faults = faults.struck

    async def _read_all(self, topics: dict[TopicPartition, TopicId], give_up: float) -> None:
        world = self._world
        read = History()
        reader = Consumer("final", world.network, ADDRESS, topics, read, ConsumerRules(total_bytes=1 << 20), 0)
        began = world.loop.time()
        ends = await reader.ends(give_up)
        await reader.run_to(ends, give_up)
        for partition, end in ends.items():
            seen = tuple(record for poll in read.polls if poll.partition == partition for record in poll.seen)
            world.history.final[partition] = Poll("final", 1, began, world.loop.time(), partition, 0, seen, end)
