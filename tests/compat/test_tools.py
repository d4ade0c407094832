"""Apache Kafka's newest tools, all of them, before three of our brokers: tests/compat/tools/calls.txt is the table.

A run has the calls that are marked so; with SORDINI_TOOLS=all, which `make tools` sets, it has all of them. A
partition's transaction hangs: no coordinator knows of it, as with producers before KIP-890.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cluster.cluster import OURS, SECONDS_MAX, Cluster
from tests.compat.situations.batches import batch
from tests.compat.tools.table import MAIN_CLASSES, PACKAGE, PATH, Call, read_calls
from tests.outside.java import SHORT_LIVED
from tests.outside.needs import need_java, tool_jars
from tests.outside.tools import JavaTools
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.support.wire_client import Client

ALL = os.environ.get("SORDINI_TOOLS", "") == "all"
TRANSACTIONAL = 0x10
HUNG_PRODUCER = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": 0}
HOUR_MS = 3_600_000
CALL_SECONDS_MAX = 60.0
READING_SECONDS_MAX = 10.0


class Place(NamedTuple):
    """Where the tools are run."""

    cluster: Cluster
    directory: Path

    @property
    def names(self) -> dict[str, str]:
        """What stands for the placeholders of a call."""
        (log,) = (self.directory / "cluster").glob("1-ours/data*/hung-0/*.log")
        return {"b": self.cluster.bootstrap, "dir": str(self.directory), "log": str(log)}


@pytest.fixture(scope="module")
def place(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tools")
    (directory / "cluster").mkdir()
    made = Cluster(directory / "cluster", f"{zookeeper}/{directory.name}", "3.9")
    try:
        # Without the verification of KIP-890 a batch may begin a transaction of which no coordinator knows.
        made.start({1: OURS, 2: OURS, 3: OURS}, {"transaction.partition.verification.enable": "false"})
        made.create_internal((1, 2, 3))
        for topic in ("hung", "held"):
            made.wait_until_known(made.create(topic, [[1, 2]]))
            _leave_hanging(made, topic)
        _write_files(directory)
        yield Place(made, directory)
        assert made.errors() == []
    finally:
        made.close()


def _leave_hanging(cluster: Cluster, topic: str) -> None:
    records = batch(2, attributes=TRANSACTIONAL, base_timestamp=int(time.time() * 1000) - HOUR_MS, **HUNG_PRODUCER)
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(transactional_id="unknown", acks=-1, timeout_ms=20_000, topic_data=data)
    with Client("127.0.0.1", cluster.brokers[1].port) as client:
        answer = client.ask(ApiKey.PRODUCE, 9, request)
    assert [row.error_code for found in answer.responses for row in found.partition_responses] == [0]


def _write_files(directory: Path) -> None:
    def reassigned(topic: str, partition: int, *replicas: int) -> list[dict[str, object]]:
        return [{"topic": topic, "partition": partition, "replicas": replicas}]

    def deleted(before: int) -> list[dict[str, object]]:
        return [{"topic": "placed", "partition": 0, "offset": before}]

    partitions = {
        "delete": deleted(1),
        "delete-beyond": deleted(10**9),
        "same": reassigned("placed", 3, 1, 2),
        "reassign": reassigned("placed", 0, 3, 1),
        "unknown": reassigned("nothere", 0, 1),
        "strange": reassigned("placed", 0, 9),
    }
    for name, rows in partitions.items():
        (directory / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    (directory / "move.json").write_text(json.dumps({"version": 1, "topics": [{"topic": "placed"}]}))
    (directory / "empty.properties").write_text("")


def _ran(tools: JavaTools, call: Call, names: dict[str, str]) -> list[str]:
    """What was not as expected, with everything that was printed."""
    arguments, deadline = call.arguments(names), time.monotonic() + READING_SECONDS_MAX
    while True:
        done = tools.run(call.main_class, *arguments, standard_input=call.standard_input, seconds=CALL_SECONDS_MAX)
        complaints = call.complaints(done.status, done.output + done.errors)
        if not complaints or not call.is_repeatable or time.monotonic() > deadline:
            break
    return [f"{call.line}\n  {'; '.join(complaints)}\n{done.output}{done.errors}"] if complaints else []


def test_every_call_of_the_newest_tools_ends_as_expected(place: Place) -> None:
    calls = [call for call in read_calls(PATH.read_text()) if ALL or call.is_quick]
    names = place.names
    with JavaTools(NEWEST_APACHE_KAFKA) as tools:
        failed = [complaint for call in calls for complaint in _ran(tools, call, names)]
    assert not failed, "\n".join(["", *failed])
    assert len(calls) >= (170 if ALL else 60)


def test_the_table_has_every_tool_and_says_something_of_each_call() -> None:
    calls = read_calls(PATH.read_text())
    assert {call.line.split(" ")[0] for call in calls} == MAIN_CLASSES.keys()
    assert [call.line for call in calls if call.status < 0] == []
    with pytest.raises(ValueError, match="is no line of a table"):
        read_calls("$ topics --list\n0\nCreated")


def test_an_unexpected_end_or_word_and_a_missing_one_are_complaints() -> None:
    (call,) = read_calls("$ topics --list {b}\n< a\\nb\n1\n~ ^orders$\n! Exception")
    assert call.arguments({"b": "here"}) == ["--list", "here"]
    assert call.standard_input == "a\nb"
    assert call.complaints(1, "placed\norders\n") == []
    assert len(call.complaints(0, "placed\nan Exception")) == 3


@pytest.mark.skipif(not ALL, reason="of every release: `make tools`")
def test_every_tool_that_the_release_has_is_in_the_table_or_needs_no_cluster() -> None:
    """Else a new release brings a tool that is never called."""
    listed = subprocess.run(
        ["unzip", "-l", str(tool_jars(NEWEST_APACHE_KAFKA) / f"kafka-tools-{NEWEST_APACHE_KAFKA}.jar")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = set(
        re.findall(rf"{PACKAGE.replace('.', '/')}/([\w/]*(?:Command|Tool|Performance|Shell|Consumer))\.class", listed)
    )
    known = {name.replace(".", "/") for name in MAIN_CLASSES.values()}
    elsewhere = {"ConnectPluginPath", "ReplicaVerificationTool", "JmxTool", "OAuthCompatibilityTool"}
    assert {name for name in found - known if "$" not in name} - elsewhere - {"VerifiableShareConsumer"} == set()


def test_hanging_transactions_are_found_by_the_broker_with_the_tools_of_3_9(place: Place, tool: JavaTools) -> None:
    arguments = ["--bootstrap-server", place.cluster.bootstrap]
    described = [
        tool("TransactionsCommand", *arguments, "describe-producers", "--topic", "held", "--partition", "0", *which)
        for which in ([], ["--broker-id", "1"], ["--broker-id", "2"])
    ]
    assert len({re.sub(r"[ \t]+", " ", one) for one in described}) == 1
    assert re.search(r"^4711\s", described[0], re.MULTILINE)
    found = [tool("TransactionsCommand", *arguments, "find-hanging", "--broker-id", str(one)) for one in (1, 2, 3)]
    assert [bool(re.search(r"^held\s+0\s+4711\s", one, re.MULTILINE)) for one in found] == [True, True, False]


@pytest.mark.skipif(not ALL, reason="a JVM of its own: `make tools`")
def test_replica_verification_finds_the_replicas_of_a_partition_equal(place: Place) -> None:
    """It fetches from each replica as a debugging consumer, and has no end."""
    jars = str(tool_jars(NEWEST_APACHE_KAFKA) / "*")
    arguments = ["--broker-list", place.cluster.bootstrap, "--topics-include", "hung", "--report-interval-ms", "200"]
    command = [need_java(), *SHORT_LIVED, "-Xmx128m", "-cp", jars, f"{PACKAGE}.ReplicaVerificationTool", *arguments]
    printed = place.directory / "replica-verification.log"
    with printed.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while "max lag is 0 for partition hung-0" not in printed.read_text():
                assert process.poll() is None, printed.read_text()
                assert time.monotonic() < deadline, printed.read_text()
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    assert "ERROR" not in printed.read_text()
