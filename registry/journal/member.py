"""The membership of this process in the group of registries: joins, syncs, sends heartbeats, leaves.

One task runs it. Each generation brings an assignment; while a new generation is formed the last one holds, since the
log fences a writer that another one has followed. `lease_end_s` is when others may elect another writer, by our clock.

Brokers form the first generation of a group after `group.initial.rebalance.delay.ms`. A registry that finds its group
without members writes in the meantime: two that start together may both, and the log decides between them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.cluster import Link
from sordini.client.errors import ClientError, InvalidResponse, Refused, Unreachable
from sordini.client.retries import Backoff
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sordini.registry.journal.membership import (
    NO_WRITER,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    MalformedMember,
    Remedy,
    assignment_bytes,
    assignment_in,
    elect,
    metadata_of,
    remedy_for,
)
from sordini.registry.journal.settings import JournalSettings
from sordini.replication.ports import Logger

_PAUSE_MS: Final = 50
_PAUSE_MS_MAX: Final = 1_000
_REFUSED_PAUSE_S: Final = 10.0
"""After an error that another attempt does not mend."""
_FAILURES_LOGGED: Final = 5
"""A coordinator that moves or loads is no event; one that stays away for a second is."""
LEAVE_S_MAX: Final = 3.0
_WITHOUT_MEMBERS: Final = frozenset({"Dead", "Empty"})
"""States of a group in DescribeGroups."""
DESCRIBE_S_MAX: Final = 2.0
_JOIN_MARGIN_S: Final = 10.0
"""For JoinGroup beyond the rebalance timeout: the first generation of a group may wait for more members."""


class Member:
    """The membership, and what the group decided last."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: JournalSettings,
        assigned: Callable[[], None],
        log: Logger,
    ) -> None:
        """`assigned` is called after every change of `assignment`."""
        self.assignment = NO_WRITER
        self.lease_end_s = 0.0
        """Of the loop's clock."""
        self._cluster = cluster
        self._settings = settings
        self._assigned = assigned
        self._log = log
        self._member_id = ""
        self._generation = -1
        self._is_first = False
        """Whether the group had no members when this one came: it is the writer until they elect one."""
        self._failures = 0
        self._is_failure_logged = False

    @property
    def is_writer(self) -> bool:
        """Whether the group elected this process, or there was no other one to elect."""
        return self._is_first or (bool(self._member_id) and self.assignment.writer_id == self._member_id)

    @property
    def _join_s(self) -> float:
        """For an answer to JoinGroup or SyncGroup."""
        return self._settings.rebalance_timeout_ms / 1000 + _JOIN_MARGIN_S

    def interrupted(self) -> None:
        """Another registry writes: without an election this one does not any more."""
        self._is_first = False

    @property
    def is_leased(self) -> bool:
        """Whether no other member can have been elected yet, as far as clocks agree."""
        return asyncio.get_running_loop().time() < self.lease_end_s

    async def run(self) -> None:
        """Be a member until cancelled; leaves the group then, so that another writes at once."""
        backoff = Backoff(_PAUSE_MS, _PAUSE_MS_MAX)
        try:
            while True:
                pause_s = 0.0
                try:
                    link = await self._join()
                    backoff.reset()
                    await self._send_heartbeats(link)
                except ClientError as error:
                    pause_s = self._after(error, backoff)
                await asyncio.sleep(pause_s)
        finally:
            self._is_first = False
            self._assign(NO_WRITER)
            await self._leave()

    def _after(self, error: ClientError, backoff: Backoff) -> float:
        """Take the remedy for an error; the seconds to wait before the next attempt."""
        remedy = Remedy.FIND_COORDINATOR
        if isinstance(error, Refused):
            remedy = remedy_for(error.code)
        elif isinstance(error, Unreachable):
            self._cluster.close()
            self._cluster.cluster_map.forget()
        else:
            remedy = Remedy.FAIL
        if remedy is Remedy.REJOIN:
            return 0.0
        if remedy is Remedy.REJOIN_AS_NEW:
            self._member_id = ""
            self._assign(NO_WRITER)
            return 0.0
        self._failures += 1
        is_lasting = remedy is Remedy.FAIL or self._failures >= _FAILURES_LOGGED
        if is_lasting and not self._is_failure_logged:
            self._is_failure_logged = True
            self._log.warning("registry without its group", group=self._settings.group, reason=str(error))
        return _REFUSED_PAUSE_S if remedy is Remedy.FAIL else backoff.next_ms() / 1000

    async def _join(self) -> Link:
        """Take part in the next generation; the link to its coordinator. Raises ClientError."""
        settings, loop = self._settings, asyncio.get_running_loop()
        link = await self._cluster.coordinator(settings.group)
        if self.assignment is NO_WRITER and settings.identity.is_eligible and not self._member_id:
            await self._write_if_first(link)
        sent_s = loop.time()
        request = JoinGroupRequest(
            group_id=settings.group,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata_of(settings.identity))],
        )
        try:
            async with asyncio.timeout(self._join_s):
                joined: JoinGroupResponse = await link.ask(request)
        except TimeoutError:
            raise Unreachable(f"{link.address} did not answer JoinGroup") from None
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        self._check("joining", joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments = self._assignments(joined) if joined.leader == joined.member_id else []
        sync = SyncGroupRequest(
            group_id=settings.group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        try:
            async with asyncio.timeout(self._join_s):
                synced = await link.ask(sync)
        except TimeoutError:
            raise Unreachable(f"{link.address} did not answer SyncGroup") from None
        self._check("syncing", synced.error_code)
        self.lease_end_s = sent_s + settings.session_timeout_ms / 1000
        self._take(synced.assignment)
        return link

    async def _write_if_first(self, link: Link) -> None:
        """Be the writer before the first election of a group that has no members. Raises ClientError."""
        try:
            async with asyncio.timeout(DESCRIBE_S_MAX):
                answer = await link.ask(DescribeGroupsRequest(groups=[self._settings.group]))
        except TimeoutError:
            raise Unreachable(f"{link.address} did not answer DescribeGroups") from None
        for row in answer.groups:
            is_new = row.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            if is_new or (not row.error_code and row.group_state in _WITHOUT_MEMBERS and not row.members):
                self._is_first = True
                # No other one can be elected before this member's JoinGroup is answered, or has failed.
                self.lease_end_s = asyncio.get_running_loop().time() + self._join_s
                self._assigned()

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader's part: all members get the same assignment."""
        members = {row.member_id: bytes(row.metadata) for row in joined.members}
        incumbent = self._member_id if self._is_first else self.assignment.writer_id
        elected = assignment_bytes(elect(members, incumbent))
        return [SyncGroupRequestAssignment(member_id=member_id, assignment=elected) for member_id in members]

    def _take(self, data: bytes) -> None:
        try:
            assignment = assignment_in(data)
        except MalformedMember as error:
            raise InvalidResponse(f"the leader of group '{self._settings.group}' sent no assignment: {error}") from None
        if assignment.error:
            self._log.error(
                "no registry elected",
                error=assignment.error,
                group=self._settings.group,
                reason="two members of the group have one URL",
                url=self._settings.identity.url,
            )
        if self._is_failure_logged:
            self._log.info("registry in its group again", group=self._settings.group)
        self._failures, self._is_failure_logged = 0, False
        self._is_first = False
        self._assign(assignment)

    def _assign(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self._assigned()

    async def _send_heartbeats(self, link: Link) -> None:
        """Until the group forms a new generation. Raises ClientError."""
        settings, loop = self._settings, asyncio.get_running_loop()
        request = HeartbeatRequest(group_id=settings.group, generation_id=self._generation, member_id=self._member_id)
        while True:
            await asyncio.sleep(settings.heartbeat_ms / 1000)
            sent_s = loop.time()
            try:
                async with asyncio.timeout(settings.session_timeout_ms / 2000):
                    response = await link.ask(request)
            except TimeoutError:
                raise Unreachable(f"{link.address} did not answer a heartbeat") from None
            self._check("a heartbeat", response.error_code)
            self.lease_end_s = sent_s + settings.session_timeout_ms / 1000

    def _check(self, subject: str, code: int) -> None:
        if code:
            raise Refused(f"{subject} in group '{self._settings.group}'", code)

    async def _leave(self) -> None:
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self._settings.group,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id, reason="the registry stops")],
        )
        # Without it the session ends by its timeout.
        with contextlib.suppress(ClientError, TimeoutError):
            async with asyncio.timeout(LEAVE_S_MAX):
                link = await self._cluster.coordinator(self._settings.group)
                await link.ask(request)
        self._member_id = ""
