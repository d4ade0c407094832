"""A simulated member of the consumer protocol (KIP-848): its own machine (`GroupMember`), and the disturbances of clients.

It sends heartbeats, reads its partitions from the committed offsets on, and commits what it has read. Giving partitions
up takes a while at times, with a commit or without. In between it falls silent, also for longer than a session and then
commits first; it closes a connection before an answer comes, vanishes, leaves, and joins again under a new member id.
Sometimes it commits under an epoch that is over, of which what it has lost since must be refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.types import TopicId, TopicPartition
from tests.sim.brokers import Brokers
from tests.sim.client import Connection
from tests.sim.group_client import ConsumerMemberRules, TryAgain, topic_names
from tests.sim.group_history import GroupHistory, Left, Missing
from tests.sim.group_member import (
    Assigned,
    CoordinatorLost,
    Event,
    Failed,
    GroupMember,
    Lost,
    Owned,
    Revoke,
    State,
)
from tests.sim.member_life import SILENCE, MemberLife
from tests.sim.offsets_client import Who

VERSION = 1


class ConsumerMember(MemberLife):
    """One dynamic member."""

    kinds = ("silent", "silent", "vanish", "vanish", "leave", "deaf", "zombie")

    def __init__(
        self, name: str, brokers: Brokers, history: GroupHistory, rules: ConsumerMemberRules, seed: int
    ) -> None:
        super().__init__(name, brokers, history, rules, seed)
        self.rules = rules
        self._names: dict[TopicId, str] = {}
        self._incarnation = 0
        self._end_process()

    def _end_process(self) -> None:
        """Another process: nothing of the one before is known."""
        self._incarnation += 1
        self.member_id = f"{self._name}-{self._incarnation}"
        rules, topics = self.rules, frozenset(self.rules.topics)
        rebalance_ms = int(self._pace.rebalance_s * 1000)
        self.machine = GroupMember(
            rules.group_id, self.member_id, topics, rebalance_ms, self._now_ms(), rules.instance_id
        )
        self.reading.forget()
        self._revoking: Owned = frozenset()
        self._revoking_until: float | None = None
        self._past: tuple[Who, dict[TopicPartition, int]] | None = None
        """An epoch that is over, and what it had then."""
        self._contact.has_new_id()

    # Disturbances.

    async def _disturb(self, kind: str, calm_from: float) -> None:
        if kind == "deaf":
            await self._miss_an_answer()
        else:
            assert kind == "zombie", kind
            now, seconds = self._loop.time(), self._random.uniform(1.2, 2.0) * self._pace.session_s
            await asyncio.sleep(max(0.0, min(seconds, calm_from - now)))
            if self.connection is not None:
                await self._commit(self.connection, sorted(self.reading.positions))  # It does not know of its fence.

    def _may_vanish(self) -> bool:
        return self.machine.state is State.STABLE

    async def _miss_an_answer(self) -> None:
        """A heartbeat is sent, and the connection closed before its answer comes."""
        request = self.machine.request(self.machine.due_ms)
        if request is None or self.connection is None:
            return
        sending = asyncio.ensure_future(self.connection.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request))
        await asyncio.sleep(0)
        self._leave_connection()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.exception()
        self.machine.no_response(self._now_ms())

    async def _leave(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.reading.positions and self._random.random() < 0.7:
            await self._commit(connection, sorted(self.reading.positions))
        self.machine.leave(self._now_ms())
        if await self._depart(connection):
            self._history.left.append(Left(self.rules.group_id, self.member_id, self._loop.time()))

    async def _depart(self, connection: Connection) -> bool:
        """Send the last heartbeat; whether it was granted. The process ends without an answer, too."""
        request = self.machine.request(self._now_ms())
        if request is not None:
            with contextlib.suppress(OSError, TimeoutError):
                return not (await self._send(connection, request)).error_code
        return False

    # A correct client.

    async def _live(self, until: float) -> None:
        connection = await self._coordinator()
        if not self._names:
            self._names = await topic_names(connection, self.rules.topics)
        next_commit = self._next_commit()
        next_poll = self._loop.time()
        while (now := self._loop.time()) < until:
            request = self.machine.request(self._now_ms())
            if request is not None:
                await self._beat(connection, request)
            elif self._revoking_until is not None and now >= self._revoking_until:
                await self._revoke(connection)
            elif self.reading.unread:
                await self._read_committed(connection)
            elif now >= next_commit:
                await self._commit(connection, sorted(self.reading.positions))
                next_commit = self._next_commit()
            elif now >= next_poll:
                await self.reading.poll(connection)
                next_poll = self._loop.time() + self._pace.poll_s
            else:
                due = [until, next_commit, next_poll, self.machine.due_ms / 1000 + 0.001]
                if self._revoking_until is not None:
                    due.append(self._revoking_until)
                await asyncio.sleep(max(0.001, min(due) - now))
                if not connection.is_open:
                    raise TryAgain("the connection is gone")

    def _next_commit(self) -> float:
        return self._loop.time() + self._random.expovariate(1 / self.rules.commit_gap_s)

    async def _beat(self, connection: Connection, request: ConsumerGroupHeartbeatRequest) -> None:
        began, epoch = self._loop.time(), self.machine.epoch
        try:
            answer = await self._send(connection, request)
        except (OSError, TimeoutError):
            self.machine.no_response(self._now_ms())
            raise
        code = ErrorCode(answer.error_code)
        events = self.machine.response(answer, self._now_ms())
        self._network.trace.note(self._name, "beat", request.member_epoch, code.name, answer.member_epoch, len(events))
        if not code:
            self._contact.is_answered(began)
            self._contact.is_written()
            if answer.member_epoch != epoch and epoch:
                self._past = Who(self.member_id, epoch, self.rules.instance_id), dict(self.reading.positions)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            # A group whose last member of this protocol was fenced is a classic one, and not found.
            self._contact.is_expelled(connection, self.rules.group_id, self.member_id, began)
            self._contact.has_new_id()
            if code == ErrorCode.GROUP_ID_NOT_FOUND and self.rules.group_id in self._history.unmixed_groups:
                self._history.missing.append(Missing(self.rules.group_id, self._name, self._loop.time()))
        for event in events:
            await self._handle(event, code)
        if self._past is not None and self._random.random() < 0.3:
            await self._commit_from_the_past(connection, *self._past)

    async def _handle(self, event: Event, code: ErrorCode) -> None:
        match event:
            case Assigned(partitions):
                self.reading.take(self._named(partitions), self._who())
            case Revoke(partitions):
                self._revoking = partitions
                is_slow = self._random.random() < self.rules.slow_revocation_chance
                pause = self._random.uniform(*SILENCE) * self._pace.session_s if is_slow else 0.0
                self._revoking_until = self._loop.time() + pause
            case Lost():
                self._history.fenced_members += 1
                self.reading.forget()
                self._revoking_until = None
                if self.machine.state is State.FENCED:
                    self.machine.abandoned(self._now_ms())
            case CoordinatorLost():
                raise TryAgain(code.name)
            case Failed(failed, message):
                self._failed(failed, message)

    def _failed(self, code: ErrorCode, message: str) -> None:
        self._history.strange.append(f"{self._name} failed: {code.name} ({message})")
        self.is_gone = True

    async def _revoke(self, connection: Connection) -> None:
        """Give up what has to go, mostly after a last commit."""
        going = sorted(self.reading.positions.keys() & set(self._named(self._revoking)))
        if going and self._random.random() < 0.7:
            await self._commit(connection, going)
        if self.machine.state is not State.RECONCILING:
            return
        self._revoking_until = None
        events = self.machine.revoked(self._now_ms())
        self.reading.keep_only(set(self._named(self.machine.owned)))
        for event in events:
            await self._handle(event, ErrorCode.NONE)

    async def _read_committed(self, connection: Connection) -> None:
        """The committed offsets of what is new; the epoch may be stale meanwhile, which the next heartbeat mends."""
        reader = self._who()
        who = reader if self._random.random() < self.rules.names_itself_chance else None
        if not await self.reading.read_committed(connection, 9, who, reader):
            await asyncio.sleep(self._pace.backoff_s)
            self.machine.due_ms = min(self.machine.due_ms, self._now_ms())

    async def _commit(self, connection: Connection, partitions: list[TopicPartition]) -> None:
        if not partitions or self.machine.epoch <= 0:
            return
        code = await self._offsets.commit(connection, 9, self._who(), partitions, dict(self.reading.positions))
        if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.machine.due_ms = min(self.machine.due_ms, self._now_ms())

    async def _commit_from_the_past(
        self, connection: Connection, past: Who, positions: dict[TopicPartition, int]
    ) -> None:
        """A commit of a thread that does not know the new epoch yet; of what the member still has it is accepted."""
        self._past = None
        for partition in sorted(positions):
            offsets = {partition: self.reading.positions.get(partition, positions[partition])}
            code = await self._offsets.commit(connection, 9, past, [partition], offsets)
            self._history.refused += code == ErrorCode.STALE_MEMBER_EPOCH

    # State.

    @property
    def generation_id(self) -> int:
        return self.machine.epoch

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._named(self.machine.owned))

    def _who(self) -> Who:
        return Who(self.member_id, self.machine.epoch, self.rules.instance_id)

    def _named(self, partitions: Owned) -> list[TopicPartition]:
        return sorted(TopicPartition(self._names[topic_id], number) for topic_id, number in partitions)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    async def _send(self, connection: Connection, request: ConsumerGroupHeartbeatRequest) -> Any:
        return await self._ask(connection, ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, request, self._pace.answer_s)
