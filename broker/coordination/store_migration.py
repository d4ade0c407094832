"""Copying a cluster's tree from one coordination store to another, checked and repeatable.

What is copied is every node that stays, below the names that belong to a cluster (`TOP`). Not copied are nodes that
die with a session, and notes of changes: whoever starts reads everything, and a note's number would make the new
tree's own notes, which count from nothing, look old. A node's version is carried over only where it means something:
in /brokers/seqid it is the counter that broker ids are drawn from.

The cluster's id is written last. A broker that starts on half a tree draws another id, and its log directories, which
know theirs, refuse it. A copy that was interrupted is a part of its source, so it is simply made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from sordini.broker.coordination.znode_tree import parent_of
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.paths import parents
from sordini.replication.metadata_store.store_format import check_known_format
from sordini.replication.ports import Create, NodeExists, NoNode, Operation, Session, Set

T = TypeVar("T")

TOP: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/consumers",
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    paths.SORDINI,
)
"""The first names of all that makes up a cluster; others beside them are somebody else's."""

NOTES: Final = frozenset(
    {
        paths.CONFIG_CHANGES,
        paths.ISR_CHANGES,
        paths.LOG_DIR_EVENTS,
        "/kafka-acl-changes",
        "/kafka-acl-extended-changes",
        "/delegation_token/token_changes",
    }
)
"""Nodes whose children are notes of changes."""

COUNTERS: Final = frozenset({"/brokers/seqid"})
"""Nodes whose version is what they are for."""

READS_TOGETHER_MAX: Final = 500
OPERATIONS_MAX: Final = 500
BYTES_MAX: Final = 256 * 1024
"""What goes into one transaction: ZooKeeper takes a megabyte at a time."""

NAMED_MAX: Final = 5


class MigrationRefused(Exception):
    """A tree cannot be copied; nothing was overwritten. The text says why, for people."""


class StoreTree(NamedTuple):
    """A tree in a store: a session, the node it hangs from ("" for the root), and its name for people."""

    session: Session
    root: str
    name: str
    writes_at_once: bool
    """Whether a transaction of any size is one, so that a copy is there as a whole or not at all."""

    def at(self, path: str) -> str:
        return f"{self.root}{path}" or "/"


class Entry(NamedTuple):
    """A node that stays."""

    data: bytes
    version: int


class Found(NamedTuple):
    """What is at a place."""

    entries: dict[str, Entry]
    """By path, parents before their children."""
    brokers: tuple[str, ...]
    """The numbers of those that are registered, as texts."""
    others: tuple[str, ...]
    """First names that are not a cluster's."""


class MigrationSummary(NamedTuple):
    """What a copy amounts to."""

    cluster_id: str
    topics: int
    partitions: int
    brokers: tuple[int, ...]
    """The brokers that hold partitions."""
    nodes: int
    copied: int
    """How many of the nodes were not there yet."""
    left_out: tuple[str, ...]


async def read_tree(place: StoreTree) -> Found:
    """Read a tree. Raises CoordinationError."""
    entries: dict[str, Entry] = {}
    brokers: list[str] = []
    try:
        first = sorted(f"/{name}" for name in await place.session.children(place.at("")))
    except NoNode:
        return Found({}, (), ())
    level = [path for path in first if path in TOP]
    while level:
        found = await _together(level, lambda path: _read(place, path))
        below = list[str]()
        for path, (entry, children) in zip(level, found, strict=True):
            if entry is not None:
                entries[path] = entry
            elif parent_of(path) == paths.BROKER_IDS:
                brokers.append(path.rpartition("/")[2])
            if path not in NOTES:
                below += sorted(f"{path}/{name}" for name in children)
        level = below
    return Found(entries, tuple(brokers), tuple(path for path in first if path not in TOP and path != "/zookeeper"))


async def check(source: StoreTree, target: StoreTree | None) -> MigrationSummary:
    """What a copy would amount to; without a target: to a place that is empty.

    Raises MigrationRefused when the source holds no whole cluster, the target holds something else, or a broker is
    registered at either; StoreUnusable when its format is not known; CoordinationError when a store does not answer.
    """
    return (await _plan(source, target)).outcome


async def copy(source: StoreTree, target: StoreTree) -> MigrationSummary:
    """Copy a tree, read both back and compare.

    Raises as `check` does, and MigrationRefused when somebody wrote to either meanwhile.
    """
    plan = await _plan(source, target)
    await _make_root(target)
    await _write(target, plan.operations)
    await _verify(source, target, plan.entries)
    return plan.outcome


async def cluster_id_at(place: StoreTree) -> str | None:
    """The id of the cluster at a place; None when there is none, or none that can be read."""
    try:
        data, _ = await place.session.get(place.at(paths.CLUSTER_ID))
    except NoNode:
        return None
    found = znodes.decode_cluster_id(data)
    return None if isinstance(found, Malformed) else found


class _Plan(NamedTuple):
    entries: dict[str, Entry]
    operations: list[Operation]
    outcome: MigrationSummary


async def _plan(source: StoreTree, target: StoreTree | None) -> _Plan:
    found = await read_tree(source)
    outcome = _outcome(source, found)
    _refuse_brokers(source, found)
    there = Found({}, (), ())
    if target is not None:
        there = await read_tree(target)
        _refuse_brokers(target, there)
        _refuse_others(source, found.entries, target, there.entries)
    operations = _operations(found.entries, there.entries)
    copied = sum(isinstance(operation, Create) for operation in operations)
    return _Plan(found.entries, operations, outcome._replace(copied=copied))


