"""A simulated member of a consumer group: a correct client, and the disturbances of clients.

It finds its coordinator, joins, assigns partitions as leader, reads the committed offsets, sends heartbeats and commits;
it joins again on REBALANCE_IN_PROGRESS, and without a member id on UNKNOWN_MEMBER_ID. In between it falls silent for a
while, vanishes without LeaveGroup, leaves, and joins again; sometimes it commits under an earlier generation, which must
be refused. Some read their partitions, and commit what they have read. Responses are recorded for the checkers of groups.
"""

from __future__ import annotations

import asyncio

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sordini.protocol.types import TopicPartition
from tests.sim import assignments
from tests.sim.brokers import Brokers
from tests.sim.client import Connection
from tests.sim.group_client import MemberRules, TryAgain, partition_counts
from tests.sim.group_history import GroupHistory, Joined, Left, Listed, Synced
from tests.sim.member_life import MemberLife
from tests.sim.offsets_client import Who

LATER = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND)
AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class Member(MemberLife):
    """One member, static if its rules have an instance id."""

    kinds = ("silent", "silent", "vanish", "vanish", "leave", "rejoin")

    def __init__(self, name: str, brokers: Brokers, history: GroupHistory, rules: MemberRules, seed: int) -> None:
        super().__init__(name, brokers, history, rules, seed)
        self.rules = rules
        self._generation_id = -1
        self._assignment: frozenset[TopicPartition] | None = None
        self._is_leader = False
        self._led = -1
        self._counts: dict[str, int] = {}
        self._past: Who | None = None
        self._past_positions: dict[TopicPartition, int] = {}
        """Of a member that reads: what it had then."""

    # Disturbances.

    async def _disturb(self, kind: str, calm_from: float) -> None:
        assert kind == "rejoin", (kind, calm_from)
        self._give_up()

    def _may_vanish(self) -> bool:
        return self.rules.instance_id is None and self._assignment is not None

    async def _leave(self) -> None:
        """Send LeaveGroup; a static member is removed by its instance id, as an administrator would do."""
        connection = self.connection
        if connection is None or not self.member_id:
            return
        member = MemberIdentity(member_id=self.member_id, group_instance_id=self.rules.instance_id)
        version = 5 if self.rules.instance_id is not None else self._random.choice((1, 2, 3, 5))
        request = LeaveGroupRequest(group_id=self.rules.group_id, members=[member])
        if version < 3:
            request = LeaveGroupRequest(group_id=self.rules.group_id, member_id=self.member_id)
        answer = await self._ask(connection, ApiKey.LEAVE_GROUP, version, request, self._pace.answer_s)
        code = answer.error_code or (answer.members[0].error_code if version >= 3 else 0)
        if not code:
            self._history.left.append(Left(self.rules.group_id, self.member_id, self._loop.time()))
        elif code not in LATER and code not in LOST:
            self._strange("LeaveGroup", code)

    def _end_process(self) -> None:
        self._past = None
        if self.rules.instance_id is not None:
            self._note_past()
        self._lose_id()

    def _go_from(self, member_id: str) -> None:
        """The member id is not valid any more."""
        self._note_past()
        if member_id:
            self._history.left.append(Left(self.rules.group_id, member_id, self._loop.time()))

    def _lose_id(self) -> None:
        self.member_id = ""
        self._generation_id = -1
        self._give_up()
        self._is_leader = False
        self._led = -1
        self._contact.has_new_id()

    # A correct client.

    async def _live(self, until: float) -> None:
        connection = await self._coordinator()
        while self._loop.time() < until:
            if self._assignment is None:
                await self._become_member(connection)
            else:
                await self._work(connection, until)

    async def _become_member(self, connection: Connection) -> None:
        joined = await self._join(connection)
        if joined is not None and await self._sync(connection, joined):
            await self._read_committed(connection)
            if self._past is not None and self._random.random() < 0.5:
                await self._commit_from_the_past(connection, self._past)
            self._past = None

    async def _join(self, connection: Connection) -> JoinGroupResponse | None:
        rules, began = self.rules, self._loop.time()
        subscription = assignments.subscription(rules.topics)
        request = JoinGroupRequest(
            group_id=rules.group_id,
            session_timeout_ms=int(self._pace.session_s * 1000),
            rebalance_timeout_ms=int(self._pace.rebalance_s * 1000),
            member_id=self.member_id,
            group_instance_id=rules.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=rules.protocol, metadata=subscription)],
        )
        answer = await self._ask(connection, ApiKey.JOIN_GROUP, rules.join_version, request, self._pace.join_s)
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._contact.is_answered(began)
            return None
        if code:
            self._refused("JoinGroup", connection, code, began)
            return None
        if answer.member_id != self.member_id:
            self._contact.has_new_id()
        if self._past is not None and self._past.instance_id is not None and self._past.member_id != answer.member_id:
            self._history.left.append(Left(rules.group_id, self._past.member_id, self._loop.time()))
        self.member_id, self._generation_id = answer.member_id, answer.generation_id
        self._is_leader = answer.leader == answer.member_id
        self._contact.is_answered_after_waiting(connection, began)
        if answer.members:
            ids = frozenset(member.member_id for member in answer.members)
            self._history.listed.append(Listed(rules.group_id, ids, began, self._loop.time()))
        self._history.joined.append(
            Joined(
                rules.group_id,
                answer.generation_id,
                self._identity,
                self._is_leader,
                began,
                self._loop.time(),
                self._led,
            )
        )
        self._network.trace.note(self._name, "joined", answer.generation_id, self._is_leader)
        return answer

    async def _sync(self, connection: Connection, joined: JoinGroupResponse) -> bool:
        rules = self.rules
        given: list[SyncGroupRequestAssignment] = []
        if self._is_leader and not joined.skip_assignment:
            self._counts = await partition_counts(connection, rules.topics)
            given = self._assign(joined)
        elif rules.instance_id is not None and joined.leader.startswith(rules.instance_id):
            # A static leader that joined again keeps the assignment, and has to check itself what changed meanwhile.
            # Below v9 the response names its former member id as leader.
            self._is_leader, self._counts = True, {}
        began = self._loop.time()
        request = SyncGroupRequest(
            group_id=rules.group_id,
            generation_id=self._generation_id,
            member_id=self.member_id,
            group_instance_id=rules.instance_id,
            protocol_type=joined.protocol_type or "consumer",
            protocol_name=joined.protocol_name,
            assignments=given,
        )
        answer = await self._ask(connection, ApiKey.SYNC_GROUP, rules.sync_version, request, self._pace.join_s)
        code = ErrorCode(answer.error_code)
        if code:
            self._refused("SyncGroup", connection, code, began)
            return False
        self._contact.is_answered_after_waiting(connection, began)
        now = self._loop.time()
        self._contact.is_written()
        self._led = self._generation_id if joined.leader == self.member_id else -1
        partitions = assignments.assigned(answer.assignment) if answer.assignment else None
        synced = Synced(rules.group_id, self._generation_id, self._identity, partitions, began, now)
        self._history.synced.append(synced)
        self._network.trace.note(self._name, "synced", self._generation_id, *sorted(partitions or ()))
        self._assignment = partitions or frozenset()
        if rules.reads:
            self.reading.take(sorted(self._assignment), self._who())
        return True

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = {member.member_id: assignments.subscribed(bytes(member.metadata)) for member in joined.members}
        shares = assignments.share_out(members, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignments.assignment(share))
            for member_id, share in shares.items()
        ]

    async def _work(self, connection: Connection, until: float) -> None:
        """Heartbeats, commits and what it reads, as long as the generation lasts."""
        if self._random.random() < 0.5:
            await self._read_committed(
                connection
            )  # Whether what could not be committed over the last connection counts.
        generation_id = self._generation_id
        now = self._loop.time()
        next_beat, next_look = now + self._pace.heartbeat_s * self._random.random(), now + self._pace.metadata_s
        next_commit = now + self._random.expovariate(1 / self.rules.commit_gap_s)
        next_poll = now if self.rules.reads else float("inf")
        while self._assignment is not None and self._generation_id == generation_id:
            now = self._loop.time()
            if now >= until:
                return
            if now >= next_beat:
                await self._beat(connection)
                next_beat = self._loop.time() + self._pace.heartbeat_s
            elif now >= next_commit:
                await self._commit(connection)
                next_commit = self._loop.time() + self._random.expovariate(1 / self.rules.commit_gap_s)
            elif self.reading.unread:
                await self._read_committed(connection)
                await asyncio.sleep(self._pace.backoff_s if self.reading.unread else 0.0)
            elif now >= next_poll:
                await self.reading.poll(connection)
                next_poll = self._loop.time() + self._pace.poll_s
            elif now >= next_look and self._is_leader:
                next_look = now + self._pace.metadata_s
                if await partition_counts(connection, self.rules.topics) != self._counts:
                    self._end_generation()
            else:
                due = (next_beat, next_commit, next_poll, until, *((next_look,) if self._is_leader else ()))
                await asyncio.sleep(max(0.0, min(due) - now))
                if not connection.is_open:
                    raise TryAgain("the connection is gone")

    async def _beat(self, connection: Connection) -> None:
        began = self._loop.time()
        request = HeartbeatRequest(
            group_id=self.rules.group_id,
            generation_id=self._generation_id,
            member_id=self.member_id,
            group_instance_id=self.rules.instance_id,
        )
        answer = await self._ask(connection, ApiKey.HEARTBEAT, 4, request, self._pace.answer_s)
        code = ErrorCode(answer.error_code)
        self._contact.heartbeat_is_answered(self.rules.group_id, code, began)
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self._random.random() < 0.3:
            await self._commit(connection)  # What is done already, before the partitions may go to others.
        if code:
            self._refused("Heartbeat", connection, code, began)

    async def _read_committed(self, connection: Connection) -> None:
        """From where to go on; of a member that does not read, only to see that it is right."""
        version = self.rules.fetch_version
        if self.reading.unread:
            await self.reading.read_committed(connection, version, None, self._who())
        elif self._assignment:
            await self._offsets.fetch(connection, version, sorted(self._assignment))

    async def _commit(self, connection: Connection) -> None:
        offsets = dict(self.reading.positions) if self.rules.reads else None
        partitions = sorted((self._assignment or ()) if offsets is None else offsets)
        if not partitions:
            return
        began = self._loop.time()
        version = max(self.rules.commit_version, 7) if self.rules.instance_id is not None else self.rules.commit_version
        code = await self._offsets.commit(connection, version, self._who(), partitions, offsets)
        if not code:
            if not self.rules.is_mixed:  # In a consumer group, only heartbeats extend a session.
                self._contact.is_answered(began)
        elif code in (*LOST, *AGAIN):
            self._refused("OffsetCommit", connection, code, began)

    async def _commit_from_the_past(self, connection: Connection, past: Who) -> None:
        """A commit of a thread that does not know the new generation yet."""
        partitions = [TopicPartition(topic, 0) for topic in self.rules.topics]
        offsets: dict[TopicPartition, int] | None = None
        if self.rules.reads:
            # In the same generation it is accepted, and must not be below what is committed next.
            offsets = {each: self.reading.positions.get(each, at) for each, at in self._past_positions.items()}
            partitions = sorted(offsets)
        if not partitions:
            return
        code = await self._offsets.commit(connection, 7, past, partitions, offsets)
        if code in (ErrorCode.ILLEGAL_GENERATION, *LOST):
            self._history.refused += 1

    # State.

    @property
    def generation_id(self) -> int:
        return self._generation_id

    @property
    def assignment(self) -> frozenset[TopicPartition] | None:
        return self._assignment

    @property
    def is_about_to_look(self) -> bool:
        """Whether it leads and has not checked whether the topics changed."""
        return self._is_leader and not self._counts

    @property
    def _identity(self) -> str:
        return self.rules.instance_id or self.member_id

    def _who(self) -> Who:
        return Who(self.member_id, self._generation_id, self.rules.instance_id)

    def _refused(self, what: str, connection: Connection, code: ErrorCode, began: float) -> None:
        self._network.trace.note(self._name, what, code.name)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._contact.is_expelled(connection, self.rules.group_id, self.member_id, began)
        if code in LOST:
            self._go_from(self.member_id)
            self._lose_id()
        elif code in AGAIN:
            self._end_generation()
        elif code in LATER:
            raise TryAgain(code.name)
        else:
            self._strange(what, code)
            raise TryAgain(code.name)

    def _end_generation(self) -> None:
        """Give everything up, and join again."""
        if self._assignment is not None:
            self._note_past()
        self._give_up()

    def _note_past(self) -> None:
        """What a thread may still commit that does not know what follows."""
        if self._generation_id >= 0:
            self._past, self._past_positions = self._who(), dict(self.reading.positions)

    def _give_up(self) -> None:
        """Stop with all partitions."""
        self._assignment = None
        self.reading.forget()

    def _strange(self, what: str, code: int) -> None:
        text = f"{self._name}'s {what} was answered with {ErrorCode(code).name} at {self._loop.time():.3f}"
        self._history.strange.append(text)
