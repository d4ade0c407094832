"""Groups and administration with Apache Kafka's own tools, and with them the Java consumer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from tests.outside.tools import JavaTools

MakeTopic = Callable[..., str]
Command = Callable[..., str]

CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "consumer.ConsoleConsumer"


@pytest.fixture
def groups(tool: JavaTools, bootstrap: str) -> Command:
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return lambda *arguments: tool(command, "--bootstrap-server", bootstrap, *arguments)


@pytest.fixture
def configs(tool: JavaTools, bootstrap: str) -> Command:
    return lambda *arguments: tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments)


def rows(printed: str) -> list[dict[str, str]]:
    """A table of the tools: a line of names in capitals, then lines of as many words."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    start = next(number for number, words in enumerate(lines) if words[0] == "GROUP")
    names = re.findall(r"COORDINATOR \(ID\)|\S+", next(line for line in printed.splitlines() if "GROUP" in line))
    found = []
    for words in lines[start + 1 :]:
        if "(" in " ".join(words) and "COORDINATOR (ID)" in names:
            words[1:3] = [" ".join(words[1:3])]
        found.append(dict(zip(names, words, strict=False)))
    return found


def test_lines_at_the_console_reach_a_group_of_console_consumers_once(
    tool: JavaTools, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    group = ["--group", topic, "--from-beginning", "--bootstrap-server", bootstrap, "--topic", topic]

    def produce(*lines: str) -> None:
        shape = ["--bootstrap-server", bootstrap, "--topic", topic, "--property", "parse.key=true"]
        tool(CONSOLE_PRODUCER, *shape, "--property", "key.separator=:", standard_input="\n".join(lines))

    produce("k1:one", "k2:two", "k3:three")
    printed = tool(f"org.apache.kafka.tools.{CONSOLE_CONSUMER}", *group, "--max-messages", "2")
    assert printed.split() == ["one", "two"]
    produce("k4:four")
    keyed = ["--property", "print.key=true", "--property", "print.offset=true", "--max-messages", "2"]
    printed = tool(f"org.apache.kafka.tools.{CONSOLE_CONSUMER}", *group, *keyed)
    assert printed.split() == ["Offset:2", "k3", "three", "Offset:3", "k4", "four"]


def test_consumer_performance_reads_all_it_was_asked_to(tool: JavaTools, bootstrap: str, filled: str) -> None:
    shape = ["--bootstrap-server", bootstrap, "--topic", filled, "--messages", "20", "--group", f"{filled}-perf"]
    printed = tool("ConsumerPerformance", *shape, "--hide-header", "--timeout", "20000")
    (figures,) = [line.split(", ") for line in printed.splitlines() if line.count(", ") >= 9]
    assert int(figures[4]) == 20


def test_verifiable_consumer_commits_what_it_read(
    tool: JavaTools, bootstrap: str, filled: str, admin: KafkaAdminClient
) -> None:
    group = f"{filled}-verified"
    shape = ["--bootstrap-server", bootstrap, "--topic", filled, "--group-id", group, "--max-messages", "20"]
    cooperative = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    printed = tool("VerifiableConsumer", *shape, "--verbose", "--assignment-strategy", cooperative)
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assigned = [event for event in events if event["name"] == "partitions_assigned"]
    assert sorted(one["partition"] for one in assigned[0]["partitions"]) == [0, 1]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in committed)
    offsets = admin.list_group_offsets(group)[group]
    assert {one.partition: offset.offset for one, offset in offsets.items()} == {0: 10, 1: 10}


def test_consumer_group_command_describes_a_living_group(groups: Command, member: KafkaConsumer, filled: str) -> None:
    assert filled in groups("--list").split()
    listed = {row["GROUP"]: row["STATE"] for row in rows(groups("--list", "--state"))}
    assert listed[filled] == "Stable"
    offsets = rows(groups("--describe", "--group", filled, "--offsets"))
    figures = [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in offsets]
    assert sorted(figures) == [("0", "3", "10", "7"), ("1", "4", "10", "6")]
    assert {row["CLIENT-ID"] for row in offsets} == {"watched"}
    assert {row["HOST"] for row in offsets} == {"/127.0.0.1"}
    (one,) = rows(groups("--describe", "--group", filled, "--members", "--verbose"))
    assert (one["#PARTITIONS"], one["ASSIGNMENT"]) == ("2", "(0,1)")  # The tool of 3.9.1 forgets the topic's name.
    (state,) = rows(groups("--describe", "--group", filled, "--state"))
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("range", "Stable", "1")


def test_consumer_group_command_leaves_a_living_group_as_it_is(
    tool: JavaTools, bootstrap: str, member: KafkaConsumer, filled: str, admin: KafkaAdminClient
) -> None:
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    common = ["--bootstrap-server", bootstrap, "--group", filled]
    reset = ["--reset-offsets", "--to-earliest", "--topic", filled, "--execute"]
    refused = tool.run(command, *common, *reset)
    assert "is inactive, but the current state is Stable" in refused.output + refused.errors
    refused = tool.run(command, *common, "--delete")
    assert "not empty" in (refused.output + refused.errors).lower()
    refused = tool.run(command, *common, "--delete-offsets", "--topic", filled)
    assert "subscribed" in (refused.output + refused.errors).lower()
    offsets = admin.list_group_offsets(filled)[filled]
    assert {one.partition: offset.offset for one, offset in offsets.items()} == {0: 3, 1: 4}