async def _read(place: StoreTree, path: str) -> tuple[Entry | None, list[str]]:
    """A node and its children's names; None for one that dies with its session, or has gone meanwhile."""
    try:
        data, stat = await place.session.get(place.at(path))
        if stat.ephemeral_owner:
            return None, []
        # ZooKeeper tells no bytes from none; to Apache Kafka they are the same.
        return Entry(data or b"", stat.version), await place.session.children(place.at(path))
    except NoNode:
        return None, []


def _outcome(source: StoreTree, found: Found) -> MigrationSummary:
    if paths.CLUSTER_ID not in found.entries:
        raise MigrationRefused(f"{source.name} holds no cluster: {paths.CLUSTER_ID} is not there")
    if paths.SORDINI in found.entries:
        check_known_format(found.entries[paths.SORDINI].data)
    cluster_id = znodes.decode_cluster_id(found.entries[paths.CLUSTER_ID].data)
    if isinstance(cluster_id, Malformed):
        raise MigrationRefused(f"{source.name}: {cluster_id.path} cannot be read: {cluster_id.reason}")
    topics, brokers, partitions = 0, set[int](), 0
    for path, entry in found.entries.items():
        if parent_of(path) != paths.TOPICS:
            continue
        topic = znodes.decode_topic(path.rpartition("/")[2], entry.data, entry.version)
        if isinstance(topic, Malformed):
            raise MigrationRefused(f"{source.name}: {topic.path} cannot be read: {topic.reason}")
        topics += 1
        partitions += len(topic.replicas)
        brokers.update(broker for replicas in topic.replicas.values() for broker in replicas)
    return MigrationSummary(cluster_id, topics, partitions, tuple(sorted(brokers)), len(found.entries), 0, found.others)


def _refuse_brokers(place: StoreTree, found: Found) -> None:
    if found.brokers:
        several = len(found.brokers) > 1
        raise MigrationRefused(
            f"{'brokers' if several else 'broker'} {', '.join(found.brokers)} {'are' if several else 'is'} registered "
            f"at {place.name}: stop {'them' if several else 'it'} first (a killed one is registered until its session "
            "ends)"
        )


def _refuse_others(
    source: StoreTree, wanted: Mapping[str, Entry], target: StoreTree, there: Mapping[str, Entry]
) -> None:
    """Raise MigrationRefused when the target holds what is not the source's."""
    different = [
        path
        for path, entry in there.items()
        if path not in wanted
        or entry.data != wanted[path].data
        or (path in COUNTERS and entry.version > wanted[path].version)
    ]
    if different:
        named = ", ".join(different[:NAMED_MAX])
        more = f" and {len(different) - NAMED_MAX} more" if len(different) > NAMED_MAX else ""
        raise MigrationRefused(
            f"{target.name} is not empty, and what is there is not from {source.name} ({named}{more}): "
            "move to another place, or clear that one yourself"
        )


def _operations(wanted: Mapping[str, Entry], there: Mapping[str, Entry]) -> list[Operation]:
    """What is missing, parents first and the cluster's id last."""
    missing = [path for path in wanted if path not in there]
    operations: list[Operation] = [Create(path, wanted[path].data) for path in missing if path != paths.CLUSTER_ID]
    for path in sorted(COUNTERS & wanted.keys()):
        counted = there[path].version if path in there else 0
        operations += [Set(path, wanted[path].data)] * (wanted[path].version - counted)
    if paths.CLUSTER_ID in missing:
        operations.append(Create(paths.CLUSTER_ID, wanted[paths.CLUSTER_ID].data))
    return operations


async def _make_root(target: StoreTree) -> None:
    for path in [*parents(target.root), target.root] if target.root else []:
        try:
            await target.session.create(path)
        except NodeExists:
            continue


async def _write(target: StoreTree, operations: Iterable[Operation]) -> None:
    rooted = (operation._replace(path=target.at(operation.path)) for operation in operations)
    for batch in [list(rooted)] if target.writes_at_once else _batches(rooted):
        try:
            await target.session.multi(batch)
        except NodeExists as error:
            raise MigrationRefused(f"{target.name} was written to by somebody else meanwhile ({error.path})") from error


def _batches(operations: Iterator[Operation]) -> Iterator[list[Operation]]:
    """Transactions of a bounded size, in order."""
    batch, size = list[Operation](), 0
    for operation in operations:
        weight = len(operation.path.encode()) + (len(operation.data) if isinstance(operation, Create | Set) else 0)
        if batch and (len(batch) == OPERATIONS_MAX or size + weight > BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(operation)
        size += weight
    if batch:
        yield batch


async def _verify(source: StoreTree, target: StoreTree, copied: Mapping[str, Entry]) -> None:
    """Read both back. Raises MigrationRefused when the copy is not its source, or the source is another by now."""
    again, there = await read_tree(source), await read_tree(target)
    _refuse_brokers(source, again)
    _refuse_brokers(target, there)
    if again.entries != copied:
        raise MigrationRefused(f"{source.name} changed while it was copied: see that nobody uses it, and begin again")
    for path, entry in copied.items():
        made = there.entries.get(path)
        if made is None or made.data != entry.data or (path in COUNTERS and made.version != entry.version):
            raise MigrationRefused(f"{target.name} does not hold what was written to it: {path} differs")


async def _together(items: Iterable[str], read: Callable[[str], Awaitable[T]]) -> list[T]:
    """Make many reads, some hundreds at a time; the answers in their order."""
    waiting, answers = iter(items), list[T]()
    while some := list(islice(waiting, READS_TOGETHER_MAX)):
        answers += await asyncio.gather(*map(read, some))
    return answers
