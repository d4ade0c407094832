"""The tools of Apache Kafka 2.7.2 that write to ZooKeeper themselves, on a cluster of ours: it does what they ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.cluster.cluster import OURS, SECONDS_MAX, Cluster, Partition, config_of
from tests.cluster.conftest import PROTOCOLS
from tests.cluster.kept_records import assert_kept, folders, written
from tests.outside.tools import JavaTools
from tests.outside.versions import OLDER_APACHE_KAFKA

ADMIN = "kafka.admin"
THROTTLE = 50_000_000
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def java_tools() -> Iterator[JavaTools]:
    with JavaTools(OLDER_APACHE_KAFKA) as tools:
        yield tools


@pytest.fixture
def ours(lend: Callable[..., Cluster], version: str) -> Cluster:
    """Three brokers of ours."""
    cluster: Cluster = lend(PROTOCOLS[version], lambda made: made.start({1: OURS, 2: OURS, 3: OURS}))
    return cluster


@pytest.fixture
def ask(ours: Cluster, java_tools: JavaTools) -> Ask:
    """Run a tool on the cluster's tree; what it printed."""

    def run(tool: str, *arguments: object) -> str:
        return java_tools(f"{ADMIN}.{tool}", "--zookeeper", ours.tree.connect, *map(str, arguments))

    return run


def described(ask: Ask, *arguments: str) -> list[list[str]]:
    """What `--describe` says of each partition: its number, leader, replicas and in-sync set."""
    lines = ask("TopicCommand", "--describe", *arguments).splitlines()
    rows = [line.split() for line in lines if "Leader:" in line]
    return [row[3::2] for row in rows]


def value_known_to(cluster: Cluster, broker: int, topic: str, key: str) -> str | None:
    """What one broker says of one setting of a topic."""
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = cluster.admin.describe_configs([wanted], broker=broker).values()
    value: str | None = future.result(SECONDS_MAX)[key].value
    return value


def wait_until_known(cluster: Cluster, topic: str, key: str, value: str) -> None:
    for broker in cluster.brokers:
        cluster.wait(
            lambda one=broker: value_known_to(cluster, one, topic, key) == value,
            f"{broker} knows {key}={value} of {topic}",
        )


def partitions_of(cluster: Cluster, topic: str, count: int) -> list[Partition]:
    """The topic's partitions, led and with all replicas in sync."""
    partitions = [(topic, number) for number in range(count)]
    cluster.wait_for_full_isr(partitions)
    return partitions


def test_a_topic_is_made_described_altered_and_deleted(ours: Cluster, ask: Ask) -> None:
    settings = ["--config", "retention.ms=7200000"]
    made = ask("TopicCommand", "--create", "--topic", "tooled", "--partitions", 3, "--replication-factor", 2, *settings)
    assert "Created topic tooled." in made
    partitions = partitions_of(ours, "tooled", 3)
    early = written(ours, partitions)
    assert "tooled" in ask("TopicCommand", "--list").split()
    replicas = ours.tree.assignment("tooled")
    rows = described(ask, "--topic", "tooled")
    assert [(row[0], row[1], set(row[2].split(","))) for row in rows] == [
        (str(number), str(ids[0]), set(map(str, ids))) for number, ids in sorted(replicas.items())
    ]
    wait_until_known(ours, "tooled", "retention.ms", "7200000")
    ask("TopicCommand", "--alter", "--topic", "tooled", "--partitions", 5)
    partitions = partitions_of(ours, "tooled", 5)
    assert_kept(ours, partitions, early, written(ours, partitions))
    assert "marked for deletion" in ask("TopicCommand", "--delete", "--topic", "tooled")
    nodes = ("/brokers/topics/tooled", "/config/topics/tooled", "/admin/delete_topics/tooled")
    ours.wait(lambda: not any(ours.tree.exists(node) for node in nodes), "every node of the topic is gone")
    for broker in ours.brokers:
        ours.wait(lambda one=broker: not folders(ours, one, "tooled"), f"{broker} has removed the topic's folders")


def test_a_topics_settings_are_changed_and_taken_back(ours: Cluster, ask: Ask) -> None:
    partitions = ours.create("tuned", [[1, 2, 3]])
    entity = ("--entity-type", "topics", "--entity-name", "tuned")
    ask("ConfigCommand", "--alter", *entity, "--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]")
    wait_until_known(ours, "tuned", "max.message.bytes", "2000")
    wait_until_known(ours, "tuned", "cleanup.policy", "compact,delete")
    said = ask("ConfigCommand", "--describe", *entity)
    assert "max.message.bytes=2000" in said
    ask("ConfigCommand", "--alter", *entity, "--delete-config", "cleanup.policy,max.message.bytes")
    wait_until_known(ours, "tuned", "max.message.bytes", "1048588")
    assert config_of(ours.tree, "tuned") == {}
    assert_kept(ours, partitions, written(ours, partitions))


