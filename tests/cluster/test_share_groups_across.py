"""Share groups in a cluster of three brokers of ours: the leader, the share coordinator and the group coordinator are three.

Leaders move, by kill -9 and by a preferred election, while members work; and the dead letters of one broker are led by
another one, which is killed. `make slow` repeats both.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from sordini.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.returned_records import returned_batches
from tests.cluster.cluster import OURS, Cluster, Partition
from tests.cluster.conftest import PROTOCOLS
from tests.cluster.share_members import Fate, RoutedMember
from tests.compat.shares.deliveries import Seen, broken_promises
from tests.outside.versions import APACHE_KAFKA
from tests.support.share_group import ACCEPT, GROUP, REJECT, RELEASE, NotCoordinated, ShareTopic, find_topic
from tests.support.wire_client import Client

SETTINGS: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": 2_000,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1_000,
}
LIMIT: Final = 5
OF_GROUP: Final = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": LIMIT}
STATES: Final = ("__share_group_state", 0)
OFFSETS: Final = ("__consumer_offsets", 0)
INTERNAL: Final[Mapping[Partition, list[int]]] = {STATES: [3, 1], OFFSETS: [2, 3, 1]}
"""What is killed beside the dead letters does not hold up the states."""
BATCH: Final = 10
LETTERS: Final = 300
"""Records that are rejected in the story of dead letters, and as many that are accepted."""
LOCK_MS: Final = 2_000
SECONDS_MAX: Final = 90.0
FROZEN_S_MAX: Final = 0.7
"""Its session stays."""
FROZEN_BATCHES: Final = 5
POLL_S: Final = 0.005


@pytest.fixture
def sharing(lend: Callable[..., Cluster]) -> Cluster:
    """1 to 3 are ours; 3 is the share coordinator, 2 the coordinator of groups."""

    def start(made: Cluster) -> None:
        made.start(dict.fromkeys((1, 2, 3), OURS), SETTINGS)
        for (topic, _), replicas in INTERNAL.items():
            made.create(topic, [replicas], {"cleanup.policy": "delete" if topic == STATES[0] else "compact"})

    cluster: Cluster = lend(PROTOCOLS[APACHE_KAFKA], start)
    for broker, process in cluster.brokers.items():
        if not process.is_running:
            cluster.restart(broker)
    _elect(cluster, list(INTERNAL))
    return cluster


def _elect(cluster: Cluster, partitions: Sequence[Partition]) -> None:
    """Let the first replicas lead."""
    cluster.wait_for_full_isr(partitions)
    cluster.tree.elect_preferred(partitions)
    for topic, number in partitions:
        cluster.wait_for_leader((topic, number), cluster.tree.assignment(topic)[number][0])


class Shared:
    """A topic of one partition, its group, and members that work."""

    def __init__(self, cluster: Cluster, replicas: Sequence[int], **settings: object) -> None:
        self.cluster = cluster
        name = uuid4().hex[:8]
        (self.partition,) = cluster.create(f"work-{name}", [replicas])
        cluster.wait_until_known([self.partition])
        self.topic = self._prepared(f"group-{name}", {**OF_GROUP, **settings})
        self.members: list[RoutedMember] = []
        self.moves: list[tuple[float, float]] = []

    def _prepared(self, group: str, settings: Mapping[str, object]) -> ShareTopic:
        configs = [AlterableConfig(name=key, config_operation=0, value=str(value)) for key, value in settings.items()]
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        found: list[ShareTopic] = []

        def is_found() -> bool:
            with suppress(NotCoordinated), self._connected(1) as client:
                found.append(find_topic(client, group, self.partition[0]))
            return bool(found)

        with self._connected(1) as client:
            answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            assert answer.responses[0].error_code == 0, answer
        self.cluster.wait(is_found, f"{group} has a coordinator")
        return found[0]

    def _connected(self, broker: int) -> Client:
        return Client("127.0.0.1", self.cluster.brokers[broker].port)

    @contextmanager
    def working(self, *fates: Fate) -> Iterator[None]:
        """A member for each."""
        ports = {broker: process.port for broker, process in self.cluster.brokers.items()}
        self.members = [
            RoutedMember(ports, self.topic, fate, version=1 + number % 2, seed=number)
            for number, fate in enumerate(fates)
        ]
        for member in self.members:
            member.start()
        try:
            yield
        finally:
            for member in self.members:
                member.stop()

    def produce(self, count: int = BATCH) -> bool:
        """Whether records are committed."""
        batch = build_batch([Record(number, 1, None, b"x") for number in range(count)])
        try:
            with self._connected(max(self.cluster.leader(self.partition), 1)) as client:
                (row,) = client.produce(self.topic.name, [batch])
        except OSError:
            return False
        return bool(row.error_code == 0)

    def produce_until(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            self.produce()
            return condition()

        self.cluster.wait(is_so, what)

    def drain(self) -> None:
        """Let the members finish all that there is."""
        for member in self.members:
            member.finish()
        self.cluster.wait(self.is_drained, "all records are done", SECONDS_MAX)

    def end(self) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=self.topic.name, partitions=[wanted])]
        )
        with self._connected(self.cluster.leader(self.partition)) as client:
            (row,) = client.ask(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions
        assert row.error_code == 0, row
        offset: int = row.offset
        return offset

    def is_drained(self) -> bool:
        """Whether the group has nothing left to do, as its coordinator says."""
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self.topic.group, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[group])
        try:
            with self._connected(self.cluster.leader(OFFSETS)) as client:
                (found,) = client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request).groups
        except OSError:
            return False
        rows = [row for topic in found.topics for row in topic.partitions]
        return bool(rows) and all((row.error_code, row.lag) == (0, 0) for row in rows)

    def seen(self) -> Seen:
        seen, now = Seen(), time.monotonic()
        for member in self.members:
            seen.read(member.lines, now)
        return seen

    def answered(self) -> int:
        """How many acknowledgements were carried out up to now."""
        return sum('"said"' in line and '"code": 0' in line for member in self.members for line in list(member.lines))

    def account(self) -> str:
        """What members have seen last, for the message of a failure."""
        return "\n".join(line for member in self.members for line in member.lines[-12:])

    @contextmanager
    def moving(self) -> Iterator[None]:
        """A leader moves meanwhile: what members hold is not certain."""
        began = time.monotonic()
        yield
        self.moves.append((began, time.monotonic()))


def accept_or_release(offset: int, deliveries: int) -> int:
    """Every seventh record is delivered twice."""
    return RELEASE if offset % 7 == 0 and deliveries == 1 else ACCEPT


def _kill_before_it_stores(shared: Shared) -> None:
    """The share coordinator is frozen, so that acknowledgements wait in the leader; then the leader is killed.

    Where some were answered nevertheless, their records would be delivered again.
    """
    cluster = shared.cluster
    for _ in range(FROZEN_BATCHES):
        shared.produce()
    with cluster.brokers[3].hung():
        until_s = time.monotonic() + FROZEN_S_MAX
        while not all(member.waits_for_an_answer() for member in shared.members) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        cluster.kill(1)


def _move_twice(shared: Shared) -> None:
    """The leader, 1, is killed; 2 leads until 1 is the preferred leader again. Members work before, between and behind."""
    cluster, partition = shared.cluster, shared.partition

    def has_worked() -> Callable[[], bool]:
        before = shared.answered()
        return lambda: shared.answered() > before + 5 * BATCH

    shared.produce_until(has_worked(), "records are acknowledged")
    with shared.moving():
        _kill_before_it_stores(shared)
        shared.produce_until(lambda: cluster.leader(partition) == 2, "2 leads")
        shared.produce_until(has_worked(), "records are acknowledged behind the kill")
    cluster.restart(1)
    cluster.wait_for_full_isr([partition])
    shared.produce_until(has_worked(), "records are acknowledged before the election")
    former = [len(member.refusals) for member in shared.members]
    with shared.moving():
        cluster.tree.elect_preferred([partition])
        shared.produce_until(lambda: cluster.leader(partition) == 1, "1 leads again")
        shared.produce_until(has_worked(), "records are acknowledged behind the election")
    for member, count in zip(shared.members, former, strict=True):
        by_former = [one for one in member.refusals[count:] if one.by == 2]
        named = {(one.code, one.leader, one.port) for one in by_former}
        assert named == {(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, cluster.brokers[1].port)}, by_former


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_what_was_acknowledged_is_not_delivered_again_when_the_leader_moves_and_nothing_is_lost(
    sharing: Cluster, rounds: int
) -> None:
    shared = Shared(sharing, [1, 2, 3])
    with shared.working(accept_or_release, accept_or_release):
        for _ in range(rounds):
            _move_twice(shared)
        shared.drain()
        end = shared.end()
    seen = shared.seen()
    codes = Counter(one.code for member in shared.members for one in member.refusals)
    sys.stderr.write(
        f"{end} records, {len(seen.accepted)} accepted, {2 * rounds} moves, refusals {dict(codes)}, {seen.failures}\n"
    )
    assert set(codes) <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert broken_promises(seen, end, LIMIT, shared.moves, None) == []
    assert max(seen.deliveries.values()) < LIMIT  # None is given up: each is accepted.


@pytest.mark.parametrize("version", [1, 2])
def test_a_broker_that_does_not_lead_names_the_leader_in_both_responses(sharing: Cluster, version: int) -> None:
    shared = Shared(sharing, [1, 2])
    expected = ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, sharing.brokers[1].port
    for broker in (2, 3):  # A follower, and one that has no replica.
        with Client("127.0.0.1", sharing.brokers[broker].port) as client:
            for api, request in _first_requests(shared.topic):
                answer = client.ask(api, version, request)
                (row,) = answer.responses[0].partitions
                (endpoint,) = answer.node_endpoints
                assert (row.error_code, row.current_leader.leader_id, endpoint.port) == expected, answer
                assert endpoint.node_id == 1


def _first_requests(topic: ShareTopic) -> Iterator[tuple[ApiKey, Any]]:
    common = {"group_id": topic.group, "member_id": "stranger"}
    fetched = FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(partition_index=0)])
    yield ApiKey.SHARE_FETCH, ShareFetchRequest(**common, max_records=1, batch_size=1, topics=[fetched])
    said = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    row = AcknowledgePartition(partition_index=0, acknowledgement_batches=[said])
    named = AcknowledgeTopic(topic_id=topic.topic_id, partitions=[row])
    yield ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest(**common, share_session_epoch=1, topics=[named])


def reject_or_accept(offset: int, _deliveries: int) -> int:
    return REJECT if offset % 2 else ACCEPT


class Gate:
    """Records from a number on wait until it is opened."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_open = threading.Event()

    def open(self) -> None:
        self._is_open.set()

    def fate(self, offset: int, deliveries: int) -> int:
        if offset >= self._number:
            assert self._is_open.wait(SECONDS_MAX)
        return reject_or_accept(offset, deliveries)


