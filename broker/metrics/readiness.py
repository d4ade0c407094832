"""Why a broker is not ready: what GET /readyz answers.

It is stricter than `sordini ping --serving`: a broker whose store is silent goes on serving, and a restart would not
help it, but neither would more clients. So /readyz is for what directs traffic and pauses a rolling restart, and
/healthz for what restarts a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.topics.metadata_cache import MetadataCache, PartitionMetadata
from sordini.protocol.types import BrokerId
from sordini.replication.partition import Partition
from sordini.storage.log_manager import LogManager

PARTITIONS_PER_SLICE = 2_000
NAMED_MAX = 3
"""Partitions and directories that a reason names; of more there is the number."""


class CoordinatorSource(Protocol):
    """A coordinator of groups or of transactions."""

    @property
    def is_loading(self) -> bool: ...


class ReadinessSource(Protocol):
    """What is read of a broker's parts."""

    @property
    def logs(self) -> LogManager: ...

    @property
    def replicas(self) -> Iterable[Partition]: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def groups(self) -> CoordinatorSource: ...

    @property
    def transactions(self) -> CoordinatorSource: ...


async def reasons(parts: ReadinessSource, contact: StoreContact, broker_id: BrokerId) -> list[str]:
    """Why a broker that serves is not ready, each reason a line; empty when it is. Lets other requests run between."""
    found = [*_of_store(contact), *_of_metadata(parts.metadata, broker_id), *_of_directories(parts.logs)]
    for name, coordinator in (("group", parts.groups), ("transaction", parts.transactions)):
        if coordinator.is_loading:
            found.append(f"the {name} coordinator is loading")
    offline = await _leaderless(parts.metadata, broker_id)
    found += _listed(offline, "leaderless partition with a replica here", "leaderless partitions with a replica here")
    under = await _chosen(parts.replicas, lambda partition: partition.is_under_min_isr)
    return found + _listed(under, "led partition under min.insync.replicas", "led partitions under min.insync.replicas")


def _of_store(contact: StoreContact) -> list[str]:
    if contact.lost_tree:
        return [f"the coordination store does not have this cluster: {contact.lost_tree}"]
    if contact.silent_since_ms is not None:
        return [f"no session with the coordination store ({contact.state.value} for {contact.silent_ms} ms)"]
    return []


def _of_metadata(metadata: MetadataCache, broker_id: BrokerId) -> list[str]:
    if broker_id not in metadata.brokers:
        return ["no metadata received from a controller yet"]
    return ["no controller is known"] if metadata.controller_id < 0 else []


def _of_directories(logs: LogManager) -> list[str]:
    full = [room.path for room in logs.disk_spaces if room.is_full]
    return [
        *_listed(logs.offline_directories, "log directory is offline", "log directories are offline"),
        *_listed(full, "log directory is full", "log directories are full"),
    ]


async def _leaderless(metadata: MetadataCache, broker_id: BrokerId) -> list[str]:
    """Partitions that this broker has a replica of, and that no broker leads."""
    found, count = [], 0
    for topic in list(metadata.topics.values()):
        for index, known in list(topic.partitions.items()):
            if _is_offline(known, broker_id):
                found.append(f"{topic.name}-{index}")
        count += len(topic.partitions)
        if count >= PARTITIONS_PER_SLICE:
            count = 0
            await asyncio.sleep(0)
    return found


def _is_offline(known: PartitionMetadata, broker_id: BrokerId) -> bool:
    return known.leader < 0 and broker_id in known.replicas


async def _chosen(partitions: Iterable[Partition], condition: Callable[[Partition], bool]) -> list[str]:
    found = []
    for number, partition in enumerate(partitions, 1):
        if condition(partition):
            found.append(str(partition.name))
        if number % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return found


def _listed(names: list[str], singular: str, plural: str) -> list[str]:
    if not names:
        return []
    shown = ", ".join(islice(names, NAMED_MAX))
    more = " and others" if len(names) > NAMED_MAX else ""
    return [f"{len(names)} {singular if len(names) == 1 else plural}: {shown}{more}"]
