"""Carrying out a plan to move partitions: begun, watched until it is done, and taken up again after an interruption.

The moves are the cluster's: they go on whether or not a command watches them. So a command that is given a plan first
finds out what is done or under way, lets only the rest begin, and watches all of it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from sordini.broker.clock import Clock, SystemClock
from sordini.cli.cluster import Cluster
from sordini.cli.commands.reassign.plan_progress import PlanProgress, fetch_progress, held_replicas_texts
from sordini.cli.commands.reassign.reassign_requests import (
    MoveRow,
    all_names,
    fetch_assignments,
    move,
    remove_throttles,
    set_throttles,
)
from sordini.cli.commands.reassign.reassignment_plan import MoveState, ReassignmentPlan, emptied_brokers, move_state
from sordini.cli.common.options import Client, Failure
from sordini.cli.common.output import ProgressLine, print_json, size_text
from sordini.cli.common.terminal import echo, is_terminal
from sordini.protocol.printable import counted
from sordini.protocol.types import BrokerId, TopicPartition

PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0
"""Between two looks: the pause doubles up to this."""
LINE_MS: Final = 5_000
"""Between two lines of progress where standard error is no terminal."""
STRAY_POLLS_MAX: Final = 5
"""In so many looks one after another a partition neither moves nor has arrived: then it has left the plan.

A broker's metadata say a little later than the list of moves that one has ended.
"""

MOVES_CONTINUE: Final = (
    "moves that have begun go on in the cluster, and throttles stay until they end; the same command goes on watching"
)
WORDS: Final = {
    "begun": "goes to",
    MoveState.MOVING.value: "is on the way already, to",
    MoveState.DONE.value: "is there already, on",
}
"""What is said of a partition when the command has begun."""


class Display:
    """Progress on standard error: one line that is written over on a terminal, else a line now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moving_line = ProgressLine(clock) if is_terminal(sys.stderr) else None
        self._last: tuple[int, str] | None = None

    def show(self, text: str) -> None:
        if self._moving_line is not None:
            self._moving_line.show(text[: shutil.get_terminal_size().columns - 1])  # One that wraps cannot be cleared.
            return
        now_ms = self._clock.monotonic_ms()
        if self._last is None or (now_ms - self._last[0] >= LINE_MS and text != self._last[1]):
            self._last = now_ms, text
            echo(text, err=True)

    def clear(self) -> None:
        if self._moving_line is not None:
            self._moving_line.clear()


class ExecutionOptions(NamedTuple):
    """How a plan is to be carried out."""

    bytes_per_second: int | None
    is_watched: bool
    removes_throttles: bool
    """Whether throttles are taken away at the end."""


def execute_plan(client: Client, plan: ReassignmentPlan, wanted: ExecutionOptions) -> None:
    """Begin, watch and finish a plan, and say so. Raises Failure, and KeyboardInterrupt after a last word."""
    clock = SystemClock()
    display = Display(clock)

    async def execute(cluster: Cluster) -> None:
        began_ms = clock.monotonic_ms()
        rows, empty = await client.within_timeout(cluster, begin(cluster, plan, wanted.bytes_per_second))
        errors = _print_rows(client, rows)
        refused = {TopicPartition(row["topic"], row["partition"]) for row in rows if row["error"] is not None}
        accepted = {one: target for one, target in plan.items() if one not in refused}
        if wanted.is_watched and (accepted or wanted.bytes_per_second is not None):
            if accepted and errors:
                for error in errors:  # At once: the end may be hours away.
                    echo(f"sordini: {error}", err=True)
                errors = [f"{len(errors)} of {counted(len(plan), 'partition')} refused"]
            look = await _watch_displayed(client, cluster, accepted, empty, display)
            is_free = wanted.removes_throttles and await _remove_throttles_if_idle(client, cluster, plan, look)
            check(look)
            if accepted and not client.as_json:
                said = wanted.bytes_per_second is not None and is_free
                echo(_summary(look, clock.monotonic_ms() - began_ms) + ("; no throttle is left" if said else ""))
        if errors:
            raise Failure(*errors)

    try:
        asyncio.run(client.without_timeout(execute))
    except KeyboardInterrupt:
        display.clear()
        echo(f"interrupted: {MOVES_CONTINUE}, and `sordini reassign cancel` takes them back", err=True)
        raise
    finally:
        display.clear()


