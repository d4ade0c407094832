"""The steps of a snapshot: what is asked of whom, and what becomes of the answers. The brokers are scripted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sordini.client.errors import NotServed, Refused
from sordini.client.lag.asking import ANY_BROKER, Ask, Rounds
from sordini.client.lag.model import Condition, GroupLag
from sordini.client.lag.reading import FROM_START, Reader, exists, snapshot_of_groups, snapshot_of_readers
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from sordini.protocol.messages.describe_client_instances import (
    ClientFigureLabel,
    ClientFigureRow,
    ClientInstanceRow,
    DescribeClientInstancesRequest,
    DescribeClientInstancesResponse,
)
from sordini.protocol.messages.describe_group_progress import (
    DescribeGroupProgressRequest,
    DescribeGroupProgressResponse,
    GroupProgressPartition,
    GroupProgressRow,
    GroupProgressTopic,
)
from sordini.protocol.messages.describe_groups import DescribedGroup as ClassicGroup
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from sordini.protocol.messages.describe_unread_records import (
    DescribeUnreadRecordsRequest,
    DescribeUnreadRecordsResponse,
    UnreadRecordsPartitionResult,
    UnreadRecordsTopicResult,
)
from sordini.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sordini.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sordini.protocol.messages.share_group_describe import Assignment as ShareAssignment
from sordini.protocol.messages.share_group_describe import DescribedGroup as ShareGroup
from sordini.protocol.messages.share_group_describe import Member as ShareMember
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sordini.protocol.messages.share_group_describe import TopicPartitions as SharePartitions
from sordini.protocol.served_apis import ALL_APIS
from sordini.protocol.types import TopicPartition

NOW = 1_000_000
MINUTE_MS = 60_000


class Brokers:
    """Two brokers: number 1 coordinates all groups, number 2 leads `orders` of four partitions."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.members: dict[str, list[Member]] = {}
        self.shares: dict[str, dict[TopicPartition, tuple[int, int]]] | None = {}
        """Start offsets and lags of share groups, which have one member each; None: this broker serves none."""
        self.codes: dict[str, ErrorCode] = {}
        self.pushing: dict[int, list[ClientInstanceRow]] = {}
        """Clients by the broker to which they push."""
        self.asked: list[Ask] = []
        self.partitions = 4
        self.leader = 2

    def run(self, rounds: Rounds[Any]) -> Any:
        try:
            asks = next(rounds)
            while True:
                self.asked += asks
                asks = rounds.send([self.answer(ask) for ask in asks])
        except StopIteration as end:
            return end.value

    def answer(self, ask: Ask) -> Any:
        answers: dict[type, tuple[int, Callable[[Any], Any]]] = {
            FindCoordinatorRequest: (ANY_BROKER, self.coordinators),
            MetadataRequest: (ANY_BROKER, self.metadata),
            DescribeGroupProgressRequest: (1, self.progress),
            DescribeGroupsRequest: (1, self.classic),
            ConsumerGroupDescribeRequest: (1, self.consumer),
            ShareGroupDescribeRequest: (1, self.share_members),
            DescribeShareGroupOffsetsRequest: (1, self.share_offsets),
            ListGroupsRequest: (ask.broker, lambda _: self.listed(ask.broker)),
            DescribeUnreadRecordsRequest: (2, self.unread),
        }
        if isinstance(ask.request, DescribeClientInstancesRequest):
            return self.clients(ask.broker, ask.request)
        broker, make = answers[type(ask.request)]
        assert ask.broker == broker, ask
        return make(ask.request)

    def coordinators(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        rows = [Coordinator(key=key, node_id=1, error_code=self.codes.get(key, 0)) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=rows)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        def topic(name: str) -> MetadataResponseTopic:
            if name != "orders":
                return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            rows = [
                MetadataResponsePartition(partition_index=index, leader_id=self.leader)
                for index in range(self.partitions)
            ]
            return MetadataResponseTopic(name=name, partitions=rows)

        registered = [MetadataResponseBroker(node_id=number) for number in (1, 2)]
        return MetadataResponse(brokers=registered, topics=[topic(row.name) for row in request.topics or ()])

    def clients(self, broker: int, request: DescribeClientInstancesRequest) -> Any:
        """One client a page; broker 1 may be of another kind."""
        if broker not in self.pushing:
            return NotServed("broker", ALL_APIS[ApiKey.DESCRIBE_CLIENT_INSTANCES], 1, -1)
        assert request.metric == "org.apache.kafka.consumer.fetch.manager.records.lag"
        rows = [row for row in self.pushing[broker] if row.client_instance_id > request.after]
        return DescribeClientInstancesResponse(is_enabled=True, instances=rows[:1], has_more=len(rows) > 1)

    def progress(self, request: DescribeGroupProgressRequest) -> DescribeGroupProgressResponse:
        def group(name: str) -> GroupProgressRow:
            topics = [
                GroupProgressTopic(
                    topic=partition.topic,
                    partitions=[
                        GroupProgressPartition(
                            partition_index=partition.partition,
                            committed_offset=offset,
                            advanced=600,
                            window_ms=MINUTE_MS,
                            commit_age_ms=2_000,
                        )
                    ],
                )
                for partition, offset in self.committed.get(name, {}).items()
            ]
            return GroupProgressRow(group_id=name, topics=topics)

        return DescribeGroupProgressResponse(groups=[group(name) for name in reversed(request.groups)])

    def classic(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        rows = [ClassicGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND) for name in request.groups]
        return DescribeGroupsResponse(groups=rows)

    def consumer(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        def group(name: str) -> DescribedGroup:
            if name not in self.members:
                return DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            return DescribedGroup(group_id=name, group_state="Stable", members=self.members[name])

        return ConsumerGroupDescribeResponse(groups=[group(name) for name in request.group_ids])

    def listed(self, broker: int) -> ListGroupsResponse:
        names = sorted(self.shares or ()) if broker == 1 else []
        rows = [ListedGroup(group_id=name, group_type="Share") for name in names]
        return ListGroupsResponse(groups=rows)

    def share_members(self, request: ShareGroupDescribeRequest) -> Any:
        def group(name: str) -> ShareGroup:
            if self.shares is None or name not in self.shares:
                return ShareGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            assigned = ShareAssignment(topic_partitions=[SharePartitions(topic_name="orders", partitions=[0, 1])])
            members = [ShareMember(member_id="one", assignment=assigned)]
            return ShareGroup(group_id=name, group_state="Stable", members=members)

        if self.shares is None:
            return NotServed("broker", ALL_APIS[ApiKey.SHARE_GROUP_DESCRIBE], 1, -1)
        return ShareGroupDescribeResponse(groups=[group(name) for name in request.group_ids])

    def share_offsets(self, request: DescribeShareGroupOffsetsRequest) -> Any:
        if self.shares is None:
            return NotServed("broker", ALL_APIS[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS], 1, -1)
        groups = []
        for wanted in request.groups:
            row = DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, topics=[])
            for (topic, index), (start, lag) in self.shares.get(wanted.group_id, {}).items():
                part = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=start, lag=lag)
                row.topics.append(DescribeShareGroupOffsetsResponseTopic(topic_name=topic, partitions=[part]))
            groups.append(row)
        return DescribeShareGroupOffsetsResponse(groups=groups)

    def unread(self, request: DescribeUnreadRecordsRequest) -> DescribeUnreadRecordsResponse:
        """Logs from offset 10 to 100, with a transaction open from 90 on."""

        def row(index: int, offset: int) -> UnreadRecordsPartitionResult:
            found = UnreadRecordsPartitionResult(
                partition_index=index,
                log_start_offset=10,
                high_watermark=100,
                last_stable_offset=90,
                appended=1_200,
                window_ms=MINUTE_MS,
            )
            if max(offset, 10) < 90:
                found.record_offset, found.timestamp, found.timestamp_type = max(offset, 10), NOW - 9_000, 0
                found.appended_age_min_ms, found.appended_age_max_ms = 7_000, 8_000
            return found

        topics = [
            UnreadRecordsTopicResult(
                name=topic.name, partitions=[row(one.partition_index, one.offset) for one in topic.partitions]
            )
            for topic in request.topics
        ]
        return DescribeUnreadRecordsResponse(now_ms=NOW, topics=topics)


