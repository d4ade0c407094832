"""A simulated member of a consumer group: a correct client, and the disturbances of clients.

It finds its coordinator, joins, assigns partitions as leader, reads the committed offsets, sends heartbeats and commits;
it joins again on REBALANCE_IN_PROGRESS, and without a member id on UNKNOWN_MEMBER_ID. In between it falls silent for a
while, vanishes without LeaveGroup, leaves, and joins again; sometimes it commits under an earlier generation, which must
be refused. Its responses are recorded for the checkers of groups.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address, SimNetwork
from tests.sim import assignments
from tests.sim.broker_contact import BrokerContact
from tests.sim.client import Connection
from tests.sim.group_client import MemberRules, TryAgain, partition_counts
from tests.sim.group_history import GroupHistory, Joined, Left, Listed, Synced, Unanswered
from tests.sim.offsets_client import OffsetsClient, Who

SESSION_S = 10.0
HEARTBEAT_S = 3.0
REBALANCE_S = 20.0
"""Two sessions: a member with a request in every session joins in time."""
JOIN_S = REBALANCE_S + 5
ANSWER_S = 10.0
"""A client gives a connection up when its session would have ended."""
BACKOFF_S = 0.2
METADATA_S = 4.0
GONE_CHANCE = 0.3

LATER = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class Member:
    """One member; `run` returns at its end, and leaves no connection."""

    def __init__(
        self, name: str, network: SimNetwork, address: Address, history: GroupHistory, rules: MemberRules, seed: int
    ) -> None:
        self.rules = rules
        self.member_id = ""
        self.generation_id = -1
        self.assignment: frozenset[TopicPartition] | None = None
        self.connection: Connection | None = None
        self.is_gone = False
        """Vanished permanently."""
        self._name = name
        self._network = network
        self._loop = network.loop
        self._address = address
        self._history = history
        self._random = random.Random(f"{name} {seed}")
        self._offsets = OffsetsClient(name, network, history, rules.group_id)
        self._is_leader = False
        self._led = -1
        self._counts: dict[str, int] = {}
        self._contact = BrokerContact(network.loop, history)
        self._past: Who | None = None
        self._is_calm = False

    async def run(self, calm_from: float, until: float) -> None:
        """Run until `until` (loop time); without disturbances from `calm_from`."""
        next_change = self._loop.time() + self._random.expovariate(1 / self.rules.change_gap_s)
        while self._loop.time() < until and not self.is_gone:
            changes = min(next_change, calm_from)
            is_calm = changes >= calm_from
            if is_calm and self._vanishes_for_good():
                break
            try:
                await self._live(until if is_calm else changes)
                if not is_calm:
                    await self._change(calm_from)
                    next_change = self._loop.time() + self._random.expovariate(1 / self.rules.change_gap_s)
            except (OSError, TryAgain, TimeoutError):
                await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
        self._leave_connection()

    # Disturbances.

    async def _change(self, calm_from: float) -> None:
        kind = self._random.choice(("silent", "silent", "vanish", "vanish", "leave", "rejoin"))
        now = self._loop.time()
        self._network.trace.note(self._name, kind)
        if kind == "silent":
            await asyncio.sleep(self._random.uniform(4.0, 8.0))
        elif kind == "rejoin":
            self.assignment = None
        else:
            if kind == "leave":
                await self._leave()
            self._forget()
            pause = self._random.choice((0.5, 5.0, 18.0)) * self._random.uniform(0.5, 1.0)
            await asyncio.sleep(max(0.0, min(pause, calm_from - now)))

    def _vanishes_for_good(self) -> bool:
        """One last chance for a dynamic member, when no other change follows that could hide it."""
        if not self._is_calm and self.rules.instance_id is None and self.assignment is not None:
            self.is_gone = self._random.random() < GONE_CHANCE
        self._is_calm = True
        return self.is_gone

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
        answer = await self._ask(connection, ApiKey.LEAVE_GROUP, version, request, ANSWER_S)
        code = answer.error_code or (answer.members[0].error_code if version >= 3 else 0)
        if not code:
            self._history.left.append(Left(self.rules.group_id, self.member_id, self._loop.time()))
        elif code not in LATER and code not in LOST:
            self._strange("LeaveGroup", code)

    def _forget(self) -> None:
        """The process ended; its state is lost."""
        self._leave_connection()
        self._past = self._who() if self.rules.instance_id is not None and self.generation_id >= 0 else None
        self._lose_id()

    def _go_from(self, member_id: str) -> None:
        """The member id is not valid any more."""
        self._past = self._who() if self.generation_id >= 0 else self._past
        if member_id:
            self._history.left.append(Left(self.rules.group_id, member_id, self._loop.time()))

    def _lose_id(self) -> None:
        self.member_id = ""
        self.generation_id = -1
        self.assignment = None
        self._is_leader = False
        self._led = -1
        self._contact.has_new_id()

    # A correct client.

    async def _live(self, until: float) -> None:
        """Be a member until then; any error of a connection ends this early."""
        try:
            connection = await self._coordinator()
            while self._loop.time() < until:
                if self.assignment is None:
                    await self._become_member(connection)
                else:
                    await self._work(connection, until)
        except BaseException:
            self._leave_connection()
            raise

    async def _coordinator(self) -> Connection:
        if self.connection is None or not self.connection.is_open:
            self._leave_connection()
            self._contact.tries()
            self.connection = await Connection.open(self._network, self._address, self._name)
            version = self._random.choice((0, 2, 3, 4, 6))
            await self._offsets.find_coordinator(self.connection, version, self._address)
        return self.connection

    async def _become_member(self, connection: Connection) -> None:
        joined = await self._join(connection)
        if joined is not None and await self._sync(connection, joined):
            if self.assignment:
                await self._offsets.fetch(connection, self.rules.fetch_version, sorted(self.assignment))
            if self._past is not None and self._random.random() < 0.5:
                await self._commit_from_the_past(connection, self._past)
            self._past = None

    async def _join(self, connection: Connection) -> JoinGroupResponse | None:
        rules, began = self.rules, self._loop.time()
        subscription = assignments.subscription(rules.topics)
        request = JoinGroupRequest(
            group_id=rules.group_id,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member_id,
            group_instance_id=rules.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=assignments.PROTOCOL, metadata=subscription)],
        )
        answer = await self._ask(connection, ApiKey.JOIN_GROUP, rules.join_version, request, JOIN_S)
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
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
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
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=rules.instance_id,
            protocol_type=joined.protocol_type or "consumer",
            protocol_name=joined.protocol_name,
            assignments=given,
        )
        answer = await self._ask(connection, ApiKey.SYNC_GROUP, rules.sync_version, request, JOIN_S)
        code = ErrorCode(answer.error_code)
        if code:
            self._refused("SyncGroup", connection, code, began)
            return False
        self._contact.is_answered_after_waiting(connection, began)
        now = self._loop.time()
        self._contact.is_written()
        self._led = self.generation_id if joined.leader == self.member_id else -1
        partitions = assignments.assigned(answer.assignment) if answer.assignment else None
        synced = Synced(rules.group_id, self.generation_id, self._identity, partitions, began, now)
        self._history.synced.append(synced)
        self._network.trace.note(self._name, "synced", self.generation_id, *sorted(partitions or ()))
        self.assignment = partitions or frozenset()
        return True

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = {member.member_id: assignments.subscribed(bytes(member.metadata)) for member in joined.members}
        shares = assignments.share_out(members, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignments.assignment(share))
            for member_id, share in shares.items()
        ]

    async def _work(self, connection: Connection, until: float) -> None:
        """Heartbeats and commits, as long as the generation lasts."""
        if self.assignment and self._random.random() < 0.5:
            # Whether what could not be committed over the last connection counts.
            await self._offsets.fetch(connection, self.rules.fetch_version, sorted(self.assignment))
        generation_id = self.generation_id
        now = self._loop.time()
        next_beat, next_look = now + HEARTBEAT_S * self._random.random(), now + METADATA_S
        next_commit = now + self._random.expovariate(1 / self.rules.commit_gap_s)
        while self.assignment is not None and self.generation_id == generation_id:
            now = self._loop.time()
            if now >= until:
                return
            if now >= next_beat:
                await self._beat(connection)
                next_beat = self._loop.time() + HEARTBEAT_S
            elif now >= next_commit:
                await self._commit(connection)
                next_commit = self._loop.time() + self._random.expovariate(1 / self.rules.commit_gap_s)
            elif now >= next_look and self._is_leader:
                next_look = now + METADATA_S
                if await partition_counts(connection, self.rules.topics) != self._counts:
                    self._end_generation()
            else:
                due = (next_beat, next_commit, until, *((next_look,) if self._is_leader else ()))
                await asyncio.sleep(max(0.0, min(due) - now))
                if not connection.is_open:
                    raise TryAgain("the connection is gone")

    async def _beat(self, connection: Connection) -> None:
        began = self._loop.time()
        request = HeartbeatRequest(
            group_id=self.rules.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.rules.instance_id,
        )
        answer = await self._ask(connection, ApiKey.HEARTBEAT, 4, request, ANSWER_S)
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._contact.is_answered(began)
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self._random.random() < 0.3:
            await self._commit(connection)  # What is done already, before the partitions may go to others.
        if code:
            self._refused("Heartbeat", connection, code, began)

    async def _commit(self, connection: Connection) -> None:
        if not self.assignment:
            return
        began = self._loop.time()
        version = max(self.rules.commit_version, 7) if self.rules.instance_id is not None else self.rules.commit_version
        code = await self._offsets.commit(connection, version, self._who(), sorted(self.assignment))
        if not code:
            self._contact.is_answered(began)
        elif code in (*LOST, *AGAIN):
            self._refused("OffsetCommit", connection, code, began)

    async def _commit_from_the_past(self, connection: Connection, past: Who) -> None:
        """A commit of a thread that does not know the new generation yet."""
        partitions = [TopicPartition(topic, 0) for topic in self.rules.topics]
        code = await self._offsets.commit(connection, 7, past, partitions)
        if code in (ErrorCode.ILLEGAL_GENERATION, *LOST):
            self._history.refused += 1

    # State.

    @property
    def is_about_to_look(self) -> bool:
        """Whether it leads and has not checked whether the topics changed."""
        return self._is_leader and not self._counts

    @property
    def _identity(self) -> str:
        return self.rules.instance_id or self.member_id

    def _who(self) -> Who:
        return Who(self.member_id, self.generation_id, self.rules.instance_id)

    async def _ask(self, connection: Connection, api_key: ApiKey, version: int, request: Any, patience_s: float) -> Any:
        self._contact.tries()
        began = self._loop.time()
        try:
            async with asyncio.timeout(patience_s):
                return await connection.request(api_key, version, request)
        except TimeoutError:
            socket = connection.socket.wire
            held_up = max(socket.inward.stalled_until, socket.outward.stalled_until, connection.asleep_until)
            if connection.is_open and not socket.inward.cut and held_up < began:
                waited = Unanswered(self.rules.group_id, api_key.name, began, self._loop.time())
                self._history.unanswered.append(waited)
            raise

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
        if self.assignment is not None:
            self._past = self._who()
        self.assignment = None

    def _strange(self, what: str, code: int) -> None:
        text = f"{self._name}'s {what} was answered with {ErrorCode(code).name} at {self._loop.time():.3f}"
        self._history.strange.append(text)

    def _leave_connection(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
