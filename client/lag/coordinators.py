"""Steps to the coordinators of groups: which groups there are, their offsets and their members. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sordini.client.errors import ClientError, NotServed, Refused, check
from sordini.client.group_offsets import FETCHES, fetch_request, group_in, partitions_in
from sordini.client.lag.asking import ANY_BROKER, Ask, Rounds, chunks, required
from sordini.client.lag.model import ClientLag, Owner
from sordini.client.lag.outlook import Rate
from sordini.client.lag.share_groups import SHARE, describe_shares
from sordini.client.routing import metadata_request
from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.consumer_subscription import read_subscribed_topics
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sordini.protocol.messages.describe_group_progress import DescribeGroupProgressRequest
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
DEAD: Final = "Dead"
GROUPS_PER_REQUEST: Final = 200
MANY_KEYS: Final = 4
"""The first version of FindCoordinator for several groups."""
MANY_GROUPS: Final = 8
"""The first version of OffsetFetch for several groups."""
RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""the whole snapshot is repeated: another broker has the group now."""
NO_SUCH_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition, and how fast that advances, where the coordinator knows it."""

    offset: int
    rate: Rate | None = None
    age_ms: int | None = None


class Group:
    """What is known of one group; filled by the steps."""

    def __init__(self, name: str, coordinator: int | None = None) -> None:
        self.name = name
        self.coordinator = coordinator
        self.kind: str | None = None
        self.state = DEAD
        self.problem: str | None = None
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.owners: dict[TopicPartition, Owner] = {}
        self.client_lags: dict[TopicPartition, ClientLag] = {}
        self.subscribed: set[str] = set()
        self.lags: dict[TopicPartition, int | None] = {}
        """Of a share group: its partitions, and how many records are not done where the broker counts them."""
        self.members = 0

    def fail(self, code: int, message: str | None) -> bool:
        """Whether the group is refused, which is noted. Raises Refused for what a repeated snapshot may find mended."""
        return _failed(self, code, message)

    def start_at(self, partition: TopicPartition, offset: int) -> None:
        """Note the first offset that a share group has not done."""
        self.offsets[partition] = CommittedOffset(offset)


def all_groups() -> Rounds[list[Group]]:
    """Every classic, consumer and share group of the cluster. Raises ClientError."""
    (answer,) = yield [Ask(ANY_BROKER, metadata_request([]))]
    brokers = [broker.node_id for broker in required(answer).brokers]
    answers = yield [Ask(broker, ListGroupsRequest()) for broker in brokers]
    found: dict[str, Group] = {}
    for broker, listed in zip(brokers, answers, strict=True):
        check(f"broker {broker}", required(listed).error_code)
        for row in listed.groups:
            kind = row.group_type.lower()
            if kind in ("", CLASSIC, CONSUMER, SHARE):
                found[row.group_id] = Group(row.group_id, broker)
                found[row.group_id].kind = SHARE if kind == SHARE else None
    return [found[name] for name in sorted(found)]


def named_groups(names: Sequence[str]) -> Rounds[list[Group]]:
    """The groups of these names with their coordinators. Raises ClientError."""
    groups = [Group(name) for name in dict.fromkeys(names)]
    yield from _find_coordinators(groups)
    return groups


def _find_coordinators(groups: Sequence[Group]) -> Rounds[None]:
    parts = list(chunks(groups, GROUPS_PER_REQUEST))
    answers = yield [
        Ask(ANY_BROKER, FindCoordinatorRequest(coordinator_keys=[group.name for group in part]), at_least=MANY_KEYS)
        for part in parts
    ]
    if any(isinstance(answer, NotServed) for answer in answers):
        parts = [[group] for group in groups]
        answers = yield [Ask(ANY_BROKER, FindCoordinatorRequest(key=group.name)) for group in groups]
    for part, answer in zip(parts, answers, strict=True):
        rows = {row.key: row for row in required(answer).coordinators}
        for group in part:
            row = rows.get(group.name, answer)  # Up to version 3 the response is about the one key.
            if not _failed(group, row.error_code, row.error_message):
                group.coordinator = row.node_id


_DESCRIPTIONS: Final[tuple[Callable[[list[str]], Any], ...]] = (
    lambda names: DescribeGroupProgressRequest(groups=names),
    lambda names: DescribeGroupsRequest(groups=names),
    lambda names: ConsumerGroupDescribeRequest(group_ids=names),
)


def describe(groups: Sequence[Group]) -> Rounds[None]:
    """Fill in offsets and members of groups whose coordinator is known. Raises ClientError."""
    yield from _describe_consumers(_parts(group for group in groups if group.kind != SHARE))
    yield from describe_shares(_parts(group for group in groups if group.state == DEAD))


def _parts(groups: Iterable[Group]) -> list[tuple[int, Sequence[Group]]]:
    """Groups without a problem by their coordinators, as many as one request may name."""
    by_broker: dict[int, list[Group]] = {}
    for group in groups:
        if group.coordinator is not None and group.problem is None:
            by_broker.setdefault(group.coordinator, []).append(group)
    return [(broker, part) for broker, found in by_broker.items() for part in chunks(found, GROUPS_PER_REQUEST)]


def _describe_consumers(parts: Sequence[tuple[int, Sequence[Group]]]) -> Rounds[None]:
    """Fill in classic and consumer groups."""
    if not parts:
        return
    names = [[group.name for group in part] for _, part in parts]
    asks = [Ask(broker, make(known)) for make in _DESCRIPTIONS for (broker, _), known in zip(parts, names, strict=True)]
    answers = yield asks
    count = len(parts)
    progress, classic, consumer = answers[:count], answers[count : 2 * count], answers[2 * count :]
    unserved = []
    for (broker, part), answer in zip(parts, progress, strict=True):
        if isinstance(answer, NotServed):
            unserved.append((broker, part))
        else:
            _take_progress(part, required(answer))
    for (_, part), answer in zip(parts, classic, strict=True):
        _take_classic(part, required(answer))
    for (_, part), answer in zip(parts, consumer, strict=True):
        if not isinstance(answer, NotServed):
            _take_consumer(part, required(answer))
    yield from _fetch_offsets(unserved)


def _take_progress(groups: Sequence[Group], answer: Any) -> None:
    for group, row in _rows(groups, answer.groups):
        if _failed(group, row.error_code, row.error_message):
            continue
        for topic in row.topics:
            for one in topic.partitions:
                window_s = one.window_ms / 1000
                group.offsets[TopicPartition(topic.topic, one.partition_index)] = CommittedOffset(
                    one.committed_offset,
                    Rate(one.advanced / window_s, window_s) if window_s > 0 else None,
                    one.commit_age_ms if one.commit_age_ms >= 0 else None,
                )


def _fetch_offsets(parts: Sequence[tuple[int, Sequence[Group]]]) -> Rounds[None]:
    """By OffsetFetch, from brokers of Apache Kafka."""
    if not parts:
        return
    most = FETCHES["at_most"]
    answers = yield [
        Ask(
            broker,
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.name, topics=None) for group in part]),
            at_least=MANY_GROUPS,
            at_most=most,
        )
        for broker, part in parts
    ]
    singly: list[tuple[int, Group]] = []
    for (broker, part), answer in zip(parts, answers, strict=True):
        if isinstance(answer, NotServed):
            singly += [(broker, group) for group in part]
            continue
        for group, row in _rows(part, required(answer).groups):
            _take_fetched(group, row)
    answers = yield [
        Ask(broker, fetch_request(group.name), at_least=FETCHES["at_least"], at_most=most) for broker, group in singly
    ]
    for (_, group), answer in zip(singly, answers, strict=True):
        _take_fetched(group, group_in(required(answer)))


def _take_fetched(group: Group, row: Any) -> None:
    if row.error_code in NO_SUCH_GROUP or _failed(group, row.error_code):
        return
    for name, one in partitions_in(row):
        if one.committed_offset >= 0 and not one.error_code:
            group.offsets[name] = CommittedOffset(one.committed_offset)


def _take_classic(groups: Sequence[Group], answer: Any) -> None:
    for group, row in _rows(groups, answer.groups):
        if row.error_code in NO_SUCH_GROUP or row.group_state == DEAD:
            continue
        if _failed(group, row.error_code, row.error_message):
            continue
        group.kind, group.state, group.members = CLASSIC, row.group_state, len(row.members)
        if row.protocol_type != CONSUMER:
            continue
        for member in row.members:
            owner = Owner(member.member_id, member.client_id, member.client_host)
            _own(group, owner, read_assignment(bytes(member.member_assignment)) or ())
            group.subscribed.update(read_subscribed_topics(bytes(member.member_metadata)) or ())


def _take_consumer(groups: Sequence[Group], answer: Any) -> None:
    for group, row in _rows(groups, answer.groups):
        if row.error_code in NO_SUCH_GROUP:
            continue
        if _failed(group, row.error_code, row.error_message):
            continue
        group.kind, group.state, group.members = CONSUMER, row.group_state, len(row.members)
        for member in row.members:
            owner = Owner(member.member_id, member.client_id, member.client_host)
            for topic in member.assignment.topic_partitions:
                _own(group, owner, (TopicPartition(topic.topic_name, index) for index in topic.partitions))
            group.subscribed.update(member.subscribed_topic_names)
            group.subscribed.update(topic.topic_name for topic in member.target_assignment.topic_partitions)


def _rows(groups: Sequence[Group], rows: Sequence[Any]) -> Iterator[tuple[Group, Any]]:
    """Each group with its row; refused ones come last, and a broker may leave one out."""
    found = {row.group_id: row for row in rows}
    for group in groups:
        row = found.get(group.name)
        if row is None:
            group.problem = f"the broker's answer says nothing of group '{group.name}'"
        else:
            yield group, row


def _own(group: Group, owner: Owner, partitions: Iterable[TopicPartition]) -> None:
    for partition in partitions:
        group.owners[partition] = owner


def _failed(group: Group, code: int, message: str | None = None) -> bool:
    """Whether a group is refused, which is noted. Raises Refused for what a repeated snapshot may find mended."""
    if not code:
        return False
    error: ClientError = Refused(f"group '{group.name}'", code, message)
    if code in RETRIABLE:
        raise error
    group.problem = str(error)
    return True
