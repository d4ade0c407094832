"""One run: a plan is carried out on a loop of its own, and judged.

    cluster up ── applications, load and faults, for `duration` ── repaired ── until at rest, `calm` at most ── judged

The second half is what finds an application that a fault has left hanging: with every broker up and every link whole,
it must come to rest, which is what `settled` asserts.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.app import App, AppInstance, is_clients_own
from sordini.testing.simulation.app_loop import AppLoop, OutOfTime
from sordini.testing.simulation.cluster import SimCluster
from sordini.testing.simulation.faults import Striker
from sordini.testing.simulation.replaced_modules import machine_replaced, quiet_finalisers
from sordini.testing.simulation.scenario import Scenario
from sordini.testing.simulation.schedule import Fault
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.transcript import Transcript, TranscriptHandler
from sordini.testing.simulation.virtual_loop import Deadlock, Runaway

Settled = Callable[[Scenario], Awaitable[object]]
"""Raises AssertionError while the application is not at rest, or has done something wrong."""
STEPS_PER_S: Final = 20_000
"""Turns of the loop per virtual second: beyond this something spins."""
STEPS_LEAST: Final = 3_000_000
TRACEBACK_SHOWN: Final = 3_000
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 20.0
"""Between two checks whether the application is at rest."""
LOAD_GRACE_S: Final = 150.0
"""The load may take so much longer than `duration`."""
FAILURES_FORGIVEN_S: Final = 60.0
"""An instance may end with an exception so long after the last fault: requests time out, and it starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run: the same plan gives the same run, down to each system call."""

    app: App
    seed: int
    schedule: tuple[Fault, ...]
    duration: float
    calm: float
    brokers: int
    instances: int
    topics: Mapping[str, int]
    load: App | None
    settled: Settled | None
    config: Mapping[str, str]
    blocked_max_s: float | None
    log_level: int = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended."""

    findings: list[str]
    digest: str
    """Equal for two runs that did the same."""
    virtual_s: float
    cpu_s: float
    steps: int
    lines: list[str] = field(repr=False)