def member(name: str, *partitions: int, topics: Sequence[str] = ("orders",)) -> Member:
    rows = [TopicPartitions(topic_name="orders", partitions=list(partitions))]
    return Member(
        member_id=name,
        client_id=f"client-{name}",
        subscribed_topic_names=list(topics),
        assignment=Assignment(topic_partitions=rows),
    )


def orders(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def snapshot(brokers: Brokers, *names: str, **others: Any) -> GroupLag:
    found: list[GroupLag] = brokers.run(snapshot_of_groups(names, NOW, **others))
    return found[0]


def test_a_group_is_read_with_lag_age_rates_and_owner() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): 40}
    brokers.members["billing"] = [member("one", 0, topics=())]
    group = snapshot(brokers, "billing")
    (row,) = group.partitions
    assert (group.kind, group.state, group.members, group.lag) == ("consumer", "Stable", 1, 60)
    assert (row.condition, row.committed, row.end, row.stable_end, row.lag) == (Condition.BEHIND, 40, 100, 90, 60)
    assert row.unread is not None
    assert (row.unread.offset, row.unread.own_age_ms, row.unread.appended) == (40, 9_000, (7_000, 8_000))
    assert row.rate_in is not None
    assert row.rate_out is not None
    assert (row.rate_in.per_s, row.rate_out.per_s, row.outlook.per_s) == (20, 10, 10)
    assert row.owner is not None
    assert (row.owner.client_id, row.lacks_owner, row.commit_age_ms) == ("client-one", False, 2_000)


