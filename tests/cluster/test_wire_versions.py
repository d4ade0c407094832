"""What ours sends to other brokers: exactly the requests and versions its protocol setting stands for (A5).

Nothing is negotiated there. A recording peer is registered beside ours and is led, followed and commanded by it, or
commands it. The versions are those which brokers of Apache Kafka sent with the same setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from sordini.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from tests.cluster.recorder import Peer
from tests.cluster.tree import Tree
from tests.outside.ports import is_listening
from tests.outside.processes import SordiniProcess
from tests.support.wire_client import Client

OURS, PEER = 4, 9
SECONDS_MAX = 30
TOPIC_ID = bytes(range(1, 17))
BY_CONTROLLER = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
BY_FOLLOWER = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH)


class Setting(NamedTuple):
    """A protocol setting, the versions that go with it, and what brokers at that setting claim to serve."""

    protocol: str
    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int
    list_offsets: int
    alter_partition: int
    serves: dict[ApiKey, tuple[int, int]]


OLD = {ApiKey.API_VERSIONS: (0, 3), ApiKey.ALTER_PARTITION: (0, 0), ApiKey.CONTROLLED_SHUTDOWN: (0, 3)}
NEW = {**OLD, ApiKey.API_VERSIONS: (0, 4), ApiKey.ALTER_PARTITION: (0, 3), ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0)}
SETTINGS = [
    Setting("2.7", 4, 6, 3, fetch=12, list_offsets=5, alter_partition=0, serves=OLD),
    Setting("3.9", 7, 8, 4, fetch=17, list_offsets=9, alter_partition=3, serves=NEW),
]


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.protocol)
def setting(request: pytest.FixtureRequest) -> Setting:
    wanted: Setting = request.param
    return wanted


class Stage:
    """Ours and the peer on one tree, neither of them started."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self._directory = directory
        self._connect = f"{zookeeper}/{uuid4().hex}"
        self._running = ExitStack()
        self.tree = Tree(self._connect)
        self._running.callback(self.tree.close)

    def close(self) -> None:
        self._running.close()

    def peer(self, serves: dict[ApiKey, tuple[int, int]]) -> Peer:
        return self._running.enter_context(Peer(PEER, serves))

    def ours(self, protocol: str) -> SordiniProcess:
        """Ours, about to start: without a controller's word it serves clients only after a while."""
        overrides = {
            "broker.id": OURS,
            "zookeeper.connect": self._connect,
            "inter.broker.protocol.version": protocol,
            "replica.lag.time.max.ms": 1_000,
            "controlled.shutdown.retry.backoff.ms": 100,
        }
        process = SordiniProcess(self._directory, overrides)
        self._running.callback(process.kill)
        process.launch()
        return process


@pytest.fixture
def stage(tmp_path: Path, zookeeper: str) -> Iterator[Stage]:
    made = Stage(tmp_path, zookeeper)
    yield made
    made.close()


def wait(condition: Callable[[], bool], what: str, peer: Peer, ours: SordiniProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"{what}; seen: {peer.seen()}\n{ours.tail()}"
        time.sleep(0.02)


def wait_for_greeting(peer: Peer, ours: SordiniProcess) -> None:
    """Until ours, as the controller, has sent the cluster's metadata to the peer."""
    ours.wait_until(ours.is_ready, SECONDS_MAX, "be ready")
    wait(lambda: peer.has(ApiKey.UPDATE_METADATA), "the peer is greeted", peer, ours)


def create(ours: SordiniProcess, topic: str, replicas: list[int]) -> None:
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=placed)
    with Client("127.0.0.1", ours.port) as client:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)
        answer = client.ask(ApiKey.CREATE_TOPICS, 5, request)
        assert [row.error_code for row in answer.topics] == [0], answer
        if topic == "doomed":
            assert client.delete(topic) == 0


def test_our_controller_commands_in_the_versions_of_its_setting(stage: Stage, setting: Setting) -> None:
    peer, ours = stage.peer(setting.serves), stage.ours(setting.protocol)
    peer.register(stage.tree)
    wait_for_greeting(peer, ours)
    create(ours, "doomed", [PEER, OURS])
    wait(lambda: peer.has(ApiKey.STOP_REPLICA), "the peer gets StopReplica", peer, ours)
    assert peer.seen(*BY_CONTROLLER, ApiKey.API_VERSIONS) == {
        (ApiKey.LEADER_AND_ISR, setting.leader_and_isr, str(OURS)),
        (ApiKey.UPDATE_METADATA, setting.update_metadata, str(OURS)),
        (ApiKey.STOP_REPLICA, setting.stop_replica, str(OURS)),
    }


def test_our_follower_fetches_in_the_versions_of_its_setting(stage: Stage, setting: Setting) -> None:
    peer, ours = stage.peer(setting.serves), stage.ours(setting.protocol)
    peer.register(stage.tree)
    wait_for_greeting(peer, ours)
    create(ours, "followed", [PEER, OURS])
    wait(lambda: peer.has(ApiKey.FETCH), "ours fetches", peer, ours)
    peer.fetch_error = 1  # OFFSET_OUT_OF_RANGE
    wait(lambda: peer.has(ApiKey.LIST_OFFSETS), "ours asks for the bounds", peer, ours)
    fetcher = f"broker-{OURS}-fetcher-0"
    assert peer.seen(*BY_FOLLOWER, ApiKey.API_VERSIONS) == {
        (ApiKey.FETCH, setting.fetch, fetcher),
        (ApiKey.LIST_OFFSETS, setting.list_offsets, fetcher),
    }
    assert {asked(frame.request) for frame in peer.frames if frame.key is ApiKey.FETCH} == {OURS}


