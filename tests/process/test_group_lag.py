"""`sordini groups lag` with groups of both kinds, whose members are librdkafka's, and with checkpoints of Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.outside.processes import SordiniProcess
from tests.process.test_cli import run_here
from tests.process.test_consumer_group_commands import PROTOCOLS, SETTINGS
from tests.support.group_consumer import GroupConsumer, joined, poll_until

Run = Callable[..., str]
Join = Callable[..., GroupConsumer]
OFFSETS = 'v1\n{{"batchWatermarkMs":0}}\n{{"{topic}":{{"0":{offset},"1":{offset}}}}}'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("lag"), SETTINGS) as made:
        yield made


@pytest.fixture
def run(broker: SordiniProcess) -> Run:
    """What `sordini groups` prints: to standard output, and what it refuses to standard error."""

    def run_groups(*words: str, code: int = 0) -> str:
        done = run_here(broker.bootstrap, "groups", *words, code=code)
        return done.stderr if code else done.stdout

    return run_groups


@pytest.fixture
def orders(broker: SordiniProcess, topic: str) -> str:
    """A topic of two partitions."""
    run_here(broker.bootstrap, "topics", "create", topic, "--partitions", "2")
    return topic


@pytest.fixture
def join(broker: SordiniProcess) -> Iterator[Join]:
    with ExitStack() as stack:
        yield lambda *names, **settings: stack.enter_context(joined(broker.bootstrap, *names, **settings))


def produce(broker: SordiniProcess, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0


def read(join: Join, group: str, topic: str, count: int, **settings: object) -> GroupConsumer:
    consumer = join(group, topic, **{"enable.auto.commit": False, **settings})
    poll_until([consumer], lambda: len(consumer.values) == count)
    consumer._consumer.commit(asynchronous=False)
    return consumer


def snapshot(run: Run, *words: str) -> dict[str, Any]:
    (found,) = json.loads(run("lag", *words, "--json"))
    return dict(found)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_came_after_the_commit_is_the_lag_and_has_an_age(
    broker: SordiniProcess, run: Run, orders: str, join: Join, protocol: str
) -> None:
    group = f"group-{orders}"
    produce(broker, orders, 3)
    read(join, group, orders, 3, **{"group.protocol": protocol})
    produce(broker, orders, 4)
    found = snapshot(run, group)
    first, second = found["partitions"]
    assert (found["type"], found["members"], found["lag"], first["lag"]) == (protocol, 1, 4, 4)
    assert (first["condition"], first["committed_offset"], first["end_offset"]) == ("behind", 3, 7)
    assert (second["condition"], second["without_owner"]) == ("caught up", False), "there is nothing to read"
    unread = first["oldest_unread"]
    assert (unread["offset"], unread["exact"], unread["timestamp_type"]) == (3, True, "CreateTime")
    assert unread["own_age_s"] >= 0
    assert unread["appended_at_least_s_ago"] >= 0
    text = run("lag", group)
    assert text.startswith(f"Group {group} ({protocol}, Stable, 1 member)\n4 records behind")
    assert f"\n{orders}:0 " in text
    assert f"{orders}:1" not in text
    assert "1 partition caught up." in text
    assert f"{orders}:1" in run("lag", group, "--all")
    line = next(line for line in run("lag").splitlines() if line.startswith(f"{group} "))
    assert line.split()[1:3] == ["Stable", "4"]


def test_markers_and_aborted_records_are_not_waited_for(
    broker: SordiniProcess, run: Run, orders: str, join: Join
) -> None:
    """The lag is what Kafka's tools call so; there is no unread record."""
    group = f"group-{orders}"
    produce(broker, orders, 2)
    read(join, group, orders, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": orders})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(orders, "aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    found = snapshot(run, group)["partitions"][0]
    assert (found["lag"], found["condition"], found["oldest_unread"]) == (2, "caught up", None)
    assert snapshot(run, group, "--read-uncommitted")["partitions"][0]["oldest_unread"]["offset"] == 2
    producer.begin_transaction()
    producer.produce(orders, "open", partition=0)
    producer.flush()
    found = snapshot(run, group)["partitions"][0]
    assert (found["last_stable_offset"], found["end_offset"], found["condition"]) == (4, 5, "caught up")
    assert "Behind an open transaction: 1 offset of 1 partition." in run("lag", group, "--all")
    producer.commit_transaction()
    assert snapshot(run, group)["partitions"][0]["oldest_unread"]["offset"] == 4


def test_records_that_were_deleted_before_they_were_read_are_reported(
    broker: SordiniProcess, run: Run, orders: str, join: Join
) -> None:
    group = f"group-{orders}"
    produce(broker, orders, 3)
    with joined(broker.bootstrap, group, orders, **{"enable.auto.commit": False}) as consumer:
        poll_until([consumer], lambda: len(consumer.values) == 3)
        consumer._consumer.commit(offsets=[TopicPartition(orders, 0, 1)], asynchronous=False)
        run_here(broker.bootstrap, "topics", "delete-records", orders, "--all", "--yes")
        found = snapshot(run, group)["partitions"][0]
        assert (found["condition"], found["expired"], found["lag"]) == ("offset before the log start", 2, 2)
        assert "2 records deleted unread" in run("lag", group)


def test_offsets_of_a_topic_that_is_gone_and_groups_that_are_not_there_are_reported(run: Run) -> None:
    refused = run("lag", "no-such-group", "nor-this", code=1)
    assert "group 'no-such-group' does not exist" in refused
    assert "group 'nor-this' does not exist" in refused


def test_a_watch_looks_again_and_ends_after_so_many_looks(
    broker: SordiniProcess, run: Run, orders: str, join: Join
) -> None:
    group = f"group-{orders}"
    produce(broker, orders, 2)
    read(join, group, orders, 2)
    lines = run("lag", group, "--watch", "--count", "2", "--interval", "0.5", "--json").splitlines()
    assert [json.loads(line)["groups"][0]["group"] for line in lines] == [group, group]
    text = run("lag", group, "--watch", "--count", "2", "--interval", "0.5")
    assert text.count("Ctrl-C ends it") == 2
    assert "\x1b" not in text, "it is no terminal"
    done = run_here(broker.bootstrap, "groups", "lag", "--count", "2", code=2)
    assert "--count is for --watch" in done.stderr


def test_a_checkpoint_of_spark_has_a_lag(broker: SordiniProcess, run: Run, orders: str, tmp_path: Path) -> None:
    produce(broker, orders, 5)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for number, offset in ((0, 0), (1, 2), (2, 5)):
        (tmp_path / "offsets" / str(number)).write_text(OFFSETS.format(topic=orders, offset=offset))
    for number in (0, 1):
        (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    found = snapshot(run, "--checkpoint", str(tmp_path))
    assert (found["group"], found["type"], found["lag"]) == (str(tmp_path), "checkpoint", 3)
    first, second = found["partitions"]
    assert (first["condition"], first["oldest_unread"]["offset"]) == ("behind", 2)
    assert second["condition"] == "offset after the log end", "the topic was made again, or has lost records"
    assert run("lag", "--checkpoint", f"file://{tmp_path}").startswith(f"Checkpoint {tmp_path}\n3 records behind")


def test_a_folder_that_is_no_checkpoint_is_reported(run: Run, tmp_path: Path) -> None:
    assert f"{tmp_path}/none: there is no such directory" in run("lag", "--checkpoint", f"{tmp_path}/none", code=1)
    assert f"{tmp_path} is no checkpoint of Spark" in run("lag", "--checkpoint", str(tmp_path), code=1)
