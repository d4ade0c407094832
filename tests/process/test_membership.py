"""A broker's place in a cluster on a real ZooKeeper that hangs, is restarted, or gives the broker up."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.build import a_batch
from tests.outside.java import ZooKeeperProcess
from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess, SordiniProcess
from tests.process.wire import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

SUSPENDED = "session may be over by this broker's clock; leading nothing until the store answers"
RESUMED = "coordination store answers again in the same session; leading as before"
EXPIRED = "session has expired; leading nothing until this broker is registered anew"
REGISTERED = re.compile(r"registered +.*broker_epoch=(\d+)")


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper of one's own, which may be stopped and started."""
    with ZooKeeperProcess(tmp_path_factory.mktemp("own-zookeeper")) as process:
        yield process


@pytest.fixture
def chroot(ensemble: ZooKeeperProcess) -> str:
    return f"{ensemble.connect}/{uuid4().hex}"


def settings(chroot: str, broker_id: int = 1, timeout_ms: int = 1_500, **others: object) -> dict[str, object]:
    return {
        "zookeeper.connect": chroot,
        "broker.id": broker_id,
        "zookeeper.session.timeout.ms": timeout_ms,
        "zookeeper.connection.timeout.ms": 20_000,
        "controlled.shutdown.retry.backoff.ms": 100,
        **{key.replace("_", "."): value for key, value in others.items()},
    }


@contextmanager
def hung(process: OutsideProcess) -> Iterator[None]:
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@contextmanager
def looking_into(chroot: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=chroot, timeout=10)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def produce(client: Client, topic: str = "orders") -> int:
    """The error code."""
    return client.produce(topic, [a_batch(1)])[0].error_code


def test_while_zookeeper_hangs_a_leader_serves_until_its_own_clock_says_that_it_may_be_replaced(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=2_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    assert produce(client) == ErrorCode.NONE
    with hung(ensemble):
        answers = [produce(client)]
        assert answers == [ErrorCode.NONE], "served, and at once: nothing waits for ZooKeeper"
        until(lambda: answers.append(produce(client)) is None and answers[-1] != ErrorCode.NONE)
        assert answers[-1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert SUSPENDED in broker.output()
        assert client.metadata("orders").topics[0].name == "orders", "what needs no leader is served on"
    until(lambda: produce(client) == ErrorCode.NONE)
    assert len(client.fetch("orders")) >= len(answers) * len(a_batch(1))


def test_a_zookeeper_that_was_restarted_finds_the_session_and_the_broker_leads_on_in_its_terms(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=4_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    ensemble.kill()
    assert produce(client) == ErrorCode.NONE
    until(lambda: SUSPENDED in broker.output())
    assert produce(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    ensemble.start()
    until(lambda: produce(client) == ErrorCode.NONE)
    assert RESUMED in broker.output()
    assert len(REGISTERED.findall(broker.output())) == 1
    with looking_into(chroot) as tree:
        assert b'"leader_epoch":0' in tree.get("/brokers/topics/orders/partitions/0/state")[0]


def test_a_broker_that_was_given_up_registers_anew_with_a_newer_epoch_and_leads_again(
    start_sordini: Start, connect: Connect, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=1_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    with looking_into(chroot) as tree:
        first = tree.exists("/brokers/ids/1")
        with hung(broker):
            until(lambda: tree.exists("/brokers/ids/1") is None)
        until(lambda: tree.exists("/brokers/ids/1") is not None)
        data, stat = tree.get("/brokers/ids/1")
        assert (stat.czxid > first.czxid, stat.version, data[:1]) == (True, 1, b"{")
        until(lambda: produce(client) == ErrorCode.NONE)
        assert EXPIRED in broker.output()
        assert REGISTERED.findall(broker.output()) == [str(first.czxid), str(stat.czxid)]
    assert client.create("more") == [0], "whoever kept the first session has the next"


def test_an_isolated_broker_stops_in_order_and_in_time(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=4_000))
    assert connect(broker).create("orders") == [0]
    with hung(ensemble):
        assert broker.stop() == 0, broker.tail()
    assert (broker.data_directory / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("topics", "code"), [(["payments"], ErrorCode.LEADER_NOT_AVAILABLE), ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_no_topic_is_called_unknown_before_a_controller_has_told_of_those_that_there_are(
    chroot: str, tmp_path: Path, topics: list[str], code: ErrorCode
) -> None:
    broker = SordiniProcess(tmp_path / "told-nothing", settings(chroot, timeout_ms=20_000))
    address, root = chroot.split("/")
    with looking_into(address) as tree:
        tree.ensure_path(f"/{root}/brokers/topics")
        tree.create(
            f"/{root}/controller", b'{"version":1,"brokerid":9,"timestamp":"1"}', ephemeral=True
        )  # It says nothing.
        for name in topics:
            tree.create(f"/{root}/brokers/topics/{name}", b'{"version":2,"partitions":{"0":[9]}}')
        broker.launch()
        try:
            until(lambda: REGISTERED.search(broker.output()) is not None)
            host, port = broker.bootstrap.split(":")
            request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
            with Client(host, int(port)) as client:
                (row,) = client.ask(ApiKey.METADATA, 8, request).topics
            assert row.error_code == code
            assert not broker.is_ready()
        finally:
            broker.kill()


def test_brokers_register_in_one_tree_under_numbers_of_their_own_and_not_twice_with_one_address(
    start_sordini: Start, chroot: str, tmp_path: Path
) -> None:
    given = settings(chroot, -1, reserved_broker_max_id=20, broker_rack="r1")
    brokers = [start_sordini(given) for _ in range(2)]
    with looking_into(chroot) as tree:
        assert sorted(tree.get_children("/brokers/ids")) == ["21", "22"]
        assert b'"rack":"r1"' in tree.get("/brokers/ids/21")[0]
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "advertised.listeners": f"PLAINTEXT://{brokers[1].bootstrap}",
    }
    third = SordiniProcess(tmp_path / "third", {**settings(chroot, 3), **listeners})
    third.launch()
    assert third.wait_for_exit(20) == 1, third.tail()
    assert f"{brokers[1].bootstrap} is registered by broker 22" in third.output().splitlines()[-1]
