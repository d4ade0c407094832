"""`sordini groups lag`: one snapshot or many, of groups and of checkpoints of Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sordini.admin.failure import Failure
from sordini.cli.commands.groups.checkpoint_folder import open_checkpoint
from sordini.cli.commands.groups.lag_texts import group_text, groups_text
from sordini.cli.common.options import Client
from sordini.cli.common.output import print_json, print_json_line
from sordini.cli.common.terminal import ScreenText, echo, echo_lines
from sordini.client.lag.cluster_reader import read_lags, read_lags_of_readers
from sordini.client.lag.json_form import group_json
from sordini.client.lag.measured_rates import MeasuredRates
from sordini.client.lag.model import GroupLag
from sordini.client.lag.reading import exists
from sordini.client.lag.spark_offsets import read_checkpoint
from sordini.system.clock import SystemClock, utc_text
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.admin.cluster_client import ClusterClient

HEAD_LINES: Final = 9
"""Of a group on a screen: the time, the sentence, the table's head, and what is below it."""


class LagRequest(NamedTuple):
    """What to read, and how to show it."""

    names: tuple[str, ...]
    checkpoints: tuple[str, ...]
    topics: frozenset[str]
    committed_only: bool
    has_all: bool


def show_lag(client: Client, request: LagRequest) -> None:
    """One snapshot. Raises Failure."""
    groups = client.run(lambda cluster: _snapshot(cluster, request))
    _check_names(request, groups)
    if client.as_json:
        print_json([group_json(group) for group in groups])
    elif groups:
        echo_lines(_text(request, groups, None))
    else:
        echo("There are no groups. A consumer with a group id creates one.", err=True)


def watch_lag(client: Client, request: LagRequest, interval_s: float, count: int | None) -> None:
    """Take snapshots until Ctrl-C, or `count` of them. Raises Failure."""

    async def watch(cluster: ClusterClient) -> None:
        rates, clock, screen, done = MeasuredRates(), SystemClock(), ScreenText(), 0
        while True:
            found = await client.within_timeout(cluster, _snapshot(cluster, request))
            if not done:
                _check_names(request, found)
            groups = rates.add(found, clock.monotonic_ms())
            if client.as_json:
                print_json_line({"at": utc_text(clock.now_ms()), "groups": [group_json(group) for group in groups]})
            else:
                text = _text(request, groups, screen.rows) if groups else "There are no groups."
                screen.show(f"{utc_text(clock.now_ms())}  every {interval_s:g} s, Ctrl-C ends it\n\n{text}")
            done += 1
            if done == count:
                return
            await asyncio.sleep(interval_s)

    asyncio.run(client.without_timeout(watch))


async def _snapshot(cluster: ClusterClient, request: LagRequest) -> list[GroupLag]:
    now_ms, level = SystemClock().now_ms, request.committed_only
    readers = [read_checkpoint(open_checkpoint(location)) for location in request.checkpoints]
    found = await read_lags_of_readers(cluster, readers, now_ms, committed_only=level) if readers else []
    if readers and not request.names:
        return found
    names = request.names or None
    return await read_lags(cluster, names, now_ms, topics=request.topics, committed_only=level) + found


def _check_names(request: LagRequest, groups: Sequence[GroupLag]) -> None:
    """A name that is no group's is a mistake of the user, but for a group that ends while it is watched."""
    unknown = [group.name for group in groups if not exists(group)]
    if request.names and unknown:
        raise Failure(*(f"group '{name}' does not exist; `sordini groups list` lists the groups" for name in unknown))


def _text(request: LagRequest, groups: Sequence[GroupLag], rows: int | None) -> str:
    """`rows` is the height of the screen, None without one."""
    if request.names or request.checkpoints:
        room = None if rows is None else max(1, rows // len(groups) - HEAD_LINES)
        return "\n\n".join(group_text(group, room, has_all=request.has_all) for group in groups)
    return groups_text(groups, None if rows is None else max(1, rows - HEAD_LINES))
