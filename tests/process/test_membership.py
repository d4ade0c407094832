"""A broker's place in a cluster on a real ZooKeeper that hangs, is restarted, or gives the broker up."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.outside.java import ZooKeeperProcess
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

SILENT = "coordination store disconnected; fetch, produce with acks=all and groups continue"
DOUBTFUL = "session may have expired by this broker's clock; still leading in the current leader epochs"
BACK = "coordination store reconnected"
RESUMED = "coordination store reconnected in the same session"
EXPIRED = "session expired; registering again, still leading in the current leader epochs"
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


def commit(client: Client, offset: int) -> int:
    """The error code of a group's commit."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    answer = client.ask(ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id="g", topics=[topic]))
    code: int = answer.topics[0].partitions[0].error_code
    return code


def coordinator(client: Client) -> int:
    """The port of the group's coordinator; 0 while there is none."""
    answer = client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
    return 0 if answer.error_code else int(answer.port)


def leader(client: Client) -> int:
    """The port of the topic's leader, by one broker's metadata; 0 while it knows none."""
    metadata = client.metadata("orders")
    ports = {broker.node_id: broker.port for broker in metadata.brokers}
    return ports.get(metadata.topics[0].partitions[0].leader_id, 0)


def test_three_brokers_read_write_and_commit_through_an_outage_that_outlives_their_sessions(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    kept = {"min_insync_replicas": 2, "offsets_topic_num_partitions": 1, "default_replication_factor": 3}
    brokers = [start_sordini(settings(chroot, number, **kept)) for number in (1, 2, 3)]
    first = connect(brokers[0])
    until(lambda: len(first.metadata().brokers) == 3)
    assert first.create("orders", replicas=3) == [0]
    until(lambda: coordinator(first) != 0)
    writer, committer = connect(leader(first)), connect(coordinator(first))
    until(lambda: commit(committer, 0) == ErrorCode.NONE)
    state = "/brokers/topics/orders/partitions/0/state"
    with looking_into(chroot) as tree:
        before = json.loads(tree.get(state)[0])
    written = 0
    with ensemble.hung():

        def all_goes_on() -> None:
            nonlocal written
            assert produce(writer) == ErrorCode.NONE
            written += 1
            assert len(writer.fetch("orders", offset=written - 1)) == len(a_batch(1)), "what is acknowledged"
            assert commit(committer, written) == ErrorCode.NONE

        until(lambda: all_goes_on() is None and all(DOUBTFUL in broker.output() for broker in brokers))
        for _ in range(20):
            all_goes_on()
    with looking_into(chroot) as tree:
        until(lambda: sorted(tree.get_children("/brokers/ids")) == ["1", "2", "3"])
        until(lambda: all(BACK in broker.output() for broker in brokers))
        until(lambda: len(json.loads(tree.get(state)[0])["isr"]) == 3)
        after = json.loads(tree.get(state)[0])
    assert after["leader_epoch"] >= before["leader_epoch"]
    until(lambda: leader(first) != 0 and produce(connect(leader(first))) == ErrorCode.NONE)
    until(lambda: len(connect(leader(first)).fetch("orders")) >= (written + 1) * len(a_batch(1)))
    until(lambda: coordinator(first) != 0 and commit(connect(coordinator(first)), written) == ErrorCode.NONE)
    for broker in brokers:
        assert "Traceback" not in broker.output(), broker.tail()


def test_a_zookeeper_that_was_restarted_finds_the_session_and_the_broker_leads_on_in_its_terms(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=4_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    ensemble.kill()
    assert produce(client) == ErrorCode.NONE
    until(lambda: DOUBTFUL in broker.output())
    assert produce(client) == ErrorCode.NONE
    assert client.metadata("orders").topics[0].name == "orders"
    ensemble.start()
    until(lambda: RESUMED in broker.output())
    assert produce(client) == ErrorCode.NONE
    assert len(REGISTERED.findall(broker.output())) == 1
    with looking_into(chroot) as tree:
        assert b'"leader_epoch":0' in tree.get("/brokers/topics/orders/partitions/0/state")[0]


def test_a_broker_whose_session_expired_registers_with_a_newer_epoch_and_leads_again(
    start_sordini: Start, connect: Connect, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=4_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    with looking_into(chroot) as tree:
        first = tree.exists("/brokers/ids/1")
        with broker.hung():
            until(lambda: tree.exists("/brokers/ids/1") is None)
        until(lambda: tree.exists("/brokers/ids/1") is not None)
        data, stat = tree.get("/brokers/ids/1")
        assert (stat.czxid > first.czxid, stat.version, data[:1]) == (True, 1, b"{")
        until(lambda: produce(client) == ErrorCode.NONE)
        assert EXPIRED in broker.output()
        # It leads all the time: the node is there, and records are taken, before the line about it.
        until(lambda: len(REGISTERED.findall(broker.output())) > 1)
        assert REGISTERED.findall(broker.output()) == [str(first.czxid), str(stat.czxid)]
    assert client.create("more") == [0], "a component with the first session gets the next"


def test_an_isolated_broker_stops_in_order_and_in_time(
    start_sordini: Start, connect: Connect, ensemble: ZooKeeperProcess, chroot: str
) -> None:
    broker = start_sordini(settings(chroot, timeout_ms=4_000))
    client = connect(broker)
    assert client.create("orders") == [0]
    request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
    with ensemble.hung():
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producers of all clients ask again"
        assert broker.stop() == 0, broker.tail()
    assert "Traceback" not in broker.output()
    assert (broker.data_directory / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("topics", "code"), [(["payments"], ErrorCode.LEADER_NOT_AVAILABLE), ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_no_topic_is_reported_as_unknown_before_the_first_update_metadata(
    chroot: str, tmp_path: Path, topics: list[str], code: ErrorCode
) -> None:
    broker = SordiniProcess(tmp_path / "without-metadata", settings(chroot, timeout_ms=6_000))
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
            assert row.error_code == code, "it was awaited in vain, for as long as a session lasts"
        finally:
            broker.kill()


def test_brokers_register_in_one_tree_under_numbers_of_their_own_and_not_twice_with_one_address_and_stop_together(
    start_sordini: Start, connect: Connect, chroot: str, tmp_path: Path
) -> None:
    given = settings(
        chroot,
        -1,
        timeout_ms=6_000,
        reserved_broker_max_id=20,
        broker_rack="r1",
        # A wait for its end would be ended by the time that a stop has, which is a line of its own.
        controlled_shutdown_retry_backoff_ms=600_000,
    )
    brokers = [start_sordini(given) for _ in range(3)]
    with looking_into(chroot) as tree:
        assert sorted(tree.get_children("/brokers/ids")) == ["21", "22", "23"]
        assert b'"rack":"r1"' in tree.get("/brokers/ids/21")[0]
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "advertised.listeners": f"PLAINTEXT://{brokers[1].bootstrap}",
    }
    other = SordiniProcess(tmp_path / "other", {**settings(chroot, 3), **listeners})
    other.launch()
    assert other.wait_for_exit(20) == 1, other.tail()
    assert f"{brokers[1].bootstrap} is registered by broker 22" in other.output().splitlines()[-1]

    (controller,) = [broker for broker in brokers if "controller elected" in broker.output()]
    assert connect(controller).create("orders", partitions=6, replicas=3) == [0]
    for broker in brokers:
        broker.terminate()
    for broker in brokers:
        assert broker.wait_for_exit(30) == 0, broker.tail()
        assert (broker.data_directory / ".kafka_cleanshutdown").exists()
        assert len(re.findall(r"controlled shutdown complete", broker.output())) == 1, broker.tail()
        assert not re.search(r"controlled shutdown (took too long|given up)", broker.output()), broker.tail()
