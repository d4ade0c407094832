"""Groups, producers and users of a cluster, as the kit's own client asks for them and changes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient
from sordini.testing.security import Login

MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As AlterUserScramCredentials has them."""
ITERATIONS: Final = 4096


class Groups:
    """Requests to the coordinators of groups and transactions, and about users."""

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

    def members(self, group: str) -> list[str]:
        """The ids of a group's members."""
        described = self._client.ask(DescribeGroupsRequest(groups=[group]), self._client.coordinator(group)).groups[0]
        return [member.member_id for member in described.members]

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
            response = self._client.ask(request, self._client.coordinator(transactional_id, 1))
            return None if response.error_code in TEMPORARY else response

        response = self._client.wait(fenced, f"transactional id {transactional_id!r} is fenced")
        if response.error_code:
            raise KitError(f"transactional id {transactional_id!r}: {ErrorCode(response.error_code).name}")

    def set_scram_user(self, login: Login, mechanism: str) -> None:
        """Make a user that logs in by SCRAM. Raises KitError."""
        salt = b"sordini-testing"
        name = "sha256" if mechanism.endswith("256") else "sha512"
        salted = hashlib.pbkdf2_hmac(name, login.password.encode(), salt, ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=login.user,
            mechanism=MECHANISM_NUMBERS[mechanism],
            iterations=ITERATIONS,
            salt=salt,
            salted_password=salted,
        )
        row = self._client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion])).results[0]
        if row.error_code:
            raise KitError(f"user {login.user!r}: {row.error_message or ErrorCode(row.error_code).name}")