def test_the_topic_tool_changes_settings_too(ours: Cluster, ask: Ask) -> None:
    ours.create("retuned", [[1, 2]])
    ask("TopicCommand", "--alter", "--topic", "retuned", "--config", "retention.bytes=1000000")
    wait_until_known(ours, "retuned", "retention.bytes", "1000000")
    ask("TopicCommand", "--alter", "--topic", "retuned", "--delete-config", "retention.bytes")
    wait_until_known(ours, "retuned", "retention.bytes", "-1")


def test_under_replicated_and_leaderless_partitions_are_listed(ours: Cluster, ask: Ask) -> None:
    followed, alone = ours.create("thinned", [[1, 2]]), ours.create("thinned-alone", [[2]])
    ours.brokers[2].stop()
    ours.wait_for_isr(followed[0], {1})
    ours.wait_for_leader(alone[0], -1)
    assert ["0", "1", "1,2", "1"] in described(ask, "--under-replicated-partitions")
    assert described(ask, "--unavailable-partitions") == [["0", "none", "2", "2"]]
    ours.restart(2)
    ours.wait_for_full_isr(followed)
    ours.wait_for_leader(alone[0], 2)


def test_the_preferred_leaders_are_elected(ours: Cluster, ask: Ask, tmp_path: Path) -> None:
    partitions = ours.create("given-back", [[3, 1], [3, 2], [1, 3]])
    ours.brokers[3].stop()
    ours.wait_until_gone(3)
    ours.restart(3)
    ours.wait_for_full_isr(partitions)
    assert [ours.leader(one) for one in partitions] == [1, 2, 1]
    ask("PreferredReplicaLeaderElectionCommand", "--path-to-json-file", rows_in(tmp_path, partitions[:1]))
    ours.wait_for_leader(partitions[0], 3)
    ours.wait(lambda: not ours.tree.exists("/admin/preferred_replica_election"), "the election is taken")
    assert ours.leader(partitions[1]) == 2
    ask("PreferredReplicaLeaderElectionCommand")  # All partitions that there are.
    ours.wait_for_leader(partitions[1], 3)
    ours.wait(lambda: not ours.tree.exists("/admin/preferred_replica_election"), "the election is taken")


def rows_in(folder: Path, partitions: list[Partition]) -> Path:
    rows = [{"topic": topic, "partition": number} for topic, number in partitions]
    return file_with(folder, {"partitions": rows})


def file_with(folder: Path, value: Any) -> Path:
    path = folder / "input.json"
    path.write_text(json.dumps(value))
    return path


def test_a_reassignment_is_generated_executed_with_a_throttle_and_verified(
    ours: Cluster, ask: Ask, tmp_path: Path
) -> None:
    partitions = ours.create("spread", [[1, 2], [2, 1]])
    early = written(ours, partitions)
    topics = file_with(tmp_path, {"topics": [{"topic": "spread"}], "version": 1})
    tool = "ReassignPartitionsCommand"
    said = ask(tool, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    wanted = json.loads(said.splitlines()[-1])
    targets = {row["partition"]: row["replicas"] for row in wanted["partitions"]}
    assert {frozenset(ids) for ids in targets.values()} == {frozenset({2, 3})}
    path = file_with(tmp_path, wanted)
    said = ask(tool, "--execute", "--reassignment-json-file", path, "--throttle", THROTTLE)
    assert "Successfully started partition reassignments" in said
    assert ours.tree.read("/config/brokers/3")["config"] == {
        "leader.replication.throttled.rate": str(THROTTLE),
        "follower.replication.throttled.rate": str(THROTTLE),
    }
    ours.wait(lambda: not ours.tree.exists("/admin/reassign_partitions"), "the reassignment is done")
    assert ours.tree.assignment("spread") == targets
    for partition in partitions:
        ours.wait_for_isr(partition, {2, 3})
    said = ask(tool, "--verify", "--reassignment-json-file", path)
    assert said.count("is complete") == len(partitions)
    assert ours.tree.read("/config/brokers/3")["config"] == {}
    assert config_of(ours.tree, "spread") == {}
    ours.wait(lambda: not folders(ours, 1, "spread"), "1 has removed the partitions")
    assert_kept(ours, partitions, early, written(ours, partitions))


def test_a_reassignment_of_what_is_not_there_is_dropped(ours: Cluster) -> None:
    (partition,) = ours.create("here", [[1, 2]])
    ours.tree.reassign([("nowhere", 0, [1, 2]), ("here", 7, [1, 2]), ("here", 0, [2, 3])])
    ours.wait(lambda: not ours.tree.exists("/admin/reassign_partitions"), "the reassignment is done")
    assert ours.tree.assignment("here") == {0: [2, 3]}
    ours.wait_for_isr(partition, {2, 3})
