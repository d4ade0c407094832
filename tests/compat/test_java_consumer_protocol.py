"""Apache Kafka's newest tools, and with them the Java consumer, with `group.protocol=consumer` (KIP-848)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from tests.compat.groups.polled import QUICK_MEMBERS, Group, polled_group
from tests.compat.test_java_groups import rows
from tests.outside.processes import SordiniProcess
from tests.outside.tools import TOOLS, JavaTools
from tests.outside.versions import NEWEST_APACHE_KAFKA

pytestmark = pytest.mark.slow
CONSUMER_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
CONSOLE_S_MAX = 35


@pytest.fixture(scope="module")
def newest(request: pytest.FixtureRequest) -> Iterator[JavaTools]:
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka 3.9 with ZooKeeper does not serve it")
    with JavaTools(NEWEST_APACHE_KAFKA) as tools:
        yield tools


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose consumer groups take steps at once."""
    with SordiniProcess(tmp_path_factory.mktemp("java-consumers"), QUICK_MEMBERS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def group(bootstrap: str, filled: str) -> Iterator[Group]:
    """A group named as the topic of two partitions, with two members that have one each."""
    with polled_group(bootstrap, filled) as group:
        group.join(filled)
        group.until_shared(2)
        group.join(filled)
        group.until_shared(1, 1)
        yield group


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_verifiable_consumer_reads_and_commits_by_each_assignor_of_the_coordinator(
    newest: JavaTools, bootstrap: str, filled: str, admin: KafkaAdminClient, assignor: str
) -> None:
    group = f"{filled}-verified"
    shape = ["--bootstrap-server", bootstrap, "--topic", filled, "--group-id", group, "--max-messages", "20"]
    protocol = ["--group-protocol", "consumer", "--group-remote-assignor", assignor]
    printed = newest("VerifiableConsumer", *shape, "--verbose", *protocol, "--reset-policy", "earliest")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assigned = [event for event in events if event["name"] == "partitions_assigned" and event["partitions"]]
    assert sorted(row["partition"] for row in assigned[0]["partitions"]) == [0, 1]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
    offsets = admin.list_group_offsets(group)[group]
    assert {partition.partition: offset.offset for partition, offset in offsets.items()} == {0: 10, 1: 10}


def test_the_console_consumer_subscribes_by_a_regular_expression(
    newest: JavaTools, bootstrap: str, filled: str
) -> None:
    shape = ["--bootstrap-server", bootstrap, "--group", f"{filled}-console", "--from-beginning"]
    protocol = ["--command-property", "group.protocol=consumer", "--max-messages", "20"]
    printed = newest(CONSOLE_CONSUMER, *shape, "--include", f"{filled[:-1]}.", *protocol)
    assert sorted(printed.split()[:20]) == sorted(str(number) for number in range(20))


def test_the_java_consumer_of_3_9_reads_by_the_first_version_of_the_protocol(
    tool: JavaTools, bootstrap: str, filled: str
) -> None:
    """The coordinator makes its member id, as in version 0 of ConsumerGroupHeartbeat."""
    shape = ["--bootstrap-server", bootstrap, "--topic", filled, "--group", f"{filled}-older", "--from-beginning"]
    protocol = ["--consumer-property", "group.protocol=consumer", "--max-messages", "20"]
    done = tool.run(CONSOLE_CONSUMER, *shape, *protocol, seconds=CONSOLE_S_MAX)
    assert (done.status, len(done.output.split())) == (0, 20), done.output + done.errors


def test_consumer_groups_describes_members_their_epochs_and_the_state(
    newest: JavaTools, group: Group, filled: str
) -> None:
    describe = ["--bootstrap-server", group.bootstrap, "--describe", "--group", filled]
    (state,) = rows(newest(CONSUMER_GROUPS, *describe, "--state", "--verbose"))
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("uniform", "Stable", "2")
    assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"] == "3"
    members = rows(newest(CONSUMER_GROUPS, *describe, "--members", "--verbose"))
    assert sorted(row["CURRENT-ASSIGNMENT"] for row in members) == [f"{filled}:0", f"{filled}:1"]
    assert {(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) for row in members} == {("3", "3")}
    listed = newest(f"{TOOLS}.GroupsCommand", "--bootstrap-server", group.bootstrap, "--list", "--consumer")
    assert re.search(rf"^{filled} +Consumer +consumer *$", listed, re.MULTILINE)


def test_consumer_groups_leaves_offsets_of_a_group_in_use_as_they_are(
    newest: JavaTools, group: Group, filled: str
) -> None:
    common = ["--bootstrap-server", group.bootstrap, "--group", filled]
    for arguments, reason in (
        (["--reset-offsets", "--to-earliest", "--topic", filled, "--execute"], "the current state is Stable"),
        (["--delete"], "not empty"),
        (["--delete-offsets", "--topic", filled], "subscribed"),
    ):
        done = newest.run(CONSUMER_GROUPS, *common, *arguments)
        assert reason.lower() in (done.output + done.errors).lower()