def test_consumer_group_command_resets_and_deletes_an_empty_group(
    groups: Command, member: KafkaConsumer, filled: str, admin: KafkaAdminClient
) -> None:
    member.close()

    def committed() -> dict[int, int]:
        return {one.partition: offset.offset for one, offset in admin.list_group_offsets(filled)[filled].items()}

    def planned(printed: str) -> dict[str, str]:
        words = printed.split()  # Four of them a row, and this table has no ends of lines.
        start = words.index("NEW-OFFSET") + 1
        return dict(zip(words[start + 2 :: 4], words[start + 3 :: 4], strict=True))

    reset = ["--group", filled, "--reset-offsets", "--topic"]
    assert planned(groups(*reset, filled, "--to-latest", "--dry-run")) == {"0": "10", "1": "10"}
    assert committed() == {0: 3, 1: 4}
    assert planned(groups(*reset, filled, "--shift-by", "-2", "--execute")) == {"0": "1", "1": "2"}
    assert committed() == {0: 1, 1: 2}
    groups(*reset, f"{filled}:1", "--to-offset", "9", "--execute")
    assert committed() == {0: 1, 1: 9}
    assert "Request succeed" in groups("--group", filled, "--delete-offsets", "--topic", f"{filled}:0")
    assert committed() == {1: 9}
    assert "was successful" in groups("--group", filled, "--delete")
    assert filled not in groups("--list").split()


def test_config_command_alters_topics_and_brokers(configs: Command, filled: str) -> None:
    topic = ["--entity-type", "topics", "--entity-name", filled]
    configs("--alter", *topic, "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]")
    described = configs("--describe", *topic)
    assert re.search(r"retention\.ms=1234567 .*DYNAMIC_TOPIC_CONFIG:retention\.ms=1234567", described)
    assert "cleanup.policy=compact,delete" in described
    configs("--alter", *topic, "--delete-config", "retention.ms")
    assert "retention.ms=" not in configs("--describe", *topic)
    defaults = ["--entity-type", "brokers", "--entity-default"]
    configs("--alter", *defaults, "--add-config", "log.cleaner.backoff.ms=14999")
    try:
        assert "log.cleaner.backoff.ms=14999" in configs("--describe", *defaults)
    finally:
        configs("--alter", *defaults, "--delete-config", "log.cleaner.backoff.ms")
    assert "log.cleaner.backoff.ms=14999" not in configs("--describe", *defaults)


def test_config_command_alters_one_broker_and_shows_all_of_it(configs: Command, admin: KafkaAdminClient) -> None:
    node = admin.describe_cluster()["brokers"][0]
    broker = ["--entity-type", "brokers", "--entity-name", str(node.get("node_id", node.get("broker_id")))]
    configs("--alter", *broker, "--add-config", "message.max.bytes=1048601")
    try:
        assert "DYNAMIC_BROKER_CONFIG:message.max.bytes=1048601" in configs("--describe", *broker)
        everything = configs("--describe", *broker, "--all")
        assert re.search(r"log\.segment\.bytes=\d+ .*DEFAULT_CONFIG:log\.segment\.bytes", everything)
    finally:
        configs("--alter", *broker, "--delete-config", "message.max.bytes")


def test_delete_records_command_moves_the_start(
    tool: JavaTools, bootstrap: str, filled: str, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": filled, "partition": 1, "offset": 6}]}))
    printed = tool("DeleteRecordsCommand", "--bootstrap-server", bootstrap, "--offset-json-file", str(wanted))
    assert re.search(rf"{filled}-1\s+low_watermark: 6", printed)


def test_log_dirs_command_knows_the_size_of_each_partition(tool: JavaTools, bootstrap: str, filled: str) -> None:
    printed = tool("LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", filled)
    (answer,) = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    (directory,) = answer["brokers"][0]["logDirs"]
    assert directory["error"] is None
    sizes = {one["partition"]: one["size"] for one in directory["partitions"]}
    assert set(sizes) == {f"{filled}-0", f"{filled}-1"}
    assert min(sizes.values()) > 61


def test_topic_command_adds_partitions(tool: JavaTools, bootstrap: str, filled: str) -> None:
    common = ["--bootstrap-server", bootstrap, "--topic", filled]
    tool("TopicCommand", *common, "--alter", "--partitions", "4")
    assert "PartitionCount: 4" in tool("TopicCommand", *common, "--describe")


def test_leader_election_command_finds_the_leader_in_place(tool: JavaTools, bootstrap: str, filled: str) -> None:
    which = ["--topic", filled, "--partition", "0", "--election-type", "preferred"]
    printed = tool("LeaderElectionCommand", "--bootstrap-server", bootstrap, *which)
    assert f"Valid replica already elected for partitions {filled}-0" in printed


def test_reassign_partitions_command_keeps_an_assignment(
    tool: JavaTools, bootstrap: str, filled: str, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    broker = admin.describe_topics([filled])[0]["partitions"][0]["leader_id"]
    same = [{"topic": filled, "partition": part, "replicas": [broker]} for part in range(2)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": same}))
    common = ["reassign.ReassignPartitionsCommand", "--bootstrap-server", bootstrap]
    common[0] = f"org.apache.kafka.tools.{common[0]}"
    printed = tool(*common, "--reassignment-json-file", str(plan), "--execute")
    assert f"Successfully started partition reassignments for {filled}-0,{filled}-1" in printed
    printed = tool(*common, "--reassignment-json-file", str(plan), "--verify")
    assert len(re.findall(rf"Reassignment of partition {filled}-\d is completed", printed)) == 2
    assert "No partition reassignments found" in tool(*common, "--list")
