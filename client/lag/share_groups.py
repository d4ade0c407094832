"""Steps to the coordinators of share groups (KIP-932): members, start offsets, and how many records are not done. Pure.

The start offset takes the place of the committed one: all before it is done. Behind it some records may be done too, so
that the lag is what the broker counts (KIP-1226), not the distance to the end; brokers that do not count it leave the
distance. A partition has as many owners as there are members, so none is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from sordini.client.errors import NotServed
from sordini.client.lag.asking import Ask, Rounds, required
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from sordini.protocol.types import TopicPartition

SHARE: Final = "share"
NO_SUCH_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class ShareGroup(Protocol):
    """What the steps fill in of a `Group`."""

    name: str
    kind: str | None
    state: str
    members: int
    lags: dict[TopicPartition, int | None]

    def fail(self, code: int, message: str | None) -> bool:
        """Whether it is refused, which is noted."""

    def start_at(self, partition: TopicPartition, offset: int) -> None:
        """Note a start offset."""


Parts = Sequence[tuple[int, Sequence[ShareGroup]]]
"""Coordinators, and groups of theirs."""
_REQUESTS: Final[tuple[Callable[[list[str]], Any], ...]] = (
    lambda names: ShareGroupDescribeRequest(group_ids=names),
    lambda names: DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in names]
    ),
)


def describe_shares(parts: Parts) -> Rounds[None]:
    """Fill in those of the groups that are share groups. Raises ClientError."""
    if not parts:
        return
    names = [[group.name for group in part] for _, part in parts]
    answers = yield [
        Ask(broker, make(known)) for make in _REQUESTS for (broker, _), known in zip(parts, names, strict=True)
    ]
    described, offsets = answers[: len(parts)], answers[len(parts) :]
    for (_, part), members, starts in zip(parts, described, offsets, strict=True):
        if isinstance(members, NotServed) or isinstance(starts, NotServed):
            continue
        groups = {group.name: group for group in part}
        shares = _take_members(groups, required(members))
        _take_starts(shares, required(starts))


def _take_members(groups: dict[str, ShareGroup], answer: Any) -> dict[str, ShareGroup]:
    """The share groups among them."""
    shares = {}
    for row in answer.groups:
        group = groups.get(row.group_id)
        if group is None or row.error_code in NO_SUCH_GROUP or group.fail(row.error_code, row.error_message):
            continue
        group.kind, group.state, group.members = SHARE, row.group_state, len(row.members)
        shares[group.name] = group
        for member in row.members:
            for topic in member.assignment.topic_partitions:
                for index in topic.partitions:
                    group.lags.setdefault(TopicPartition(topic.topic_name, index), None)
    return shares


def _take_starts(shares: dict[str, ShareGroup], answer: Any) -> None:
    for row in answer.groups:
        group = shares.get(row.group_id)
        if group is None or row.error_code in NO_SUCH_GROUP or group.fail(row.error_code, row.error_message):
            continue
        for topic in row.topics:
            for one in topic.partitions:
                if one.error_code:
                    continue
                partition = TopicPartition(topic.topic_name, one.partition_index)
                group.lags[partition] = one.lag if one.lag >= 0 else None
                if one.start_offset >= 0:
                    group.start_at(partition, one.start_offset)
