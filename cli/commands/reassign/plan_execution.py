"""Execution of a reassignment plan: start it, watch it until it is complete, resume it after an interruption.

The cluster moves the partitions, whether or not a command watches. So `execute` first reads which partitions have
moved or are moving, starts only the others, and watches all of them.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.cli.commands.reassign.plan_progress import PlanProgress, fetch_progress, held_replicas_texts
from sordini.cli.commands.reassign.reassign_requests import (
    MoveRow,
    all_names,
    alter_reassignments,
    fetch_assignments,
    remove_throttles,
    set_throttles,
)
from sordini.cli.commands.reassign.reassignment_plan import MoveState, ReassignmentPlan, emptied_brokers, move_state
from sordini.cli.common.options import Client
from sordini.cli.common.output import ProgressLine, print_json, size_text
from sordini.cli.common.terminal import echo, is_terminal
from sordini.client.errors import ClientError
from sordini.protocol.printable import counted
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.ports import Clock
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0
"""Between two polls; the pause doubles up to this."""
LINE_MS: Final = 5_000
"""Between two lines of progress where standard error is no terminal."""
STRAY_POLLS_MAX: Final = 5
"""A partition that neither moves nor has moved in this many polls in a row is no longer part of the plan.

Metadata shows the end of a reassignment a little later than ListPartitionReassignments does.
"""

MOVES_CONTINUE: Final = (
    "started reassignments continue in the cluster, and throttles stay until they end; run the same command to watch"
)
WORDS: Final = {
    "begun": "is being moved to",
    MoveState.MOVING.value: "is being moved already, to",
    MoveState.DONE.value: "has been moved already, to",
}
"""The text for each partition when the command has started the plan."""


class Display:
    """Progress on standard error: a line rewritten in place on a terminal, otherwise a line every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moving_line = ProgressLine(clock) if is_terminal(sys.stderr) else None
        self._last: tuple[int, str] | None = None

    def show(self, text: str) -> None:
        if self._moving_line is not None:
            self._moving_line.show(text[: shutil.get_terminal_size().columns - 1])  # A wrapped line cannot be cleared.
            return
        now_ms = self._clock.monotonic_ms()
        if self._last is None or (now_ms - self._last[0] >= LINE_MS and text != self._last[1]):
            self._last = now_ms, text
            echo(text, err=True)

    def clear(self) -> None:
        if self._moving_line is not None:
            self._moving_line.clear()


class ExecutionOptions(NamedTuple):
    """The options of `reassign execute`."""

    bytes_per_second: int | None
    is_watched: bool
    removes_throttles: bool
    """Whether throttles are removed at the end."""


def execute_plan(client: Client, plan: ReassignmentPlan, wanted: ExecutionOptions) -> None:
    """Start, watch and finish a plan, and print the progress. Raises Failure; KeyboardInterrupt after a notice."""
    clock = SystemClock()
    display = Display(clock)

    async def execute(cluster: ClusterClient) -> None:
        began_ms = clock.monotonic_ms()
        rows, empty = await client.within_timeout(cluster, start_moves(cluster, plan, wanted.bytes_per_second))
        errors = _print_rows(client, rows)
        refused = {TopicPartition(row["topic"], row["partition"]) for row in rows if row["error"] is not None}
        accepted = {one: target for one, target in plan.items() if one not in refused}
        if wanted.is_watched and (accepted or wanted.bytes_per_second is not None):
            if accepted and errors:
                for error in errors:  # Immediately: the end may be hours away.
                    echo(f"sordini: {error}", err=True)
                errors = [f"{len(errors)} of {counted(len(plan), 'partition')} refused"]
            progress = await _watch_displayed(client, cluster, accepted, empty, display)
            is_free = wanted.removes_throttles and await _remove_throttles_if_idle(client, cluster, plan, progress)
            check_complete(progress)
            if accepted and not client.as_json:
                said = wanted.bytes_per_second is not None and is_free
                echo(_summary(progress, clock.monotonic_ms() - began_ms) + ("; throttles removed" if said else ""))
        if errors:
            raise Failure(*errors)

    try:
        asyncio.run(client.without_timeout(execute))
    except KeyboardInterrupt:
        display.clear()
        echo(f"interrupted: {MOVES_CONTINUE}, or `sordini reassign cancel` to cancel them", err=True)
        raise
    finally:
        display.clear()


