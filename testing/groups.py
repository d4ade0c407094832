"""Groups and transactional producers of a cluster, as the kit's own client asks for them and changes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sordini.client.lag.model import GroupLag
from sordini.client.routing import TRANSACTION_KEY
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.testing.group_lag import group_lag
from sordini.testing.group_state import GroupState, classic_group, consumer_group, group_that_is_not_there
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient


class Groups:
    """Requests to the coordinators of groups and transactions."""

    def __init__(self, client: OwnClient) -> None:
        self._client = client

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])

        def fetched() -> Any:
            row = self._client.ask(request, self._client.coordinator(group)).groups[0]
            return None if row.error_code in TEMPORARY else row

        row = self._client.wait(fetched, f"the offsets of group {group!r} can be read")
        if row.error_code:
            raise KitError(f"group {group!r}: {ErrorCode(row.error_code).name}")
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in row.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        }

    def describe(self, group: str) -> GroupState:
        """A group of either kind, and its members. Raises KitError."""
        # To each of these requests, a group of the other kind does not exist.
        for request, state_of in (
            (DescribeGroupsRequest(groups=[group]), classic_group),
            (ConsumerGroupDescribeRequest(group_ids=[group]), consumer_group),
        ):
            found = self._client.wait(partial(self._described, request, group), f"group {group!r} can be described")
            if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                continue
            if found.error_code:
                raise KitError(f"group {group!r}: {ErrorCode(found.error_code).name}")
            return state_of(found)
        return group_that_is_not_there(group)

    def _described(self, request: Any, group: str) -> Any:
        found = self._client.ask(request, self._client.coordinator(group)).groups[0]
        return None if found.error_code in TEMPORARY else found

    def lag(self, group: str, topics: frozenset[str]) -> GroupLag:
        """How far a group is behind, of some topics if any are named. Raises KitError."""
        return group_lag(self._client, group, topics)

    def wait(self, find: Callable[[], Any], what: str, timeout_s: float) -> Any:
        """As `OwnClient.wait`."""
        return self._client.wait(find, what, timeout_s)

    def expel(self, group: str, members: Sequence[str]) -> None:
        """Remove members from their group: each learns it from its next heartbeat."""
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=one) for one in members])
        response = self._client.ask(request, self._client.coordinator(group))
        for row in response.members:
            if row.error_code:
                raise KitError(f"member {row.member_id!r} of group {group!r}: {ErrorCode(row.error_code).name}")

    def fence(self, transactional_id: str) -> None:
        """Begin a new epoch of a transactional id, as a second producer does: the first one is fenced."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)

        def fenced() -> Any:
            response = self._client.ask(request, self._client.coordinator(transactional_id, TRANSACTION_KEY))
            return None if response.error_code in TEMPORARY else response

        response = self._client.wait(fenced, f"transactional id {transactional_id!r} is fenced")
        if response.error_code:
            raise KitError(f"transactional id {transactional_id!r}: {ErrorCode(response.error_code).name}")
