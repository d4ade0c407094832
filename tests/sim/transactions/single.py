"""One seeded run of transactions on a single broker: its process ends in every way, and its disk forgets.

    topics are made -> transactions, with faults -> a quiet time -> the final read -> stop -> the files

In seeds that lose their power every message is flushed: what is acknowledged then survives.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import random
from collections.abc import Sequence

from sordini.testing.simulation.trace import LINES_KEPT, escaped
from sordini.testing.simulation.virtual_loop import Deadlock, Runaway, run
from tests.sim.admin import create_topics
from tests.sim.broker import SimBroker
from tests.sim.checkers import check
from tests.sim.cluster.images import images_of
from tests.sim.faults import Fault, Faults
from tests.sim.final_read import read_all
from tests.sim.transactions.cast import Cast
from tests.sim.transactions.checkers import check_transactions
from tests.sim.world import ADDRESS, LOG_DIRECTORIES, World

TOPICS = {"ledger": 1, "orders": 2}
STRUCK: tuple[Fault, ...] = (
    *("reset", "half_open", "slow_link", "disk_full", "short_write", "pause", "slow_loading"),
    *("stop", "kill", "kill", "die_writing", "die_starting", "die_stopping"),
)
POWER_STRUCK: tuple[Fault, ...] = (*STRUCK, "power", "power", "power_starting", "power_retrying")
FAULT_GAP_S = 1.2
UNDER_LOAD_S = 1.0
QUIET_S = 1.5
GIVE_UP_S = 10.0
FINAL_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class SingleScenario:
    """What one seed stands for."""

    seed: int
    seconds: float
    faults: Sequence[Fault]
    settings: dict[str, str]
    topics: dict[str, dict[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class SingleVerdict:
    """How a run ended."""

    seed: int
    findings: list[str]
    digest: str
    tally: dict[str, int]
    faults: dict[str, int]
    seconds: float
    last_lines: list[str]

    @classmethod
    def of_escaped(cls, seed: int, error: BaseException) -> SingleVerdict:
        """Of a run that could not be judged."""
        return cls(seed, [escaped(error)], "", {}, {}, 0.0, [])

    def text(self) -> str:
        return "\n".join([f"seed {self.seed}: {len(self.findings)} findings, {self.faults}", *self.findings[:12]])


def single_scenario(seed: int) -> SingleScenario:
    source = random.Random(f"transactions on one broker {seed}")
    loses_power = seed % 2 == 1
    settings = {
        "transaction.state.log.num.partitions": str(source.choice((1, 3))),
        "transaction.state.log.load.buffer.size": source.choice(("200", "5242880")),
        "offsets.topic.num.partitions": "1",
        # A full disk makes a log roll, and what is superseded would be compacted: the fate of each offset is judged.
        "log.cleaner.enable": "false",
        "log.index.size.max.bytes": source.choice(("120", "2048")),
        "num.network.threads": str(source.choice((1, 2))),
    }
    if loses_power:
        settings["log.flush.interval.messages"] = "1"
    topics = {
        topic: {
            "segment.bytes": str(source.choice((2_000, 8_000, 60_000))),
            "index.interval.bytes": source.choice(("0", "1000", "4096")),
        }
        for topic in TOPICS
    }
    return SingleScenario(seed, source.uniform(6, 12), POWER_STRUCK if loses_power else STRUCK, settings, topics)


def run_single_seed(plan: SingleScenario, lines_kept: int | None = LINES_KEPT) -> SingleVerdict:
    """Run one scenario, and judge it."""
    world = World(plan.seed, SimBroker, plan.settings, lines_kept)
    if "log.flush.interval.messages" in plan.settings:
        world.history.durable_topics = frozenset(TOPICS)
    story = _Story(world, plan)
    began = world.loop.time()
    try:
        run(world.loop, story.tell())
    except (Exception, Runaway, Deadlock) as error:  # noqa: BLE001 - every way to fail is a finding with a seed.
        story.findings.append(f"the run broke: {error!r}")
    tree, at = world.disk.visible_tree(), world.loop.time()
    images = [image for where in LOG_DIRECTORIES for image in images_of(0, at, where, tree).values()]
    findings = [
        *world.findings,
        *story.findings,
        *world.log.bugs,
        *(f"stray exception: {text}" for text in world.loop.stray),
        *check(world.history),
        *([] if story.cast is None else check_transactions(story.cast.history, images)),
    ]
    tally = {} if story.cast is None else story.cast.tally()
    seconds = world.loop.time() - began
    return SingleVerdict(
        plan.seed, findings, world.trace.digest(), tally, story.faults, seconds, list(world.trace.lines)
    )


def run_one(seed: int) -> SingleVerdict:
    """One seed's verdict, without its trace."""
    try:
        verdict = dataclasses.replace(run_single_seed(single_scenario(seed), 1), last_lines=[])
    except Exception as error:  # noqa: BLE001 - the other seeds are run all the same.
        verdict = SingleVerdict.of_escaped(seed, error)
    gc.collect()  # A world is one large reference cycle.
    return verdict


class _Story:
    def __init__(self, world: World, plan: SingleScenario) -> None:
        self._world = world
        self._plan = plan
        self.findings: list[str] = []
        self.faults: dict[str, int] = {}
        self.cast: Cast | None = None

    async def tell(self) -> None:
        world, plan = self._world, self._plan
        if not await world.start():
            raise RuntimeError("the broker did not come up on an empty disk")
        world.admit()
        now = world.loop.time
        topics = await create_topics(world.network, ADDRESS, TOPICS, plan.topics, now() + 30)
        cast = self.cast = Cast(world.network, [ADDRESS], topics, world.history, plan.seed)
        faults = Faults(world, [], plan.faults)
        self.faults = faults.struck
        end = now() + plan.seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(faults.run(end, FAULT_GAP_S))
            for each in cast.work(end + UNDER_LOAD_S, end + GIVE_UP_S):
                group.create_task(each)
        calm_from = now()
        async with asyncio.TaskGroup() as group:
            for each in cast.work_in_quiet(calm_from + QUIET_S, calm_from + GIVE_UP_S):
                group.create_task(each)
        self.findings += await cast.settle(calm_from)
        await read_all(world, topics, now() + FINAL_S)
        await world.stop()
        world.history.dumps = world.dumps()