def test_a_share_group_is_read_from_its_start_offset_with_the_lag_that_the_broker_counts() -> None:
    brokers = Brokers()
    assert brokers.shares is not None
    brokers.shares["workers"] = {orders(0): (40, 7), orders(2): (50, 0), orders(3): (60, -1)}
    group = snapshot(brokers, "workers")
    assert (group.kind, group.state, group.members, group.lag) == ("share", "Stable", 1, 47)
    rows = {row.partition: row for row in group.partitions}
    assert (rows[0].condition, rows[0].committed, rows[0].lag, rows[0].owner) == (Condition.BEHIND, 40, 7, None)
    assert rows[0].unread is not None
    assert rows[0].unread.offset == 40
    assert (rows[1].condition, rows[1].committed, rows[1].lacks_owner) == (Condition.NO_OFFSET, None, False)
    assert (rows[2].condition, rows[2].lag, rows[2].unread) == (Condition.CAUGHT_UP, 0, None), "all behind it is done"
    assert (rows[3].condition, rows[3].lag) == (Condition.BEHIND, 40), "where the broker does not count, the distance"


def test_share_groups_are_among_all_groups() -> None:
    brokers = Brokers()
    assert brokers.shares is not None
    brokers.shares["workers"] = {orders(0): (40, 7)}
    (group,) = brokers.run(snapshot_of_groups(None, NOW))
    assert (group.name, group.kind, group.lag) == ("workers", "share", 7)
    assert not [ask for ask in brokers.asked if isinstance(ask.request, DescribeGroupsRequest)]


def test_a_broker_without_share_groups_is_read_as_before() -> None:
    brokers = Brokers()
    brokers.committed["billing"], brokers.shares = {orders(0): 40}, None
    assert snapshot(brokers, "billing").lag == 60


def pushing(number: int, member_id: str, topic: str, lags: dict[str, float], at_ms: int = NOW - 2_000) -> Any:
    figures = [
        ClientFigureRow(
            value=lag,
            at_ms=at_ms,
            labels=[ClientFigureLabel(key="partition", value=index), ClientFigureLabel(key="topic", value=topic)],
        )
        for index, lag in lags.items()
    ]
    return ClientInstanceRow(client_instance_id=number.to_bytes(16, "big"), group_member_id=member_id, figures=figures)


def test_what_members_push_of_their_lag_is_beside_that_of_the_group() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): 40, orders(1): 40, orders(2): 40, TopicPartition("a.b", 0): 1}
    brokers.members["billing"] = [member("one", 0, 1), member("two", 2)]
    brokers.members["billing"][0].assignment.topic_partitions.append(TopicPartitions(topic_name="a.b", partitions=[0]))
    brokers.pushing[2] = [
        pushing(1, "one", "orders", {"0": 7.0, "2": 50.0, "3": 1.0, "x": 1.0}),
        pushing(2, "two", "orders", {"2": 3.0}, NOW - 9_000),
        pushing(3, "one", "a_b", {"0": 4.0}),
    ]
    found = {(row.topic, row.partition): row.client for row in snapshot(brokers, "billing").partitions}
    assert found[orders(0)] == (7, 2_000)
    assert found[orders(1)] is None, "its member says nothing of it"
    assert found[orders(2)] == (3, 9_000), "what its former member says is no longer true"
    assert found[TopicPartition("a.b", 0)] == (4, 2_000), "older clients write a dot as an underscore"


def test_of_two_pushes_of_a_member_the_newer_one_is_shown() -> None:
    brokers = Brokers()
    brokers.members["billing"] = [member("one", 0)]
    brokers.pushing[1] = [pushing(1, "one", "orders", {"0": 7.0}, NOW - 9_000)]
    brokers.pushing[2] = [pushing(1, "one", "orders", {"0": 5.0}, NOW - 1_000)]
    assert snapshot(brokers, "billing").partitions[0].client == (5, 1_000)


def test_clients_are_asked_for_groups_with_members_that_are_named() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): 40}
    snapshot(brokers, "billing")
    assert not [ask for ask in brokers.asked if isinstance(ask.request, DescribeClientInstancesRequest)]


