"""`sordini share`, and `sordini groups` with share groups, whose members are librdkafka's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.process.test_cli import run_here

Run = Callable[..., str]
Worker = Callable[..., ShareConsumer]
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("shares"), SETTINGS) as made:
        yield made


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    """What a command prints: to standard output, and what it refuses to standard error."""

    def run_command(*words: str, code: int = 0) -> str:
        done = run_here(broker.bootstrap, *words, code=code)
        return done.stderr if code else done.stdout

    return run_command


@pytest.fixture
def orders(run: Run, topic: str, tmp_path: Path) -> str:
    """A topic with three records, and the group `share-TOPIC`, which reads it from its beginning."""
    run("topics", "create", topic)
    lines = tmp_path / "lines"
    lines.write_text("apple\nfig\npear\n")
    run("produce", topic, "--file", str(lines))
    run("configs", "set", "--group", group_of(topic), "share.auto.offset.reset=earliest")
    return topic


@pytest.fixture
def work(broker: BrokerProcess) -> Iterator[Worker]:
    """Members of share groups, which leave at the end of the test."""
    with ExitStack() as stack:

        def start(topic: str) -> ShareConsumer:
            settings = {"bootstrap.servers": broker.bootstrap, "group.id": group_of(topic), "client.id": "till"}
            worker = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit", "log_level": 0})
            stack.callback(worker.close)
            worker.subscribe([topic])
            return worker

        yield start


def group_of(topic: str) -> str:
    return f"share-{topic}"


def polled(broker: BrokerProcess, worker: ShareConsumer) -> list[Any]:
    """The first records that it gets."""
    found: list[Any] = []

    def poll() -> bool:
        found.extend(message for message in worker.poll(1) if message.error() is None)
        return bool(found)

    broker.wait_until(poll, PATIENCE_S, "deliver")
    return found


def described(run: Run, group: str) -> dict[str, Any]:
    (found,) = json.loads(run("share", "describe", group, "--json"))
    assert isinstance(found, dict)
    return found


def test_the_history_of_a_share_group_has_who_came_and_went_and_what_each_one_got(
    broker: BrokerProcess, run: Run, orders: str, work: Worker
) -> None:
    group, worker = group_of(orders), work(orders)
    polled(broker, worker)
    worker.close()
    broker.wait_until(lambda: described(run, group)["state"] == "Empty", PATIENCE_S, "see it leave")
    found = json.loads(run("groups", "history", group, "--json"))["rebalances"]
    causes = [cause["cause"] for row in found for cause in row["causes"]]
    assert (causes[0], causes[-1]) == ("member_joined", "member_left")
    assert "states_initialized" in causes
    moves = [(move["partition"], move["from"] is None, move["to"] is None) for row in found for move in row["moves"]]
    assert moves == [(0, True, False), (0, False, True)]
    assert {row["protocol"] for row in found} == {"share"}
    text = run("groups", "history", group, "--last", "9")
    assert "TOOK     EPOCH" in text
    assert "CHANGED" in text
    assert text.count("TAKEN FROM") == 2
    assert "partitions initialized" in text


def test_a_share_group_is_described_with_its_members_and_what_is_not_done(
    broker: BrokerProcess, run: Run, orders: str, work: Worker
) -> None:
    group, worker = group_of(orders), work(orders)
    messages = polled(broker, worker)
    for message, kind in zip(messages, (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE), strict=False):
        worker.acknowledge(message, kind)
    for message in messages[2:]:
        worker.acknowledge(message, AcknowledgeType.ACCEPT)
    worker.commit_sync()
    broker.wait_until(lambda: described(run, group)["offsets"][0]["lag"] == 1, PATIENCE_S, "count")
    found = described(run, group)
    assert found == json.loads(run("groups", "describe", group, "--json"))[0]
    assert [found[key] for key in ("type", "state", "protocol", "assignor")] == ["share", "Stable", "share", "simple"]
    assert found["group_epoch"] == found["assignment_epoch"]
    assert found["offsets"] == json.loads(run("share", "offsets", group, "--json"))
    (row,) = found["offsets"]
    start = row.pop("start_offset")
    assert row == {"topic": orders, "partition": 0, "end_offset": 3, "lag": 1, "members": 1}
    assert start <= 1, "it may stay behind: what is done moves it with a later change"
    (member,) = found["members"]
    assert (member["client_id"], member["protocol"], member["subscribed_topics"]) == ("till", "share", [orders])
    assert member["partitions"] == member["target_partitions"] == [{"topic": orders, "partition": 0}]
    text = run("share", "describe", group, "--members")
    assert "\nType         share\nState        Stable\nAssignor     simple\n" in text
    assert f"\nMember       {member['member_id']}\n" in text
    (lag,) = json.loads(run("groups", "lag", group, "--json"))
    assert (lag["type"], lag["lag"], lag["oldest_unread"]["offset"]) == ("share", 1, start)


def test_share_groups_are_listed_by_both_commands(broker: BrokerProcess, run: Run, orders: str, work: Worker) -> None:
    group = group_of(orders)
    polled(broker, work(orders))
    (row,) = [row for row in json.loads(run("share", "list", "--json")) if row["group"] == group]
    assert row["type"] == "share"
    assert row in json.loads(run("groups", "list", "--type", "share", "--json"))
    assert group not in run("groups", "list", "--type", "consumer")


def test_offsets_are_reset_and_deleted_only_while_the_group_is_empty(
    broker: BrokerProcess, run: Run, orders: str
) -> None:
    group = group_of(orders)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0}
    worker = ShareConsumer(settings)
    worker.subscribe([orders])
    polled(broker, worker)
    to_earliest = ("share", "reset", group, "--topic", orders, "--to-earliest", "--execute")
    assert "offsets can be reset only while it is empty" in run(*to_earliest, code=1)
    assert "has members" in run("share", "delete", group, "--yes", code=1)
    worker.commit_sync()
    worker.close()
    broker.wait_until(lambda: described(run, group)["state"] == "Empty", PATIENCE_S, "empty the group")
    plan = json.loads(run(*to_earliest[:-1], "--json"))
    assert (plan["executed"], [row["new_offset"] for row in plan["offsets"]]) == (False, [0])
    for target, offset in (("--to-earliest", 0), ("--to-latest", 3), ("--to-datetime=2026-01-01", 0)):
        run("share", "reset", group, "--all-topics", target, "--execute")
        assert described(run, group)["offsets"][0]["start_offset"] == offset
    run("share", "reset", group, "--topic", f"{orders}:0", "--to-offset", "2", "--execute")
    assert described(run, group)["offsets"][0]["start_offset"] == 2
    for words in (("reset", group, "--topic", orders, "--to-latest"), ("delete-offsets", group, "-t", orders, "-y")):
        assert f"group '{group}' is a share group: `sordini share {words[0]}`" in run("groups", *words, code=1)
    assert f"offsets of {orders} deleted" in run("share", "delete-offsets", group, "--topic", orders, "--yes")
    assert described(run, group)["offsets"] == []
    assert run("share", "delete", group, "--yes") == f"{group} deleted\n"
    assert "does not exist" in run("share", "describe", group, code=1)


def accept_all(broker: BrokerProcess, orders: str) -> list[int]:
    """The offsets that a worker gets, which accepts them and leaves."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group_of(orders), "log_level": 0}
    worker = ShareConsumer(settings)
    worker.subscribe([orders])
    found = [message.offset() for message in polled(broker, worker)]
    worker.commit_sync()
    worker.close()
    return found


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_group_that_was_reset_or_deleted_reads_from_where_it_begins_now(
    broker: BrokerProcess, run: Run, orders: str, *, is_deleted: bool
) -> None:
    group = group_of(orders)
    assert accept_all(broker, orders) == [0, 1, 2]
    broker.wait_until(lambda: described(run, group)["state"] == "Empty", PATIENCE_S, "empty the group")
    if is_deleted:
        run("share", "delete", group, "--yes")
        run("configs", "set", "--group", group, "share.auto.offset.reset=earliest")
    else:
        run("share", "reset", group, "--topic", orders, "--to-earliest", "--execute")
    assert accept_all(broker, orders) == [0, 1, 2]


def test_a_reset_creates_a_group_and_says_so(broker: BrokerProcess, run: Run, orders: str) -> None:
    group = f"new-{orders}"
    words = ("share", "reset", group, "--topic", orders, "--to-latest")
    assert "--execute creates it" in run_here(broker.bootstrap, *words).stderr
    assert "it was created with these offsets" in run_here(broker.bootstrap, *words, "--execute").stderr
    assert described(run, group)["offsets"][0]["start_offset"] == 3
    assert run("groups", "delete", group, "--yes") == f"{group} deleted\n"


def test_groups_of_other_kinds_are_named_as_what_they_are(run: Run, orders: str) -> None:
    group = f"classic-{orders}"
    run("groups", "reset", group, "--topic", orders, "--to-latest", "--execute")
    for words in (("describe", group), ("offsets", group), ("delete", group, "--yes")):
        assert f"group '{group}' is a classic group, not a share group" in run("share", *words, code=1)


def test_wrong_usage_is_refused(run: Run) -> None:
    assert "give exactly one target" in run("share", "reset", "g", "--all-topics", code=2)
    assert "name the partitions" in run("share", "reset", "g", "--to-latest", code=2)
