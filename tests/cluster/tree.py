"""The cluster's own account of itself: its nodes in ZooKeeper, read and, where an operator's tools would, written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry


class State(NamedTuple):
    """What /brokers/topics/T/partitions/P/state says; `version` is the node's own, the partition epoch."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int
    version: int


class Tree:
    """One chroot of a ZooKeeper. Nodes that are not there read as None."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        hosts, _, chroot = connect.partition("/")
        root = _connected(hosts)
        root.ensure_path(f"/{chroot}")
        _end(root)
        self._client = _connected(connect)

    def close(self) -> None:
        _end(self._client)

    def zxid(self) -> int:
        """The newest transaction there is."""
        self._client.exists("/")
        return int(self._client.last_zxid)

    def read(self, path: str) -> Any:
        """The node's JSON."""
        text = self.text(path)
        return text if text is None else json.loads(text or "{}")

    def text(self, path: str) -> str | None:
        try:
            data, _ = self._client.get(path)
        except NoNodeError:
            return None
        return str(data.decode())

    def exists(self, path: str) -> bool:
        return self._client.exists(path) is not None

    def children(self, path: str) -> list[str]:
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def create(self, path: str, value: Any, *, ephemeral: bool = False) -> None:
        self._client.create(path, json.dumps(value).encode(), ephemeral=ephemeral, makepath=True)

    def put(self, path: str, data: bytes) -> None:
        """Make a node of any bytes, or give it others."""
        if self._client.exists(path) is None:
            self._client.create(path, data, makepath=True)
        else:
            self._client.set(path, data)

    def delete(self, path: str) -> None:
        """Delete a node that may be gone already."""
        try:
            self._client.delete(path)
        except NoNodeError:
            return

    def registered(self) -> set[int]:
        return {int(name) for name in self.children("/brokers/ids")}

    def broker_epoch(self, broker_id: int) -> int:
        """The transaction that registered a broker; -1 when it is not registered."""
        found = self._client.exists(f"/brokers/ids/{broker_id}")
        return -1 if found is None else int(found.czxid)

    def controller(self) -> int:
        """The controller's id, -1 for none."""
        found = self.read("/controller")
        return -1 if found is None else int(found["brokerid"])

    def controller_epoch(self) -> int:
        return int(self.read("/controller_epoch") or 0)

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each partition; empty when there is no such topic."""
        found = self.read(f"/brokers/topics/{topic}")
        return {} if found is None else {int(number): list(ids) for number, ids in found["partitions"].items()}

    def state(self, topic: str, partition: int) -> State | None:
        try:
            data, stat = self._client.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        except NoNodeError:
            return None
        found = json.loads(data)
        return State(
            found["leader"],
            tuple(found["isr"]),
            found["leader_epoch"],
            found["controller_epoch"],
            stat.version,
        )

    def reassign(self, moves: Iterable[tuple[str, int, Sequence[int]]]) -> None:
        """Ask the controller for other replicas, as kafka-reassign-partitions --zookeeper did."""
        rows = [{"topic": topic, "partition": number, "replicas": list(ids)} for topic, number, ids in moves]
        self.create("/admin/reassign_partitions", {"version": 1, "partitions": rows})

    def elect_preferred(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Ask the controller to make each first replica the leader again."""
        rows = [{"topic": topic, "partition": number} for topic, number in partitions]
        try:
            self.create("/admin/preferred_replica_election", {"version": 1, "partitions": rows})
        except NodeExistsError:
            raise AssertionError("the controller has not taken up the last election") from None


def _connected(hosts: str) -> KazooClient:
    """A session that looks for its server once a second however long it was away."""
    retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=SequentialThreadingHandler.sleep_func)
    client = KazooClient(hosts=hosts, connection_retry=retry)
    client.start(timeout=20)
    return client


def _end(client: KazooClient) -> None:
    client.stop()
    client.close()