class DeadLetters:
    """The topic of dead letters."""

    def __init__(self, cluster: Cluster, replicas: Sequence[int], in_sync_min: int) -> None:
        self._cluster = cluster
        self.name = f"dlq.{uuid4().hex[:8]}"
        configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": str(in_sync_min)}
        (self.partition,) = cluster.create(self.name, [replicas], configs)
        cluster.wait_until_known([self.partition])

    def bytes_at(self, broker: int) -> int:
        """The size of the broker's replica."""
        logs = self._cluster.brokers[broker].directory.glob(f"data*/{self.name}-0/*.log")
        return sum(path.stat().st_size for path in logs)

    def read(self) -> Counter[int]:
        """How many there are for each offset."""
        found: Counter[int] = Counter()
        position = 0
        with Client("127.0.0.1", self._cluster.brokers[self._cluster.leader(self.partition)].port) as client:
            while data := client.fetch(self.name, offset=position):
                for batch in returned_batches(data, position, ()):
                    position = batch.next_offset
                    for record in batch.records:
                        found[int(dict(record.headers)["__dlq.errors.offset"] or b"")] += 1
        return found


class Failure(NamedTuple):
    """Where dead letters lie, and which broker is killed."""

    replicas: list[int]
    in_sync_min: int
    victim: int
    is_waited_for: bool
    """Whether nothing can be written until it is back."""


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Failure([2, 3], 1, 2, is_waited_for=False), id="another-replica-leads"),
        pytest.param(Failure([2], 1, 2, is_waited_for=True), marks=pytest.mark.slow, id="its-only-replica-returns"),
        pytest.param(
            Failure([2, 3], 2, 3, is_waited_for=True), marks=pytest.mark.slow, id="too-few-are-in-sync-until-it-returns"
        ),
    ],
)
def test_dead_letters_of_one_broker_are_all_at_another_one_whatever_fails_meanwhile(
    sharing: Cluster, failure: Failure
) -> None:
    dead = DeadLetters(sharing, failure.replicas, failure.in_sync_min)
    names: dict[str, Any] = {"errors.deadletterqueue.topic.name": dead.name, "share.record.lock.duration.ms": LOCK_MS}
    shared = Shared(sharing, [1, 3], **names)
    assert (sharing.leader(shared.partition), sharing.leader(dead.partition)) == (1, 2)
    shared.produce(LETTERS)
    shared.produce(LETTERS)
    gate = Gate(LETTERS // 2)
    with shared.working(gate.fate):
        sharing.wait(lambda: dead.bytes_at(2) > 0, "dead letters are written")
        sharing.kill(failure.victim)
        gate.open()
        sharing.wait(lambda: shared.answered() >= 2 * LETTERS - BATCH, "records are acknowledged")
        if failure.is_waited_for:
            assert not shared.is_drained(), "dead letters wait"
        else:
            shared.drain()
        sharing.restart(failure.victim)
        shared.drain()
    letters, end = dead.read(), shared.end()
    sys.stderr.write(f"{end} records, {len(letters)} dead letters, {letters.total() - len(letters)} copies of these\n")
    assert set(letters) == {offset for offset in range(end) if reject_or_accept(offset, 1) == REJECT}
    assert max(letters.values()) <= 2, "there was one kill"
