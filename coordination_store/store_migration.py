"""Copies a cluster's tree from one coordination store to another, verified and repeatable.

Every persistent znode below the names that belong to a cluster (`paths.TOP_LEVEL`) is copied. Ephemeral znodes and
change notifications are not: a starting broker reads the whole tree, and the sequence numbers of copied notifications
would be higher than those of new ones in the new tree, which would then seem old. The version of a znode is copied only
where it has a meaning: in /brokers/seqid it is the counter for broker ids.

The cluster id is written last. A broker that starts on an incomplete tree generates another id, and its log
directories refuse that. An interrupted copy is a part of its source, so the copy can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

from sordini.coordination_store.znode_tree import parent_of
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.paths import parents
from sordini.replication.metadata_store.store_format import check_known_format
from sordini.replication.ports import Create, NodeExists, NoNode, Operation, Session, Set
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

COUNTERS: Final = frozenset({paths.BROKER_SEQUENCE})
"""Znodes whose version is a counter."""

CONCURRENT_READS_MAX: Final = 500
OPERATIONS_MAX: Final = 500
BYTES_MAX: Final = 256 * 1024
"""The bound of one transaction: ZooKeeper accepts a megabyte."""

NAMED_MAX: Final = 5


class MigrationRefused(Exception):
    """A tree cannot be copied; nothing was overwritten. The text gives the reason for the operator."""


class StoreTree(NamedTuple):
    """A tree in a store: a session, the znode at its root ("" for "/"), and its location as text."""

    session: Session
    root: str
    name: str
    writes_at_once: bool
    """Whether a transaction may have any size, so that the copy is atomic."""

    def at(self, path: str) -> str:
        return f"{self.root}{path}" or "/"


class PersistentNode(NamedTuple):
    """A znode to copy."""

    data: bytes
    version: int


class TreeContents(NamedTuple):
    """What a tree holds."""

    nodes: dict[str, PersistentNode]
    """Persistent znodes by path, parents before their children."""
    brokers: tuple[str, ...]
    """The ids of registered brokers, as texts."""
    others: tuple[str, ...]
    """Top-level names that are not a cluster's."""


class MigrationSummary(NamedTuple):
    """The extent of a copy."""

    cluster_id: str
    topics: int
    partitions: int
    brokers: tuple[int, ...]
    """The brokers that hold partitions."""
    nodes: int
    copied: int
    """How many of the znodes did not exist in the target."""
    left_out: tuple[str, ...]


async def read_tree(tree: StoreTree) -> TreeContents:
    """Read a tree. Raises CoordinationError."""
    nodes: dict[str, PersistentNode] = {}
    brokers: list[str] = []
    try:
        first = sorted(f"/{name}" for name in await tree.session.children(tree.at("")))
    except NoNode:
        return TreeContents({}, (), ())
    level = [path for path in first if path in paths.TOP_LEVEL]
    while level:
        found = await _together(level, lambda path: _read(tree, path))
        below = list[str]()
        for path, (node, children) in zip(level, found, strict=True):
            if node is not None:
                nodes[path] = node
            elif parent_of(path) == paths.BROKER_IDS:
                brokers.append(path.rpartition("/")[2])
            if path not in paths.CHANGE_NOTIFICATIONS:
                below += sorted(f"{path}/{name}" for name in children)
        level = below
    return TreeContents(
        nodes, tuple(brokers), tuple(path for path in first if path not in paths.TOP_LEVEL and path != "/zookeeper")
    )


async def check(source: StoreTree, target: StoreTree | None) -> MigrationSummary:
    """The extent of a copy; without a target: of one to an empty store.

    Raises MigrationRefused when the source holds no complete cluster, the target holds other data, or a broker is
    registered in either; StoreUnusable when the format is not known; CoordinationError when a store does not answer.
    """
    return (await _plan(source, target)).summary


async def copy(source: StoreTree, target: StoreTree) -> MigrationSummary:
    """Copy a tree, read both back and compare.

    Raises as `check` does, and MigrationRefused when either was written to meanwhile.
    """
    plan = await _plan(source, target)
    await _make_root(target)
    await _write(target, plan.operations)
    await _verify(source, target, plan.nodes)
    return plan.summary


async def cluster_id_at(tree: StoreTree) -> str | None:
    """The cluster id in a tree; None when it is absent or unreadable."""
    try:
        data, _ = await tree.session.get(tree.at(paths.CLUSTER_ID))
    except NoNode:
        return None
    found = znodes.decode_cluster_id(data)
    return None if isinstance(found, Malformed) else found


class _Plan(NamedTuple):
    nodes: dict[str, PersistentNode]
    operations: list[Operation]
    summary: MigrationSummary


