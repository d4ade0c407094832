"""A simulated static member of the consumer protocol: its processes have one instance id, one after the other.

A process mostly ends with epoch -2, and the next one has its place within the session, or comes too late. One that vanishes
keeps the instance id from the next until its session ends (UNRELEASED_INSTANCE_ID). Now and then a second process
claims it beside the first, and a process that has ended sends a heartbeat and commits that were on their way.
"""

from __future__ import annotations

from typing import Any

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.types import TopicId, TopicPartition
from tests.sim.brokers import Brokers
from tests.sim.client import Connection
from tests.sim.consumer_member import ConsumerMember
from tests.sim.group_client import ConsumerMemberRules, TryAgain
from tests.sim.group_history import GroupHistory
from tests.sim.group_member import AGAIN, JOIN_EPOCH
from tests.sim.offsets_client import Who
from tests.sim.static_members import Claim, FencedInstance, Holder, Outlived

AWAY = (0.05, 0.3, 1.5)
RESTART = 0.1
"""In sessions."""
LATE_CHANCE = 0.5


class StaticConsumerMember(ConsumerMember):
    """The processes of one instance id."""

    kinds = ("silent", "vanish", "leave", "away", "away", "away", "twin", "deaf", "zombie")

    def __init__(
        self, name: str, brokers: Brokers, history: GroupHistory, rules: ConsumerMemberRules, seed: int
    ) -> None:
        assert rules.instance_id is not None
        self._instance_id = rules.instance_id
        self._holder: Holder | None = None
        self._unanswered: set[str] = set()
        """Processes whose claims have no answer."""
        self._late: tuple[Who, dict[TopicPartition, int]] | None = None
        """What the process before may still have on its way."""
        super().__init__(name, brokers, history, rules, seed)

    # Disturbances.

    async def _disturb(self, kind: str, calm_from: float) -> None:
        if kind == "away":
            await self._leave_for_a_while()
            await self._start_again(calm_from, AWAY)
        elif kind == "twin":
            await self._claim_beside()
        else:
            await super()._disturb(kind, calm_from)

    async def _leave_for_a_while(self) -> None:
        positions = dict(self.reading.positions)
        if self.connection is not None:
            if positions and self._random.random() < 0.7:
                await self._commit(self.connection, sorted(positions))
            self._late = self._who(), positions
            self._note_contact()
            self.machine.leave(self._now_ms(), is_for_good=False)
            await self._depart(self.connection)

    async def _say_goodbye(self) -> None:
        """It may promise to come back: its session ends all the same."""
        if self._random.random() < 0.5:
            await self._leave_for_a_while()

    async def _leave(self) -> None:
        self._note_contact()
        self._hold(is_certain=False)  # The next process finds nothing of it.
        await super()._leave()

    async def _depart(self, connection: Connection) -> bool:
        self._hold(may_have_left=True)
        is_granted = await super()._depart(connection)
        if is_granted:
            self._hold(left=self._loop.time())
        return is_granted

    async def _claim_beside(self) -> None:
        """Another process with the instance id starts while this one is alive, and sends nothing more."""
        connection = await self._coordinator()
        self._note_contact()
        twin = f"{self.member_id}-twin"
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.rules.group_id,
            member_id=twin,
            instance_id=self._instance_id,
            member_epoch=JOIN_EPOCH,
            rebalance_timeout_ms=int(self._pace.rebalance_s * 1000),
            subscribed_topic_names=sorted(self.rules.topics),
            topic_partitions=[],
        )
        await self._claim(connection, twin, request)

    async def _arrive_late(self, connection: Connection, past: Who, positions: dict[TopicPartition, int]) -> None:
        """What the process before had on its way arrives when this one has its place."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.rules.group_id,
            member_id=past.member_id,
            instance_id=self._instance_id,
            member_epoch=past.generation_id,
        )
        answer, holder = await super()._send(connection, request), self._holder
        if not answer.error_code and holder is not None and holder.member_id != past.member_id:
            self._note_outlived(past.member_id, holder)
        if positions:
            await self._offsets.commit(connection, 9, past, sorted(positions), positions)

    def _end_process(self) -> None:
        self._note_contact()
        super()._end_process()

    # Heartbeats and claims.

    async def _beat(self, connection: Connection, request: ConsumerGroupHeartbeatRequest) -> None:
        await super()._beat(connection, request)
        late, self._late = self._late, None
        if late is not None and self.machine.epoch > 0 and self._random.random() < LATE_CHANCE:
            await self._arrive_late(connection, *late)

    async def _send(self, connection: Connection, request: ConsumerGroupHeartbeatRequest) -> Any:
        if request.member_epoch == JOIN_EPOCH:
            return await self._claim(connection, self.member_id, request)
        answer, holder = await super()._send(connection, request), self._holder
        if not answer.error_code and holder is not None and holder.member_id != self.member_id:
            self._note_outlived(self.member_id, holder)
        return answer

    async def _claim(self, connection: Connection, member_id: str, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Send a join; what comes of it is in the history."""
        began, former = self._loop.time(), self._known_holder(member_id)
        self._unanswered.add(member_id)
        answer = await super()._send(connection, request)
        code = ErrorCode(answer.error_code)
        if code in AGAIN:
            return answer
        self._unanswered.discard(member_id)
        rows = () if answer.assignment is None else answer.assignment.topic_partitions
        given = frozenset((TopicId(row.topic_id), number) for row in rows for number in row.partitions)
        claim = Claim(
            self.rules.group_id,
            self._instance_id,
            member_id,
            began,
            self._loop.time(),
            code,
            answer.member_epoch,
            frozenset(self._named(given)),
            former,
        )
        self._history.static.claims.append(claim)
        if not code:
            self._unanswered.clear()
            self._holder = Holder(member_id, began)
        return answer

    def _failed(self, code: ErrorCode, message: str) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            holder = self._known_holder(self.member_id)
            fenced = FencedInstance(self.rules.group_id, self.member_id, self._loop.time(), holder)
            self._history.static.fenced.append(fenced)
        elif code != ErrorCode.UNRELEASED_INSTANCE_ID:
            super()._failed(code, message)
            return
        self._end_process()
        self.machine.due_ms = self._now_ms() + int(RESTART * self._pace.session_s * 1000)
        raise TryAgain(code.name)

    # What is known of the process that has the instance id.

    def _known_holder(self, claimer: str) -> Holder | None:
        """Nothing is certain of it after a claim of another process that has no answer."""
        if self._holder is not None and self._unanswered - {claimer}:
            return self._holder._replace(is_certain=False, left=None, may_have_left=True)
        return self._holder

    def _note_contact(self) -> None:
        """Unless it has sent its departure: then nothing of it counts any more."""
        if self._holder is not None and not self._holder.may_have_left:
            self._hold(
                last_contact=max(self._holder.last_contact, self._contact.last_contact),
                epoch=self.machine.epoch,
                partitions=self.assignment,
                is_certain=self.machine.is_known,
            )

    def _hold(self, **changes: Any) -> None:
        if self._holder is not None and self._holder.member_id == self.member_id:
            self._holder = self._holder._replace(**changes)

    def _note_outlived(self, member_id: str, holder: Holder) -> None:
        outlived = Outlived(self.rules.group_id, member_id, self._loop.time(), holder)
        self._history.static.outlived.append(outlived)