async def start_moves(
    cluster: ClusterClient, plan: ReassignmentPlan, bytes_per_second: int | None
) -> tuple[list[MoveRow], list[BrokerId]]:
    """Start the reassignment of partitions that neither have moved nor are moving, throttled if a rate is given.

    Returns a row for each partition of the plan, and the brokers that the plan empties.
    """
    _, now = await fetch_assignments(cluster, sorted({topic for topic, _ in plan}))
    states = {one: move_state(target, now.get(one)) for one, target in plan.items()}
    if bytes_per_second is not None:
        slowed = {one: plan[one] for one, state in states.items() if one in now and state is not MoveState.DONE}
        if slowed:
            echo(f"replication is limited to {size_text(bytes_per_second)} a second per broker", err=True)
            await set_throttles(cluster, slowed, {one: now[one].original for one in slowed}, bytes_per_second)
    beginning = {one: plan[one] for one, state in states.items() if state not in (MoveState.DONE, MoveState.MOVING)}
    results = {
        (row["topic"], row["partition"]): row
        for row in (await alter_reassignments(cluster, beginning) if beginning else [])
    }
    rows = []
    for one in beginning:
        row = results.get(one) or _row(one, plan, f"partition {one}: the broker's answer has no result for it")
        rows.append({**row, "state": "begun" if row["error"] is None else "refused"})
    rows += [{**_row(one, plan, None), "state": states[one].value} for one in plan.keys() - beginning.keys()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"])), emptied_brokers(plan, now)


def _row(one: TopicPartition, plan: ReassignmentPlan, error: str | None) -> MoveRow:
    return {"topic": one.topic, "partition": one.partition, "replicas": list(plan[one]), "error": error}


async def watch(
    client: Client, cluster: ClusterClient, plan: ReassignmentPlan, empty: Sequence[BrokerId], display: Display
) -> PlanProgress:
    """Show the progress until no partition of the plan moves; returns the last. Raises Failure if no broker answers."""
    pause, stray_polls = PAUSE_FIRST_SECONDS, 0
    while True:
        found, now = await client.within_timeout(cluster, fetch_assignments(cluster, None))
        progress = await fetch_progress(cluster, plan, empty, found, now)
        stray_polls = stray_polls + 1 if progress.strays else 0
        if stray_polls == 1:
            pause = PAUSE_FIRST_SECONDS
        if not progress.moving and (not progress.strays or stray_polls >= STRAY_POLLS_MAX):
            return progress
        display.show(str(progress))
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


async def _watch_displayed(
    client: Client, cluster: ClusterClient, plan: ReassignmentPlan, empty: Sequence[BrokerId], display: Display
) -> PlanProgress:
    try:
        return await watch(client, cluster, plan, empty, display)
    except ClientError as failure:
        raise Failure(f"{failure}; {MOVES_CONTINUE}") from None
    finally:
        display.clear()


async def _remove_throttles_if_idle(
    client: Client, cluster: ClusterClient, plan: ReassignmentPlan, progress: PlanProgress
) -> bool:
    """Remove throttles, unless a partition outside of the plan still moves; whether they were removed."""
    if progress.moves_elsewhere:
        echo(
            "other partitions are still being reassigned: throttles stay until `sordini reassign verify` removes them",
            err=True,
        )
        return False
    there = set(await client.within_timeout(cluster, all_names(cluster)))
    await client.within_timeout(cluster, remove_throttles(cluster, [one for one in plan if one.topic in there]))
    return True


def _print_rows(client: Client, rows: Sequence[MoveRow]) -> list[str]:
    """Print the result for each partition; returns the errors of refused ones."""
    if client.as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["error"] is None:
                where = ",".join(map(str, row["replicas"]))
                echo(f"{row['topic']}-{row['partition']} {WORDS[row['state']]} {where}")
    return [row["error"] for row in rows if row["error"] is not None]


def _summary(progress: PlanProgress, elapsed_ms: int) -> str:
    done = f"{counted(progress.total, 'partition')} reassigned ({elapsed_ms / 1000:.1f} s)"
    return "; ".join([done, *held_replicas_texts(progress.held)])


def check_complete(progress: PlanProgress) -> None:
    """Raise Failure if partitions are not on the plan's brokers and are not being moved there."""
    if progress.strays:
        named = ", ".join(progress.strays[:5]) + (" and others" if len(progress.strays) > 5 else "")
        raise Failure(
            f"{counted(len(progress.strays), 'partition')} not on the plan's brokers and not being moved there "
            f"({named}): deleted, cancelled or moved by another command; execute the plan again to move the rest"
        )