def asked(fetch: object) -> int:
    """The follower's id, wherever the version has it."""
    state = getattr(fetch, "replica_state", None)
    return int(getattr(fetch, "replica_id", -1) if state is None else state.replica_id)


def test_before_fetch_reported_divergence_our_follower_requests_the_epochs_end(stage: Stage) -> None:
    peer, ours = stage.peer(OLD), stage.ours("2.7-IV0")
    peer.register(stage.tree)
    wait_for_greeting(peer, ours)
    create(ours, "followed", [PEER, OURS])
    wait(lambda: peer.has(ApiKey.FETCH), "ours fetches", peer, ours)
    versions = {(key, version) for key, version, _ in peer.seen(*BY_FOLLOWER)}
    assert versions <= {(ApiKey.FETCH, 11), (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3)}


def test_our_leader_asks_the_controller_in_the_versions_of_its_setting(stage: Stage, setting: Setting) -> None:
    peer = stage.peer(setting.serves)
    has_ids = setting.protocol != "2.7"
    peer.register(stage.tree)
    peer.govern(stage.tree)
    ours = stage.ours(setting.protocol)
    wait(lambda: is_listening(ours.port) and OURS in stage.tree.registered(), "ours is there", peer, ours)
    appoint(stage.tree, peer, ours, setting)
    ours.wait_until(ours.is_ready, SECONDS_MAX, "be ready")
    wait(lambda: peer.has(ApiKey.ALTER_PARTITION), "ours asks for a smaller in-sync set", peer, ours)
    if has_ids:
        with Client("127.0.0.1", ours.port) as client:
            client.ask(ApiKey.INIT_PRODUCER_ID, 1, InitProducerIdRequest(transactional_id=None))
        wait(lambda: peer.has(ApiKey.ALLOCATE_PRODUCER_IDS), "ours asks for producer ids", peer, ours)
    peer.handing_over.extend([lambda: hand_over(stage.tree, peer, ours, setting), lambda: None])
    assert ours.stop() == 0
    assert not peer.has(ApiKey.FETCH), "a broker that stops does not begin to fetch what it has handed over"
    own_id = str(OURS)
    wanted = {(ApiKey.ALTER_PARTITION, setting.alter_partition, own_id), (ApiKey.CONTROLLED_SHUTDOWN, 3, own_id)}
    if has_ids:
        wanted.add((ApiKey.ALLOCATE_PRODUCER_IDS, 0, own_id))
    assert peer.seen(ApiKey.ALTER_PARTITION, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALLOCATE_PRODUCER_IDS) == wanted
    first = next(one for one in peer.frames if one.connection == connection_of(peer, ApiKey.ALTER_PARTITION))
    assert (first.key is ApiKey.API_VERSIONS) == has_ids, "an old controller has one version, a new one is asked"


def connection_of(peer: Peer, key: ApiKey) -> int:
    return next(one.connection for one in peer.frames if one.key is key)


def appoint(tree: Tree, peer: Peer, ours: SordiniProcess, setting: Setting) -> None:
    """As a controller does: the brokers there are, then a partition for ours to lead with the peer in sync."""
    topic_id = {"topic_id": "AQIDBAUGBwgJCgsMDQ4PEA"} if setting.protocol != "2.7" else {}
    state = {"controller_epoch": 1, "leader": OURS, "version": 1, "leader_epoch": 0, "isr": [OURS, PEER]}
    tree.create("/brokers/topics/led", {"version": 2, "partitions": {"0": [OURS, PEER]}, **topic_id})
    tree.create("/brokers/topics/led/partitions/0/state", state)
    live = [
        UpdateMetadataBroker(
            id=broker, endpoints=[UpdateMetadataEndpoint(port=port, host="127.0.0.1", listener="PLAINTEXT")]
        )
        for broker, port in ((OURS, ours.port), (PEER, peer.port))
    ]
    with Client("127.0.0.1", ours.port) as client:
        reported = UpdateMetadataRequest(**of_the_controller(tree), live_brokers=live)
        assert client.ask(ApiKey.UPDATE_METADATA, setting.update_metadata, reported).error_code == 0
    command(tree, ours, setting, LeaderAndIsrLiveLeader(broker_id=OURS, port=ours.port), isr=[OURS, PEER], is_new=True)


def hand_over(tree: Tree, peer: Peer, ours: SordiniProcess, setting: Setting) -> None:
    """As a controller does: the peer leads alone, and ours is to follow it."""
    leader = LeaderAndIsrLiveLeader(broker_id=PEER, port=peer.port)
    command(tree, ours, setting, leader, isr=[PEER], leader_epoch=1, partition_epoch=2)


def command(tree: Tree, ours: SordiniProcess, setting: Setting, leader: LeaderAndIsrLiveLeader, **fields: Any) -> None:
    """Say to ours who leads the one partition."""
    leader.host_name = "127.0.0.1"
    state = LeaderAndIsrPartitionState(
        partition_index=0, controller_epoch=1, leader=leader.broker_id, replicas=[OURS, PEER], **fields
    )
    topic_id = bytes(16) if setting.protocol == "2.7" else TOPIC_ID
    topic = LeaderAndIsrTopicState(topic_name="led", topic_id=topic_id, partition_states=[state])
    commanded = LeaderAndIsrRequest(**of_the_controller(tree), topic_states=[topic], live_leaders=[leader])
    with Client("127.0.0.1", ours.port) as client:
        answer = client.ask(ApiKey.LEADER_AND_ISR, setting.leader_and_isr, commanded)
    codes = [one.error_code for one in answer.partition_errors or answer.topics[0].partition_errors]
    assert (answer.error_code, codes) == (0, [0])


def of_the_controller(tree: Tree) -> dict[str, int]:
    return {"controller_id": PEER, "controller_epoch": 1, "broker_epoch": tree.broker_epoch(OURS)}
