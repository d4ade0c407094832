"""The files of one broker's topics that change hands between Sordini and Apache Kafka 4.4, which has KRaft only.

Neither reads the other's metadata, so the test copies it: Apache Kafka makes the topics, and they are written into Sordini's
tree in ZooKeeper, with their ids. All else is in the partitions' folders and the checkpoints, which are moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

from confluent_kafka.admin import NewTopic

from tests.cluster.tree import Tree
from tests.outside.java import KRAFT_CLUSTER_ID, KRaftProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.confluent_admin import admin_of

BROKER_ID: Final = 1
METADATA: Final = "__cluster_metadata"
CLEAN_STOP: Final = ".kafka_cleanshutdown"
SECONDS_MAX: Final = 60
Side = Literal["ours", "theirs"]


class KRaftExchange:
    """One log directory at a time, and one port, where clients find whichever broker runs."""

    def __init__(self, directory: Path, zookeeper: str, settings: dict[str, object]) -> None:
        self._running = ExitStack()
        self._configs: dict[str, dict[str, str]] = {}
        self._tree = Tree(f"{zookeeper}/{directory.name}")
        theirs = KRaftProcess(directory / "theirs", {**settings, "node.id": BROKER_ID})
        listener = {"listeners": f"PLAINTEXT://{theirs.bootstrap}"}
        store = {"zookeeper.connect": self._tree.connect, "zookeeper.session.timeout.ms": 2_000}
        ours = SordiniProcess(directory / "ours", {**settings, **store, "broker.id": BROKER_ID, **listener})
        ours.port, ours.bootstrap = theirs.port, theirs.bootstrap
        self.brokers: dict[Side, BrokerProcess] = {"ours": ours, "theirs": theirs}
        self.bootstrap = theirs.bootstrap
        self.port = theirs.port
        self.side: Side = "theirs"

    @property
    def broker(self) -> BrokerProcess:
        return self.brokers[self.side]

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Make a topic, which only Apache Kafka's controller can."""
        admin = admin_of({"bootstrap.servers": self.bootstrap})
        (made,) = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs))]).values()
        made.result(SECONDS_MAX)
        self._configs[topic] = dict(configs)

    def start(self) -> None:
        self._running.callback(self.broker.kill)
        self.broker.start()

    def close(self) -> None:
        self._running.close()
        self._tree.close()

    def hand_over(self, *, is_killed: bool) -> None:
        """The broker ends, the other one takes its files, and starts."""
        if is_killed:
            self.broker.kill()
        else:
            self.broker.stop()
        source = self.broker.data_directory
        self.side = "ours" if self.side == "theirs" else "theirs"
        target = self.broker.data_directory
        target.mkdir(parents=True, exist_ok=True)
        (target / CLEAN_STOP).unlink(missing_ok=True)
        for entry in _moved(source):
            entry.replace(target / entry.name)
        if self.side == "ours":
            self._write_tree(target)
        self.start()

    def _write_tree(self, data: Path) -> None:
        """Write the cluster's identity and the topics into the tree.

        A leader epoch is raised by one: the epochs that clients see must not fall, and Apache Kafka's controller, which raises
        its own as its broker ends and starts, does not know of ours.
        """
        self._put("/cluster/id", {"version": "1", "id": KRAFT_CLUSTER_ID})
        partitions: dict[str, list[Path]] = {}
        for folder in sorted(filter(Path.is_dir, data.iterdir())):
            partitions.setdefault(folder.name.rpartition("-")[0], []).append(folder)
        for topic, folders in partitions.items():
            numbers = [folder.name.rpartition("-")[2] for folder in folders]
            replicas = {number: [BROKER_ID] for number in numbers}
            described = {"version": 3, "topic_id": _topic_id(folders[0]), "partitions": replicas}
            moving: dict[str, object] = {"adding_replicas": {}, "removing_replicas": {}}
            self._put(f"/brokers/topics/{topic}", {**described, **moving})
            self._put(f"/config/topics/{topic}", {"version": 1, "config": self._configs[topic]})
            for number, folder in zip(numbers, folders, strict=True):
                state = {"leader": BROKER_ID, "isr": [BROKER_ID], "leader_epoch": _leader_epoch(folder) + 1}
                path = f"/brokers/topics/{topic}/partitions/{number}/state"
                self._put(path, {"version": 1, "controller_epoch": 1, **state})

    def _put(self, path: str, value: dict[str, object]) -> None:
        self._tree.put(path, json.dumps(value).encode())


def _moved(data: Path) -> list[Path]:
    """The folders of partitions but the metadata's, the checkpoints, and the mark of a clean stop."""
    return [
        entry
        for entry in sorted(data.iterdir())
        if (entry.is_dir() and "-" in entry.name and not entry.name.startswith(METADATA))
        or entry.name.endswith("-checkpoint")
        or entry.name == CLEAN_STOP
    ]


def _topic_id(folder: Path) -> str:
    lines = (folder / "partition.metadata").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ") for line in lines)["topic_id"]


def _leader_epoch(folder: Path) -> int:
    """The newest leader epoch that the log has; 0 for an empty one."""
    rows = (folder / "leader-epoch-checkpoint").read_text(encoding="utf-8").split()[2:]
    return int(rows[-2]) if rows else 0
