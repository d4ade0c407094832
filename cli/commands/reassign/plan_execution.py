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
from sordini.cli.commands.reassign.plan_progress import Look, held_words, take_look
from sordini.cli.commands.reassign.reassign_requests import Row, all_names, move, standings, throttle, unthrottle
from sordini.cli.commands.reassign.reassignment_plan import Plan, State, emptied, state_of
from sordini.cli.common.options import Client, Failure
from sordini.cli.common.output import Progress, print_json, size_text
from sordini.cli.common.terminal import echo, is_seen
from sordini.protocol.printable import counted
from sordini.protocol.types import BrokerId, TopicPartition

PAUSE_FIRST_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0
"""Between two looks: the pause doubles up to this."""
LINE_MS: Final = 5_000
"""Between two lines of progress where standard error is no terminal."""
STRAY_LOOKS_MAX: Final = 5
"""In so many looks one after another a partition neither moves nor has arrived: then it has left the plan.

A broker's metadata say a little later than the list of moves that one has ended.
"""

GOES_ON: Final = (
    "moves that have begun go on in the cluster, and throttles stay until they end; the same command goes on watching"
)
WORDS: Final = {
    "begun": "goes to",
    State.MOVING.value: "is on the way already, to",
    State.DONE.value: "is there already, on",
}
"""What is said of a partition when the command has begun."""


class Display:
    """Progress on standard error: one line that is written over on a terminal, else a line now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moving_line = Progress(clock) if is_seen(sys.stderr) else None
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


class Wanted(NamedTuple):
    """How a plan is to be carried out."""

    bytes_per_second: int | None
    is_watched: bool
    takes_throttles: bool
    """Whether throttles are taken away at the end."""


def carry_out(client: Client, plan: Plan, wanted: Wanted) -> None:
    """Begin, watch and finish a plan, and say so. Raises Failure, and KeyboardInterrupt after a last word."""
    clock = SystemClock()
    display = Display(clock)

    async def execute(cluster: Cluster) -> None:
        began_ms = clock.monotonic_ms()
        rows, empty = await client.in_time(cluster, begin(cluster, plan, wanted.bytes_per_second))
        errors = _tell(client, rows)
        refused = {TopicPartition(row["topic"], row["partition"]) for row in rows if row["error"] is not None}
        accepted = {one: target for one, target in plan.items() if one not in refused}
        if wanted.is_watched and (accepted or wanted.bytes_per_second is not None):
            if accepted and errors:
                for error in errors:  # At once: the end may be hours away.
                    echo(f"sordini: {error}", err=True)
                errors = [f"{len(errors)} of {counted(len(plan), 'partition')} refused"]
            look = await _watched(client, cluster, accepted, empty, display)
            is_free = wanted.takes_throttles and await _has_taken_throttles(client, cluster, plan, look)
            check(look)
            if accepted and not client.as_json:
                said = wanted.bytes_per_second is not None and is_free
                echo(_last_words(look, clock.monotonic_ms() - began_ms) + ("; no throttle is left" if said else ""))
        if errors:
            raise Failure(*errors)

    try:
        asyncio.run(client.unbounded(execute))
    except KeyboardInterrupt:
        display.clear()
        echo(f"interrupted: {GOES_ON}, and `sordini reassign cancel` takes them back", err=True)
        raise
    finally:
        display.clear()


async def begin(cluster: Cluster, plan: Plan, bytes_per_second: int | None) -> tuple[list[Row], list[BrokerId]]:
    """Let what is neither done nor under way begin to move, under a throttle.

    A row for each partition of the plan, and the brokers that the plan empties.
    """
    _, now = await standings(cluster, sorted({topic for topic, _ in plan}))
    states = {one: state_of(target, now.get(one)) for one, target in plan.items()}
    if bytes_per_second is not None:
        slowed = {one: plan[one] for one, state in states.items() if one in now and state is not State.DONE}
        if slowed:
            echo(f"copying takes at most {size_text(bytes_per_second)} a second of each broker", err=True)
            await throttle(cluster, slowed, {one: now[one].origin for one in slowed}, bytes_per_second)
    beginning = {one: plan[one] for one, state in states.items() if state not in (State.DONE, State.MOVING)}
    told = {(row["topic"], row["partition"]): row for row in (await move(cluster, beginning) if beginning else [])}
    rows = []
    for one in beginning:
        row = told.get(one) or _row(one, plan, f"partition {one}: the broker did not say what became of it")
        rows.append({**row, "state": "begun" if row["error"] is None else "refused"})
    rows += [{**_row(one, plan, None), "state": states[one].value} for one in plan.keys() - beginning.keys()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"])), emptied(plan, now)


def _row(one: TopicPartition, plan: Plan, error: str | None) -> Row:
    return {"topic": one.topic, "partition": one.partition, "replicas": list(plan[one]), "error": error}


async def watch(client: Client, cluster: Cluster, plan: Plan, empty: Sequence[BrokerId], display: Display) -> Look:
    """Show how far a plan is until none of it moves; returns the last look. Raises Failure when no broker answers."""
    pause, stray_looks = PAUSE_FIRST_SECONDS, 0
    while True:
        found, now = await client.in_time(cluster, standings(cluster, None))
        look = await take_look(cluster, plan, empty, found, now)
        stray_looks = stray_looks + 1 if look.strays else 0
        if stray_looks == 1:
            pause = PAUSE_FIRST_SECONDS
        if not look.moving and (not look.strays or stray_looks >= STRAY_LOOKS_MAX):
            return look
        display.show(str(look))
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


async def _watched(client: Client, cluster: Cluster, plan: Plan, empty: Sequence[BrokerId], display: Display) -> Look:
    try:
        return await watch(client, cluster, plan, empty, display)
    except Failure as failure:
        raise Failure(f"{failure}; {GOES_ON}") from None
    finally:
        display.clear()


async def _has_taken_throttles(client: Client, cluster: Cluster, plan: Plan, look: Look) -> bool:
    """Take throttles away, unless something outside of the plan still moves; whether that was done."""
    if look.moves_elsewhere:
        echo(
            "other partitions still move: throttles stay until `sordini reassign verify` finds nothing on the move",
            err=True,
        )
        return False
    there = set(await client.in_time(cluster, all_names(cluster)))
    await client.in_time(cluster, unthrottle(cluster, [one for one in plan if one.topic in there]))
    return True


def _tell(client: Client, rows: Sequence[Row]) -> list[str]:
    """Say what became of each partition; the reasons of those that were refused."""
    if client.as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["error"] is None:
                where = ",".join(map(str, row["replicas"]))
                echo(f"{row['topic']}-{row['partition']} {WORDS[row['state']]} {where}")
    return [row["error"] for row in rows if row["error"] is not None]


def _last_words(look: Look, elapsed_ms: int) -> str:
    are = "partition is" if look.total == 1 else "partitions are"
    done = f"{look.total} {are} where the plan wants ({elapsed_ms / 1000:.1f} s)"
    return "; ".join([done, *held_words(look.held)])


def check(look: Look) -> None:
    """Raise Failure when partitions are not where the plan wants them and nothing moves them there."""
    if look.strays:
        named = ", ".join(look.strays[:5]) + (" and others" if len(look.strays) > 5 else "")
        raise Failure(
            f"{counted(len(look.strays), 'partition')} not where the plan wants and not on the way there ({named}): "
            "deleted, cancelled or moved by another command; executing the plan again moves what is there"
        )