async def _plan(source: StoreTree, target: StoreTree | None) -> _Plan:
    found = await read_tree(source)
    summary = _summary(source, found)
    _refuse_brokers(source, found)
    existing = TreeContents({}, (), ())
    if target is not None:
        existing = await read_tree(target)
        _refuse_brokers(target, existing)
        _refuse_others(source, found.nodes, target, existing.nodes)
    operations = _operations(found.nodes, existing.nodes)
    copied = sum(isinstance(operation, Create) for operation in operations)
    return _Plan(found.nodes, operations, summary._replace(copied=copied))


async def _read(tree: StoreTree, path: str) -> tuple[PersistentNode | None, list[str]]:
    """A znode and its children's names; None for an ephemeral one, or one that was deleted meanwhile."""
    try:
        data, stat = await tree.session.get(tree.at(path))
        if stat.ephemeral_owner:
            return None, []
        # ZooKeeper distinguishes empty data from null; Apache Kafka does not.
        return PersistentNode(data or b"", stat.version), await tree.session.children(tree.at(path))
    except NoNode:
        return None, []


def _summary(source: StoreTree, found: TreeContents) -> MigrationSummary:
    if paths.CLUSTER_ID not in found.nodes:
        raise MigrationRefused(f"{source.name} holds no cluster: {paths.CLUSTER_ID} is missing")
    if paths.SORDINI in found.nodes:
        check_known_format(found.nodes[paths.SORDINI].data)
    cluster_id = znodes.decode_cluster_id(found.nodes[paths.CLUSTER_ID].data)
    if isinstance(cluster_id, Malformed):
        raise MigrationRefused(f"{source.name}: {cluster_id.path} cannot be read: {cluster_id.reason}")
    topics, brokers, partitions = 0, set[int](), 0
    for path, node in found.nodes.items():
        if parent_of(path) != paths.TOPICS:
            continue
        topic = znodes.decode_topic(path.rpartition("/")[2], node.data, node.version)
        if isinstance(topic, Malformed):
            raise MigrationRefused(f"{source.name}: {topic.path} cannot be read: {topic.reason}")
        topics += 1
        partitions += len(topic.replicas)
        brokers.update(broker for replicas in topic.replicas.values() for broker in replicas)
    return MigrationSummary(cluster_id, topics, partitions, tuple(sorted(brokers)), len(found.nodes), 0, found.others)


def _refuse_brokers(tree: StoreTree, found: TreeContents) -> None:
    if found.brokers:
        raise MigrationRefused(
            f"registered in {tree.name}: broker {', '.join(found.brokers)}; stop all brokers first (a killed one is "
            "registered until its session expires)"
        )


def _refuse_others(
    source: StoreTree, wanted: Mapping[str, PersistentNode], target: StoreTree, existing: Mapping[str, PersistentNode]
) -> None:
    """Raise MigrationRefused when the target holds data that is not the source's."""
    different = [
        path
        for path, node in existing.items()
        if path not in wanted
        or node.data != wanted[path].data
        or (path in COUNTERS and node.version > wanted[path].version)
    ]
    if different:
        named = ", ".join(different[:NAMED_MAX])
        more = f" and {len(different) - NAMED_MAX} more" if len(different) > NAMED_MAX else ""
        raise MigrationRefused(
            f"{target.name} is not empty, and its data is not from {source.name} ({named}{more}): "
            "move to another store, or delete that data yourself"
        )


def _operations(wanted: Mapping[str, PersistentNode], existing: Mapping[str, PersistentNode]) -> list[Operation]:
    """The missing znodes, parents first and the cluster id last."""
    missing = [path for path in wanted if path not in existing]
    operations: list[Operation] = [Create(path, wanted[path].data) for path in missing if path != paths.CLUSTER_ID]
    for path in sorted(COUNTERS & wanted.keys()):
        counted = existing[path].version if path in existing else 0
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
            raise MigrationRefused(f"{target.name} was changed by another client meanwhile ({error.path})") from error


def _batches(operations: Iterator[Operation]) -> Iterator[list[Operation]]:
    """Transactions of bounded size, in order."""
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


async def _verify(source: StoreTree, target: StoreTree, copied: Mapping[str, PersistentNode]) -> None:
    """Read both back. Raises MigrationRefused when the copy differs from its source, or the source has changed."""
    source_now, target_now = await read_tree(source), await read_tree(target)
    _refuse_brokers(source, source_now)
    _refuse_brokers(target, target_now)
    if source_now.nodes != copied:
        raise MigrationRefused(
            f"{source.name} changed while it was copied: stop everything that uses it, and repeat the command"
        )
    for path, node in copied.items():
        made = target_now.nodes.get(path)
        if made is None or made.data != node.data or (path in COUNTERS and made.version != node.version):
            raise MigrationRefused(f"{target.name} does not hold the data that was written: {path} differs")


async def _together(items: Iterable[str], read: Callable[[str], Awaitable[T]]) -> list[T]:
    """Make many reads, CONCURRENT_READS_MAX at a time; the answers in their order."""
    waiting, answers = iter(items), list[T]()
    while some := list(islice(waiting, CONCURRENT_READS_MAX)):
        answers += await asyncio.gather(*map(read, some))
    return answers
