"""`sordini share redrive`: what would be copied, and what was."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sordini.admin.failure import Failure
from sordini.admin.shares.dead_letters import DeadLetter
from sordini.admin.shares.redrive import Redrive, RedriveRequest
from sordini.cli.common.options import Client
from sordini.cli.common.output import print_json, table
from sordini.cli.common.terminal import echo, echo_lines
from sordini.client.errors import ClientError
from sordini.system.clock import utc_text

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sordini.admin.cluster_client import ClusterClient

ROWS_MAX: Final = 1_000
"""Dead letters that --json lists; the counts are of all."""
Kind = tuple[str, str, str | None]
"""A topic, a group and a reason."""


def preview_redrive(client: Client, request: RedriveRequest) -> None:
    """Count the dead letters by topic, group and reason."""
    kinds: Counter[Kind] = Counter()
    rows: list[dict[str, Any]] = []

    async def read(cluster: ClusterClient) -> int:
        redrive = _redrive(client, cluster, request)
        async for chunk in redrive.preview():
            kinds.update(_kinds(chunk.letters))
            rows.extend(map(_letter_row, chunk.letters[: ROWS_MAX - len(rows)]))
        return redrive.passed_over

    passed_over = asyncio.run(client.without_timeout(read))
    if client.as_json:
        values = {**_head(request, executed=False), "count": kinds.total(), "counts": _count_rows(kinds)}
        print_json({**values, "passed_over": passed_over, "dead_letters": rows})
        return
    if kinds:
        echo_lines(_counts_text(kinds))
        echo(_preview_notice(kinds.total(), request), err=True)
    else:
        echo(f"There are no dead letters to copy in {request.topic}.", err=True)
    _tell_passed_over(passed_over)


def execute_redrive(client: Client, request: RedriveRequest) -> None:
    """Copy them. Raises Failure, after which the same command continues."""
    copied: Counter[str] = Counter()
    lost: list[DeadLetter] = []
    without_topic: list[DeadLetter] = []

    async def run(cluster: ClusterClient) -> int:
        redrive = _redrive(client, cluster, request)
        async for one in redrive.run():
            copied.update(one.topics)
            lost.extend(one.lost[: ROWS_MAX - len(lost)])
            without_topic.extend(one.without_topic[: ROWS_MAX - len(without_topic)])
        return redrive.passed_over

    try:
        passed_over = asyncio.run(client.without_timeout(run))
    except ClientError as failure:
        raise Failure(f"{failure}; {copied.total()} were copied before, and the same command continues") from None
    if client.as_json:
        values = {**_head(request, executed=True), "copied": dict(copied), "passed_over": passed_over}
        left_out = {"lost": [*map(_letter_row, lost)], "without_topic": [*map(_letter_row, without_topic)]}
        print_json({**values, **left_out})
        return
    for topic, count in sorted(copied.items()):
        echo(f"{topic}: {count} copied")
    if not copied:
        echo("Nothing was copied.", err=True)
    for letters, why in ((lost, "record was deleted meanwhile"), (without_topic, "topic or partition does not exist")):
        for letter in letters:
            echo(f"Notice: {letter.partition} at {letter.record_offset} was not copied: its {why}.", err=True)
    _tell_passed_over(passed_over)


def _redrive(client: Client, cluster: ClusterClient, request: RedriveRequest) -> Redrive:
    async def within(work: Awaitable[Any]) -> Any:
        return await client.within_timeout(cluster, work)

    return Redrive(cluster, request, within)


def _kinds(letters: Iterable[DeadLetter]) -> list[Kind]:
    return [(letter.partition.topic, letter.group, letter.reason) for letter in letters]


def _count_rows(kinds: Mapping[Kind, int]) -> list[dict[str, Any]]:
    names = ("topic", "group", "reason", "count")
    return [dict(zip(names, (*kind, count), strict=True)) for kind, count in _sorted(kinds)]


def _counts_text(kinds: Mapping[Kind, int]) -> str:
    return table(["TOPIC", "GROUP", "COUNT", "REASON"], [[*kind[:2], count, kind[2]] for kind, count in _sorted(kinds)])


def _sorted(kinds: Mapping[Kind, int]) -> list[tuple[Kind, int]]:
    return sorted(kinds.items(), key=lambda pair: (pair[0][:2], pair[0][2] or ""))


def _preview_notice(count: int, request: RedriveRequest) -> str:
    more = "; there may be more, see --limit" if count == request.limit else ""
    which, them = ("This one", "it") if count == 1 else (f"These {count}", "them")
    return f"{which} would be copied{more}. Nothing was changed: --execute copies {them}."


def _head(request: RedriveRequest, *, executed: bool) -> dict[str, Any]:
    letters = request.letters
    return {"dead_letter_topic": request.topic, "group": letters.group, "reason": letters.reason, "executed": executed}


def _tell_passed_over(count: int) -> None:
    if count:
        echo(f"Notice: {count} records of the topic are no dead letters, and were passed over.", err=True)


def _letter_row(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as JSON has it, without the record."""
    return {
        "dead_letter_offset": letter.offset,
        "at": utc_text(letter.timestamp_ms),
        "group": letter.group,
        "topic": letter.partition.topic,
        "partition": letter.partition.partition,
        "offset": letter.record_offset,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "has_record": letter.has_record,
    }