@pytest.mark.parametrize(
    ("offset", "condition", "lag"),
    [
        (9, Condition.EXPIRED, 91),
        (10, Condition.BEHIND, 90),
        (89, Condition.BEHIND, 11),
        (90, Condition.CAUGHT_UP, 10),
        (100, Condition.CAUGHT_UP, 0),
        (101, Condition.AHEAD, 0),
    ],
)
def test_an_offset_is_judged_by_the_bounds_of_its_log(offset: int, condition: Condition, lag: int) -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): offset}
    (row,) = snapshot(brokers, "billing").partitions
    assert (row.condition, row.lag) == (condition, lag)
    assert row.expired == max(0, 10 - offset)


def test_partitions_of_subscribed_topics_without_a_member_lack_an_owner() -> None:
    brokers = Brokers()
    brokers.members["billing"] = [member("one", 0, 2)]
    rows = snapshot(brokers, "billing").partitions
    assert [row.lacks_owner for row in rows] == [False, True, False, True]
    assert {row.condition for row in rows} == {Condition.NO_OFFSET}


def test_a_group_without_members_lacks_no_owner() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): 40}
    brokers.members["billing"] = []
    assert not snapshot(brokers, "billing").partitions[0].lacks_owner


def test_offsets_of_deleted_topics_and_partitions_are_named_as_that() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {TopicPartition("gone", 0): 5, orders(9): 5}
    assert {row.condition for row in snapshot(brokers, "billing").partitions} == {Condition.DELETED}


def test_a_partition_without_a_leader_is_not_available() -> None:
    brokers = Brokers()
    brokers.committed["billing"], brokers.leader = {orders(0): 5}, -1
    (row,) = snapshot(brokers, "billing").partitions
    assert (row.condition, row.problem) == (Condition.UNAVAILABLE, "it has no leader at present")


def test_a_group_that_is_not_there_is_dead_and_has_nothing() -> None:
    group = snapshot(Brokers(), "no-such-group")
    assert (group.state, group.partitions) == ("Dead", ())
    assert not exists(group)


def test_a_group_that_may_not_be_seen_is_answered_beside_the_others() -> None:
    brokers = Brokers()
    brokers.committed["billing"], brokers.codes["secret"] = {orders(0): 5}, ErrorCode.GROUP_AUTHORIZATION_FAILED
    secret, billing = brokers.run(snapshot_of_groups(["secret", "billing"], NOW))
    assert "GROUP_AUTHORIZATION_FAILED" in secret.problem
    assert billing.lag == 95


def test_a_coordinator_that_moves_ends_the_snapshot_so_that_it_is_repeated() -> None:
    brokers = Brokers()
    brokers.codes["billing"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Refused, match="COORDINATOR_NOT_AVAILABLE"):
        snapshot(brokers, "billing")


def test_groups_of_one_coordinator_are_asked_for_at_once_and_shared_partitions_too() -> None:
    brokers = Brokers()
    names = [f"group-{number}" for number in range(50)]
    brokers.committed = {name: {orders(index): 40 for index in range(4)} for name in names}
    brokers.run(snapshot_of_groups(names, NOW))
    kinds = [type(ask.request) for ask in brokers.asked]
    assert len(kinds) == len(set(kinds)) == 8
    unread = next(ask.request for ask in brokers.asked if type(ask.request) is DescribeUnreadRecordsRequest)
    assert sum(len(topic.partitions) for topic in unread.topics) == 4, "one row for one offset, not for one group"


def test_only_the_named_topics_are_looked_at() -> None:
    brokers = Brokers()
    brokers.committed["billing"] = {orders(0): 5, TopicPartition("gone", 0): 5}
    assert [row.topic for row in snapshot(brokers, "billing", topics=frozenset({"orders"})).partitions] == ["orders"]


def test_a_reader_without_a_group_has_a_lag_too() -> None:
    brokers = Brokers()
    (found,) = brokers.run(snapshot_of_readers([Reader("/checkpoint", "checkpoint", {orders(0): 40})], NOW))
    assert (found.name, found.kind, found.lag) == ("/checkpoint", "checkpoint", 60)
    assert {ask.broker for ask in brokers.asked} == {ANY_BROKER, 2}


def test_a_broker_without_the_request_is_known_by_its_refusal() -> None:
    """What is sent then is tested with Apache Kafka itself (tests/compat/test_group_lag.py)."""
    assert FROM_START == -1
    refusal = NotServed("broker", ALL_APIS[ApiKey.DESCRIBE_UNREAD_RECORDS], 0, -1)
    rounds = snapshot_of_readers([Reader("r", "checkpoint", {orders(0): 1})], NOW)
    brokers = Brokers()
    next(rounds)
    rounds.send([brokers.metadata(MetadataRequest(topics=[type("T", (), {"name": "orders"})()]))])
    asks = rounds.send([refusal])
    assert [type(ask.request).__name__ for ask in asks] == ["ListOffsetsRequest"] * 3
