"""Apache Kafka's own command-line tools, and with them the Java client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.compat.sent import CODECS
from tests.outside.java import java_tool
from tests.outside.tools import TOOLS, JavaTools

MakeTopic = Callable[..., str]


def offsets(tool: JavaTools, bootstrap: str, topic: str, *arguments: str) -> dict[int, int]:
    """Partition -> offset, as GetOffsetShell prints them."""
    printed = tool("GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic, *arguments)
    found = re.findall(rf"^{re.escape(topic)}:(\d+):(\d+)$", printed, re.MULTILINE)
    return {int(partition): int(offset) for partition, offset in found}


def test_topic_command_creates_lists_describes_and_deletes(tool: JavaTools, bootstrap: str, topic: str) -> None:
    def topics(*arguments: str) -> str:
        return tool("TopicCommand", "--bootstrap-server", bootstrap, *arguments)

    shape = ["--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=1234567"]
    assert f"Created topic {topic}." in topics("--create", "--topic", topic, *shape)
    assert topic in topics("--list").split()
    described = topics("--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1234567" in described
    assert re.search(r"TopicId: [A-Za-z0-9_-]{22}\b", described)
    assert len(re.findall(r"Partition: \d\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3
    topics("--delete", "--topic", topic)
    assert topic not in topics("--list").split()


@pytest.mark.parametrize("codec", CODECS)
def test_producer_performance_sends_all_it_was_asked_to(
    tool: JavaTools, bootstrap: str, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(partitions=2)
    shape = ["--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    settings = [f"bootstrap.servers={bootstrap}", f"compression.type={codec}"]
    printed = tool("ProducerPerformance", "--topic", topic, *shape, "--producer-props", *settings)
    assert "20000 records sent" in printed
    assert sum(offsets(tool, bootstrap, topic).values()) == 20_000


def test_verifiable_producer_gets_every_record_acknowledged(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000", "--acks", "-1"]
    done = java_tool(f"{TOOLS}.VerifiableProducer", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    acknowledged = [event for event in events if event["name"] == "producer_send_success"]
    assert sorted(event["offset"] for event in acknowledged) == list(range(1_000))
    (summary,) = [event for event in events if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (1_000, 1_000)


def test_get_offset_shell_knows_the_special_times(tool: JavaTools, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    shape = ["--num-records", "10", "--record-size", "10", "--throughput", "-1"]
    tool("ProducerPerformance", "--topic", topic, *shape, "--producer-props", f"bootstrap.servers={bootstrap}")
    latest = offsets(tool, bootstrap, topic, "--time", "latest")
    assert sum(latest.values()) == 10
    assert offsets(tool, bootstrap, topic, "--time", "earliest") == {0: 0, 1: 0}
    assert offsets(tool, bootstrap, topic, "--time", "0") == {part: 0 for part, end in latest.items() if end}
    of_largest_time = offsets(tool, bootstrap, topic, "--time", "max-timestamp")
    assert all(0 <= of_largest_time[part] < end for part, end in latest.items() if end)
