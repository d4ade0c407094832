"""A consumer group of KIP-848 with simulated members, its log and its clock: what laws and scenarios are played on.

Members follow the protocol: they own what they were told last, give up what they are told to, report it, and join again
when they are fenced. Answers can be lost, members stopped for a while, the coordinator restarted from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sordini.broker.groups.consumer.machine import machine, record_formats
from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.assignors.group import static_ids
from sordini.broker.groups.consumer.machine.events import (
    ClassicAnswer,
    ClassicHeartbeat,
    ClassicJoin,
    ClassicSync,
    ConsumerHeartbeat,
    ConsumerLimits,
    Event,
    HeartbeatAnswer,
    Now,
    Refusal,
    RegexesResolved,
    ResolveRegexes,
    Step,
    StepContext,
    SyncedAnswer,
    TargetComputed,
    Tick,
    Topic,
)
from sordini.broker.groups.consumer.machine.folded import FoldedGroup
from sordini.broker.groups.consumer.machine.memory_cost import cost_change
from sordini.broker.groups.consumer.machine.rebalance_history import ConsumerGroupHistory
from sordini.broker.groups.consumer.machine.state import ClassicProtocol, ConsumerGroup, Partitions, ResolvedRegex
from sordini.broker.groups.consumer.machine.topic_hashes import topic_hash
from sordini.protocol.codecs import encode
from sordini.protocol.consumer_assignment import TopicPartitions, read_assignment
from sordini.protocol.consumer_subscription import ConsumerSubscription
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId

START_MS = 1_000_000
WALL_MS = 1_700_000_000_000
REJOIN = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}

Pair = tuple[TopicId, int]


class Moment(NamedTuple):
    """When a step was taken, the group before it, and what it did."""

    now: Now
    before: ConsumerGroup
    step: Step


class FakeTopics:
    """The cluster's topics."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._topics: dict[str, Topic] = {}
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int, incarnation: int = 0) -> None:
        """Create a topic, or give it partitions; another incarnation has another id."""
        self.version += 1
        self._topics[name] = Topic(TopicId(f"{name}/{incarnation}".encode().ljust(16, b"\0")), partitions)

    def delete(self, name: str) -> None:
        self.version += 1
        self._topics.pop(name, None)

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def id_of(self, name: str) -> TopicId | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def hash_of(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return None if topic is None else topic_hash(name, topic.topic_id, [()] * topic.partitions)

    def name_of(self, topic_id: TopicId) -> str | None:
        return next((name for name, topic in self._topics.items() if topic.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)


@dataclass
class SimulatedMember:
    """A client. `owned` is what it consumes, `assigned` what it may own: it settles some time later."""

    member_id: str
    topics: frozenset[str] = frozenset({"a"})
    regex: str | None = None
    instance_id: str | None = None
    rebalance_timeout_ms: int = 20_000
    epoch: int = 0
    owned: set[Pair] = field(default_factory=set)
    assigned: set[Pair] = field(default_factory=set)
    last_answer_ms: int = START_MS
    says_all: bool = True
    """The next heartbeat is a full one: it joins, or the last answer was lost."""
    is_classic: bool = False
    """Speaks the classic protocol; `is_joined` until it is told to join again."""
    is_joined: bool = False

    def take(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        self.epoch, self.last_answer_ms, self.says_all = answer.member_epoch, now_ms, False
        if answer.assignment is not None:
            self.assigned = pairs(answer.assignment)

    def settle(self) -> None:
        """Give up what was revoked, and take what was added."""
        self.owned = set(self.assigned)

    def abandon(self) -> None:
        self.epoch, self.owned, self.assigned, self.says_all = 0, set(), set(), True
        self.is_joined = False


class ConsumerWorld:
    """One group. Every step checks the invariants, and that the folded records are the group."""

    def __init__(self, topics: FakeTopics, settings: ConsumerLimits | None = None) -> None:
        self.topics = topics
        self.settings = settings or ConsumerLimits(session_timeout_ms=10_000, assignment_interval_ms=0)
        self.group = ConsumerGroup("g")
        self.now_ms = START_MS
        self.log: dict[bytes, bytes | None] = {}
        self.assigns_slowly = False
        self.under_way: list[tuple[int, str, AssignorInput]] = []
        self.resolving: set[str] = set()
        self.steps: list[Step] = []
        self.cost = 0
        self.history = ConsumerGroupHistory(10_000)
        self.moments: list[Moment] = []
        """All steps that changed the group since the history began."""
        self.loaded: Moment | None = None
        """The group as the history began with it; None for the group before its first member."""

    # Events.

    def heartbeat(self, member: SimulatedMember, *, is_lost: bool = False) -> HeartbeatAnswer | Refusal:
        """One heartbeat; with `is_lost` the member does not get the answer.

        A client that is not done with its last assignment does not say what it owns, but in a full heartbeat: then it
        takes nothing more of that assignment, as the coordinator may give it to others now.
        """
        says_all, owned = member.says_all, partitions_of_pairs(member.owned) if member.epoch else {}
        is_done = member.owned == member.assigned
        if says_all:
            member.assigned &= member.owned
        event = ConsumerHeartbeat(
            member.member_id,
            member.epoch,
            member.instance_id,
            None,
            member.rebalance_timeout_ms if says_all else -1,
            member.topics if says_all else None,
            member.regex if says_all else None,
            None,
            owned if says_all or is_done else None,
            "client",
            "/127.0.0.1",
        )
        answer = self.apply(event)
        assert isinstance(answer, HeartbeatAnswer | Refusal)
        if is_lost:
            member.says_all = True
        elif isinstance(answer, HeartbeatAnswer):
            member.take(answer, self.now_ms)
        elif answer.code in REJOIN:
            member.abandon()
        return answer

    def beat_classic(self, member: SimulatedMember, *, is_eager: bool) -> None:
        """What a client of the classic protocol does next: join, and get its assignment; or a heartbeat.

        A group without members would be a classic one: it waits. An eager client owns nothing when it joins.
        """
        if not self.group.members:
            return
        if member.epoch and member.member_id not in self.group.members:
            member.abandon()  # Heartbeats go on beside its joins: one was answered UNKNOWN_MEMBER_ID.
        if member.is_joined:
            self._classic_heartbeat(member)
            return
        if is_eager:
            member.owned = set()
        rows: dict[str, list[int]] = {}
        for topic_id, index in member.owned:
            name = self.topics.name_of(topic_id)
            if name is not None:
                rows.setdefault(name, []).append(index)
        joined = self.apply(
            ClassicJoin(
                "" if member.instance_id is not None and not member.epoch else member.member_id,
                member.instance_id,
                "client",
                "/127.0.0.1",
                member.rebalance_timeout_ms,
                self.settings.session_timeout_ms,
                "consumer",
                (ClassicProtocol("range", subscription(member.topics, rows)),),
                member.member_id,
                requires_known_member_id=False,
            )
        )
        if not isinstance(joined, ClassicAnswer):
            member.abandon()
            return
        member.epoch = joined.generation_id
        self._sync(member)

    def _sync(self, member: SimulatedMember) -> None:
        synced = self.apply(ClassicSync(member.member_id, member.instance_id, member.epoch, "consumer", "range"))
        if isinstance(synced, SyncedAnswer):
            found = read_assignment(synced.assignment)
            assert found is not None
            ids = ((self.topics.id_of(name), index) for name, index in found)
            member.assigned = {(topic_id, index) for topic_id, index in ids if topic_id is not None}
            member.is_joined, member.last_answer_ms = True, self.now_ms

    def _classic_heartbeat(self, member: SimulatedMember) -> None:
        answer = self.apply(ClassicHeartbeat(member.member_id, member.instance_id, member.epoch))
        assert isinstance(answer, Refusal)
        if answer.code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            member.last_answer_ms, member.is_joined = self.now_ms, not answer.code
        else:
            member.abandon()

    def leave(self, member: SimulatedMember, epoch: int = -1) -> HeartbeatAnswer | Refusal:
        event = ConsumerHeartbeat(
            member.member_id, epoch, member.instance_id, None, -1, None, None, None, None, "client", "/127.0.0.1"
        )
        answer = self.apply(event)
        assert isinstance(answer, HeartbeatAnswer | Refusal)
        member.abandon()
        return answer

    def wait(self, ms: int, late_ms: int = 0) -> None:
        """Time passes; deadlines are kept, or all of them `late_ms` after the broker stalled."""
        end_ms = self.now_ms + ms
        while not late_ms and self.group.due_ms is not None and self.group.due_ms <= end_ms:
            due_ms = self.group.due_ms
            self.now_ms = max(due_ms, self.now_ms)
            self.apply(Tick(0))
            assert self.group.due_ms is None or self.group.due_ms > due_ms, "a tick does what is due"
        self.now_ms = end_ms
        if late_ms:
            self.apply(Tick(late_ms))

    def finish_work(self) -> None:
        """Targets that were under way are computed, regular expressions resolved."""
        while self.under_way or self.resolving:
            if self.resolving:
                regexes, self.resolving = self.resolving, set()
                names = self.topics.names()
                found = {
                    regex: ResolvedRegex(
                        frozenset(n for n in names if n.startswith(regex.rstrip(".*"))), 1, self.wall_ms
                    )
                    for regex in regexes
                }
                self.apply(RegexesResolved(found))
            if self.under_way:
                epoch, assignor, group = self.under_way.pop(0)
                self.apply(TargetComputed(epoch, assignor, computed(assignor, group), static_ids(group)))

    def restart(self) -> None:
        """Another coordinator reads the log."""
        self.under_way, self.resolving = [], set()
        folded = FoldedGroup("g")
        for key, value in self.log.items():
            if value is not None:
                record = record_formats.read(key, value)
                assert isinstance(record, record_formats.ConsumerGroupRecord)
                folded.fold(record.change)
        self.group = folded.group(self.now_ms, self.settings.session_timeout_ms) or ConsumerGroup("g")
        now = Now(self.now_ms, self.wall_ms)
        self.history, self.moments = ConsumerGroupHistory(10_000), []
        self.history.loaded(self.group, now)
        self.loaded = Moment(now, self.group, Step(self.group))
        machine.check_invariants(self.group)
        self.cost = cost_change(None, self.group)

    def apply(self, event: Event) -> object:
        now = Now(self.now_ms, self.wall_ms)
        around = StepContext(now, self.settings, self.topics, self._assign)
        step = machine.step(self.group, event, around)
        before, self.group = self.group, step.group
        self.steps.append(step)
        self.cost += cost_change(before, self.group, step.changes)
        assert self.cost == cost_change(None, self.group), "the memory of all members, counted step by step"
        if step.changes:
            self.history.observe(before, step, self.topics, now)
            self.moments.append(Moment(now, before, step))
        for change in step.changes:
            key, value = record_formats.written("g", change)
            self.log[key] = value
        for action in step.actions:
            if isinstance(action, ResolveRegexes):
                self.resolving |= action.regexes
        machine.check_invariants(self.group)
        assert self.group.epoch >= before.epoch
        assert self.group.assignment_epoch >= before.assignment_epoch
        self._check_log()
        return step.answer

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms - START_MS

    def _assign(
        self, _group_id: str, epoch: int, assignor: str, group: AssignorInput
    ) -> Mapping[str, Partitions] | None:
        if self.assigns_slowly:
            self.under_way.append((epoch, assignor, group))
            return None
        return computed(assignor, group)

    def _check_log(self) -> None:
        """The records, folded, are the persistent part of the group."""
        folded = FoldedGroup("g")
        for key, value in self.log.items():
            record = record_formats.read(key, value)
            assert isinstance(record, record_formats.ConsumerGroupRecord)
            folded.fold(record.change)
        loaded, group = folded.group(self.now_ms, 1), self.group
        if loaded is None:
            assert not group.members
            return
        assert persistent(loaded) == persistent(group)


def persistent(group: ConsumerGroup) -> tuple[object, ...]:
    """What of a group survives a restart."""
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assigned_ms,
        dict(group.members),
        dict(group.targets),
        dict(group.regexes),
        dict(group.static_member_ids),
        {topic: dict(owners) for topic, owners in group.owners.items() if owners},
    )


def computed(assignor: str, group: AssignorInput) -> Mapping[str, Partitions]:
    work = ASSIGNORS[assignor](group)
    while True:
        try:
            next(work)
        except StopIteration as end:
            targets: Mapping[str, Partitions] = end.value
            return targets


def subscription(topics: Iterable[str], owned: Mapping[str, list[int]]) -> bytes:
    """What a classic client sends with its join, in version 1."""
    rows = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in owned.items()]
    return b"\0\1" + encode(ConsumerSubscription(topics=sorted(topics), owned_partitions=rows), 1)


def pairs(partitions: Partitions) -> set[Pair]:
    return {(topic, index) for topic, indexes in partitions.items() for index in indexes}


def partitions_of_pairs(owned: set[Pair]) -> Partitions:
    found: dict[TopicId, frozenset[int]] = {}
    for topic, index in owned:
        found[topic] = found.get(topic, frozenset()) | {index}
    return found