def run_plan(plan: Plan, end_s: float | None = None) -> Outcome:
    """Carry a plan out. Raises SimulationNested inside a running loop, and OutOfTime when it has not ended at `end_s`
    of the machine's monotonic clock.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise SimulationNested
    with quiet_finalisers():
        return _carried_out(plan, end_s)


def _carried_out(plan: Plan, end_s: float | None) -> Outcome:
    began_cpu_s = time.process_time()
    steps_max = max(STEPS_LEAST, int((plan.duration + plan.calm) * STEPS_PER_S))
    loop = AppLoop(plan.seed, steps_max=steps_max)
    loop.end_s = end_s
    try:
        run = _Run(plan, loop)
        with machine_replaced(loop, plan.seed), _logged(run.transcript, plan.log_level):
            try:
                loop.run_until_complete(run.tell())
            except OutOfTime:  # Raised by the loop itself: no code of the application saw it.
                loop.end_s = None
                loop.finish()
                raise
            except (Exception, Deadlock, Runaway) as error:  # noqa: BLE001 - every way to fail is a finding of the seed.
                where = "".join(traceback.format_exception(error))[-TRACEBACK_SHOWN:]
                run.findings.append(f"the run broke: {error!r}\n{where}")
            outcome = Outcome(
                findings=run.judge(),
                digest=run.trace.digest(),
                virtual_s=loop.elapsed_s,
                cpu_s=time.process_time() - began_cpu_s,
                steps=loop.steps,
                lines=run.transcript.lines,
            )
            loop.finish()
    finally:
        loop.close()
    return outcome


class SimulationNested(Exception):
    """`simulate` runs a loop of its own, and cannot be called in a coroutine."""


class _Run:
    def __init__(self, plan: Plan, loop: AppLoop) -> None:
        self.findings: list[str] = []
        self.trace = Trace(loop, lines_kept=1)
        self.transcript = Transcript(self._elapsed_s)
        self._plan = plan
        self._loop = loop
        self._began_s = loop.time()
        self._cluster = SimCluster(plan.brokers, plan.config, loop, self.trace, self.transcript, plan.seed)
        self._scenario = Scenario(plan.seed, self._cluster.bootstrap_servers, self.transcript, self._elapsed_s)
        self._instances = {
            number: AppInstance(number, plan.app, self._scenario, loop, self.transcript, has_faults=bool(plan.schedule))
            for number in range(1, plan.instances + 1)
        }
        self._calm_from_s: float | None = None

    async def tell(self) -> None:
        """The whole run, which ends early when the application uses what is not simulated."""
        main = asyncio.current_task()
        assert main is not None

        def refused(text: str) -> None:
            self.transcript.note("test", f"the run ends: {text}")
            self._loop.outside_at(self._loop.time(), _cancel, main)

        self._loop.refusals.on_first = refused
        try:
            await self._carried_out()
        except asyncio.CancelledError:
            if not self._loop.refusals.findings:
                raise

    async def _carried_out(self) -> None:
        plan, loop = self._plan, self._loop
        test = loop.process("test.1")
        await self._cluster.start()
        if plan.topics:
            await test.spawn(self._scenario.create_topics(plan.topics))
        self._began_s = loop.time()
        for instance in self._instances.values():
            instance.start()
        load = None if plan.load is None else test.spawn(_called(plan.load, self._scenario))
        striker = Striker(loop, self._cluster, self._instances, self.transcript)
        await striker.run(plan.schedule, self._began_s)
        await asyncio.sleep(max(0.0, self._began_s + plan.duration - loop.time()))
        self._repair()
        if load is not None:
            await self._finish(load)
        await self._come_to_rest(test)
        await test.spawn(self._scenario.close())

    def judge(self) -> list[str]:
        """What was wrong; call it once the run is over."""
        longest_s, who = self._loop.longest_block
        limit_s = self._plan.blocked_max_s
        late = (
            []
            if self._calm_from_s is None
            else [
                f"{failure.text}, {failure.at_s - self._calm_from_s:.1f} s after the last fault"
                for instance in self._instances.values()
                for failure in instance.failures
                if failure.at_s > self._calm_from_s + FAILURES_FORGIVEN_S
            ]
        )
        gc.collect()  # An exception is reported as not awaited when its task is collected.
        return [
            *self._loop.refusals.findings,
            *self.findings,
            *self._scenario.findings,
            *([f"{who} blocked its loop for {longest_s:g} s"] if limit_s is not None and longest_s > limit_s else []),
            *late[:1],
            *(
                f"a task ended with an exception that nothing awaited: {text}"
                for file, text in [*self._loop.unawaited, *self._loop.unnoticed()]
                if file and not is_clients_own(file)
            ),
            *(f"a mistake of the broker, please report it: {text}" for text in self._cluster.bugs),
        ]

    def _repair(self) -> None:
        """No fault any more: what is down is started."""
        self._calm_from_s = self._scenario.elapsed_s
        self.transcript.note("fault", "none any more")
        self._cluster.network.heal()
        for broker in self._cluster.brokers.values():
            broker.start()
        for instance in self._instances.values():
            instance.start()

    async def _finish(self, load: asyncio.Task[None]) -> None:
        done, _ = await asyncio.wait([load], timeout=LOAD_GRACE_S)
        if not done:
            self.findings.append(f"the load has not ended {LOAD_GRACE_S:g} s after the last fault")
            load.cancel()
            await asyncio.wait([load])
        elif load.exception() is not None:
            error = load.exception()
            self.findings.append(f"the load ended with {error!r}")

    async def _come_to_rest(self, test: LoopProcess) -> None:
        """Check again and again; the last reason why it is not at rest is the finding."""
        settled = self._plan.settled or groups_have_read_everything
        end = self._loop.time() + self._plan.calm
        reason, pause_s = "", FIRST_PAUSE_S
        while self._loop.time() < end and not self._scenario.findings:
            check = test.spawn(_called_settled(settled, self._scenario))
            await asyncio.wait([check], timeout=max(0.0, end - self._loop.time()))
            if not check.done():
                check.cancel()
                await asyncio.wait([check])
                reason = reason or "the check did not end"
                break
            error = check.exception()
            if error is None:
                self.transcript.note("test", "at rest")
                return
            reason = str(error) if isinstance(error, AssertionError) else repr(error)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        if not self._scenario.findings:
            self.findings.append(f"not at rest {self._plan.calm:g} s after the last fault: {reason}")

    def _elapsed_s(self) -> float:
        return self._loop.time() - self._began_s


async def groups_have_read_everything(scenario: Scenario) -> None:
    """At rest is an application whose groups have committed the offset behind the last record of each partition."""
    for group in await scenario.groups():
        unread = await scenario.unread(group)
        if unread:
            # Not by an assert statement: pytest would rewrite it, as those of all plugins.
            first = f"{unread[0].topic}-{unread[0].partition}@{unread[0].offset}"
            raise AssertionError(f"group {group} has not committed {len(unread)} records: the first is {first}")


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _called(app: App, scenario: Scenario) -> None:
    await app(scenario.bootstrap_servers, scenario)


async def _called_settled(settled: Settled, scenario: Scenario) -> None:
    await settled(scenario)


@contextlib.contextmanager
def _logged(transcript: Transcript, level: int) -> Iterator[None]:
    handler = TranscriptHandler(transcript, level)
    root = logging.getLogger()
    before = root.level
    root.handlers.insert(0, handler)  # Before others, which may keep what they get.
    root.setLevel(min(level, before))
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
