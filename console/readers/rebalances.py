"""The rebalances of the last hour, of the groups whose coordinators remember them."""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_history import cause_words, group_history
from sordini.admin.groups.group_requests import list_groups
from sordini.client.errors import ClientError
from sordini.console.readers.changes import REBALANCE, Change
from sordini.system.clock import utc_ms

GROUPS_MAX: Final = 50
REBALANCES_MAX: Final = 20
"""Of one group."""


async def read_rebalances(cluster: ClusterClient, since_ms: int) -> tuple[list[Change], int]:
    """Those that began since then, and how many groups were not asked. Raises ClientError."""
    groups = [str(row["group"]) for row in await list_groups(cluster, (), ())]
    answers = await asyncio.gather(*(_of_group(cluster, name, since_ms) for name in groups[:GROUPS_MAX]))
    return [change for found in answers for change in found], max(0, len(groups) - GROUPS_MAX)


async def _of_group(cluster: ClusterClient, name: str, since_ms: int) -> list[Change]:
    try:
        found = await group_history(cluster, name, REBALANCES_MAX)
    except (ClientError, Failure):  # Other brokers remember none, and a visitor may not describe each group.
        return []
    changes = []
    for row in found["rebalances"]:
        at_ms = utc_ms(row["began"]) if row["began"] else 0
        if at_ms >= since_ms:
            causes = [
                f"{cause_words(cause)} {cause['client_id'] or cause['member_id'] or ''}".strip()
                for cause in row["causes"]
            ]
            changes.append(Change(at_ms, REBALANCE, f"{name}: {', '.join(causes) or 'cause not known'}"))
    return changes