async def begin(
    cluster: Cluster, plan: ReassignmentPlan, bytes_per_second: int | None
) -> tuple[list[MoveRow], list[BrokerId]]:
    """Let what is neither done nor under way begin to move, under a throttle.

    A row for each partition of the plan, and the brokers that the plan empties.
    """
    _, now = await fetch_assignments(cluster, sorted({topic for topic, _ in plan}))
    states = {one: move_state(target, now.get(one)) for one, target in plan.items()}
    if bytes_per_second is not None:
        slowed = {one: plan[one] for one, state in states.items() if one in now and state is not MoveState.DONE}
        if slowed:
            echo(f"copying takes at most {size_text(bytes_per_second)} a second of each broker", err=True)
            await set_throttles(cluster, slowed, {one: now[one].origin for one in slowed}, bytes_per_second)
    beginning = {one: plan[one] for one, state in states.items() if state not in (MoveState.DONE, MoveState.MOVING)}
    told = {(row["topic"], row["partition"]): row for row in (await move(cluster, beginning) if beginning else [])}
    rows = []
    for one in beginning:
        row = told.get(one) or _row(one, plan, f"partition {one}: the broker did not say what became of it")
        rows.append({**row, "state": "begun" if row["error"] is None else "refused"})
    rows += [{**_row(one, plan, None), "state": states[one].value} for one in plan.keys() - beginning.keys()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"])), emptied_brokers(plan, now)


def _row(one: TopicPartition, plan: ReassignmentPlan, error: str | None) -> MoveRow:
    return {"topic": one.topic, "partition": one.partition, "replicas": list(plan[one]), "error": error}


async def watch(
    client: Client, cluster: Cluster, plan: ReassignmentPlan, empty: Sequence[BrokerId], display: Display
) -> PlanProgress:
    """Show how far a plan is until none of it moves; returns the last look. Raises Failure when no broker answers."""
    pause, stray_polls = PAUSE_FIRST_SECONDS, 0
    while True:
        found, now = await client.within_timeout(cluster, fetch_assignments(cluster, None))
        look = await fetch_progress(cluster, plan, empty, found, now)
        stray_polls = stray_polls + 1 if look.strays else 0
        if stray_polls == 1:
            pause = PAUSE_FIRST_SECONDS
        if not look.moving and (not look.strays or stray_polls >= STRAY_POLLS_MAX):
            return look
        display.show(str(look))
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


async def _watch_displayed(
    client: Client, cluster: Cluster, plan: ReassignmentPlan, empty: Sequence[BrokerId], display: Display
) -> PlanProgress:
    try:
        return await watch(client, cluster, plan, empty, display)
    except Failure as failure:
        raise Failure(f"{failure}; {MOVES_CONTINUE}") from None
    finally:
        display.clear()


async def _remove_throttles_if_idle(
    client: Client, cluster: Cluster, plan: ReassignmentPlan, look: PlanProgress
) -> bool:
    """Take throttles away, unless something outside of the plan still moves; whether that was done."""
    if look.moves_elsewhere:
        echo(
            "other partitions still move: throttles stay until `sordini reassign verify` finds nothing on the move",
            err=True,
        )
        return False
    there = set(await client.within_timeout(cluster, all_names(cluster)))
    await client.within_timeout(cluster, remove_throttles(cluster, [one for one in plan if one.topic in there]))
    return True


def _print_rows(client: Client, rows: Sequence[MoveRow]) -> list[str]:
    """Say what became of each partition; the reasons of those that were refused."""
    if client.as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["error"] is None:
                where = ",".join(map(str, row["replicas"]))
                echo(f"{row['topic']}-{row['partition']} {WORDS[row['state']]} {where}")
    return [row["error"] for row in rows if row["error"] is not None]


def _summary(look: PlanProgress, elapsed_ms: int) -> str:
    are = "partition is" if look.total == 1 else "partitions are"
    done = f"{look.total} {are} where the plan wants ({elapsed_ms / 1000:.1f} s)"
    return "; ".join([done, *held_replicas_texts(look.held)])


def check(look: PlanProgress) -> None:
    """Raise Failure when partitions are not where the plan wants them and nothing moves them there."""
    if look.strays:
        named = ", ".join(look.strays[:5]) + (" and others" if len(look.strays) > 5 else "")
        raise Failure(
            f"{counted(len(look.strays), 'partition')} not where the plan wants and not on the way there ({named}): "
            "deleted, cancelled or moved by another command; executing the plan again moves what is there"
        )
