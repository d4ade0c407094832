"""Names of topics and groups for the Tab key: `shell_complete=topic_names` of an argument or option.

The cluster is the one that the line names so far. What goes wrong completes nothing: a shell has no place for an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from sordini.cli.common.options import Client

if TYPE_CHECKING:
    import click

    from sordini.admin.cluster_client import ClusterClient

WAIT_S: Final = 1.0
"""For the cluster's answer."""


def topic_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topics that begin so; internal ones when their first underscore was typed."""

    async def names(cluster: ClusterClient) -> Iterable[str]:
        metadata = await cluster.metadata(None)
        return [topic.name or "" for topic in metadata.topics if incomplete.startswith("_") or not topic.is_internal]

    return _completed(ctx, param, incomplete, names)


def group_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Groups that begin so."""
    return _completed(ctx, param, incomplete, _names_of_groups)


def share_group_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Share groups that begin so."""

    async def names(cluster: ClusterClient) -> Iterable[str]:
        return await _names_of_groups(cluster, ("share",))

    return _completed(ctx, param, incomplete, names)


async def _names_of_groups(cluster: ClusterClient, types: Sequence[str] = ()) -> Iterable[str]:
    from sordini.admin.groups.group_requests import list_groups

    return [row["group"] for row in await list_groups(cluster, (), types)]


def _completed(
    ctx: click.Context,
    param: click.Parameter,
    incomplete: str,
    names: Callable[[ClusterClient], Awaitable[Iterable[str]]],
) -> list[str]:
    given = ctx.params.get(param.name or "")
    used = set(given) if isinstance(given, (tuple, list)) else set()
    try:
        found = Client(ctx.params["bootstrap"], as_json=False, timeout_s=WAIT_S).run(names)
    except Exception:  # noqa: BLE001 - see above.
        return []
    return [name for name in sorted(found) if name.startswith(incomplete) and name not in used]
