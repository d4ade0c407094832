"""Who wrote what, and under which condition: a cluster's writes as its ZooKeeper's transaction log has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.cluster.tree import Tree
from tests.outside.transaction_log import Operation, Transaction, transactions

GUARD: Final = "/controller_epoch"


class Written(NamedTuple):
    """One change of a node. It is guarded when it was made only if no other controller had been elected."""

    kind: str
    path: str
    value: Any
    is_guarded: bool

    def __str__(self) -> str:
        return f"{'guarded ' if self.is_guarded else ''}{self.kind} {self.path}"


class Witness:
    """What was written below one chroot since it was called, or since the last `forget`."""

    def __init__(self, directory: Path, tree: Tree) -> None:
        """`directory` is the dataDir of the only ZooKeeper server there is."""
        self._directory = directory
        self._tree = tree
        self._chroot = "/" + tree.connect.partition("/")[2]
        self._after = tree.zxid()

    def forget(self) -> None:
        self._after = self._tree.zxid()

    def writes(self, topic: str) -> list[Written]:
        """All that was written about a topic, its settings and its deletion, in order.

        Fails when a guard stands before more than one change: Apache Kafka's controller never packs several.
        """
        newest = self._tree.zxid()
        transacted = [one for one in transactions(self._directory, self._after) if one.zxid <= newest]
        found = [change for one in transacted for change in self._changes(one)]
        about = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
        return [one for one in found if one.path in about or one.path.startswith(f"{about[0]}/")]

    def states(self, topic: str, partition: int) -> list[tuple[int, int, set[int]]]:
        """Leader, leader epoch and in-sync set, for each time that a partition's state was written, under guard."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        found = [one for one in self.writes(topic) if one.path == path and one.kind != "delete"]
        assert all(one.is_guarded for one in found), list(map(str, found))
        return [(one.value["leader"], one.value["leader_epoch"], set(one.value["isr"])) for one in found]

    def assignments(self, topic: str, partition: int) -> list[tuple[list[int], list[int], list[int]]]:
        """Replicas, those added and those removed, for each time that a topic's node was changed in it under guard."""
        key, found = str(partition), list[tuple[list[int], list[int], list[int]]]()
        for one in self.writes(topic):
            if one.path == f"/brokers/topics/{topic}" and one.kind == "set" and one.is_guarded:
                value = one.value
                adding, removing = value["adding_replicas"].get(key, []), value["removing_replicas"].get(key, [])
                row = (value["partitions"][key], adding, removing)
                # At the end of a cancellation Apache Kafka writes the same twice.
                found += [] if found and found[-1] == row else [row]
        return found

    def _changes(self, transaction: Transaction) -> list[Written]:
        own = [one for one in transaction.operations if one.path.startswith(f"{self._chroot}/")]
        is_guarded = any(one.kind == "check" and one.path == self._chroot + GUARD for one in own)
        changes = [
            Written(one.kind, one.path.removeprefix(self._chroot), _value(one), is_guarded)
            for one in own
            if one.kind != "check"
        ]
        assert not is_guarded or len(changes) <= 1, f"several changes at once: {list(map(str, changes))}"
        return changes


def _value(operation: Operation) -> Any:
    if not operation.data:
        return None
    try:
        return json.loads(operation.data)
    except ValueError:
        return operation.data
