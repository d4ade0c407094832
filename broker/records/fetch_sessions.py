"""Incremental fetch sessions (KIP-227): a consumer or follower sends its partitions once and then only changes.

Pure: the time and the new session's id are arguments. A session keeps, per partition, what it last sent; an incremental
response contains only changed partitions. Followers' sessions are privileged: consumers' are evicted first. The number
of sessions is bounded, and so are the partitions of all of them together; a client without a session sends all of its
partitions each time, and is served as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from sordini.protocol.topic_names import NAME_LENGTH_MAX
from sordini.protocol.types import TopicId

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = -1
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000

TargetKey = tuple[str | TopicId, int]


class SessionPartition:
    """One partition of a fetch, what was last requested of it, and what the session last sent."""

    __slots__ = (
        "quiet",
        "requested",
        "sent_error",
        "sent_high_watermark",
        "sent_log_start_offset",
        "template",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId, requested: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.requested = requested
        self.sent_error = 0
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.quiet: object = None
        """Kept by `replica_fetch` for a partition that has nothing new; reset by a new request for it."""
        self.template: object = None
        """Kept by `tail_fetch`: the bytes that the responses with records of this partition have in common."""


class Session:
    """The partitions of one client, kept between its requests."""

    __slots__ = (
        "denied",
        "epoch",
        "full_scan_ms",
        "has_nameless",
        "is_kept",
        "is_privileged",
        "last_used_ms",
        "number",
        "reader",
        "targets",
        "uses_topic_ids",
    )

    def __init__(self, number: int, *, uses_topic_ids: bool, is_privileged: bool, now_ms: int) -> None:
        self.number = number
        self.is_privileged = is_privileged
        self.reader: Hashable = None
        """Who may read all of its topics, as last checked by `security/rules`."""
        self.is_kept = True
        """False once it is evicted or closed."""
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.full_scan_ms = now_ms
        """When every partition was last read, changed or not."""
        self.targets: dict[TargetKey, SessionPartition] = {}
        self.denied: dict[TargetKey, SessionPartition] = {}
        """Partitions of topics that its reader may not read. They are kept: a client requests a partition once."""
        self.has_nameless = False
        """Whether a topic id was unknown when it was requested."""

    def move(self, key: TargetKey, *, is_denied: bool) -> None:
        """A partition may be read no longer, or again."""
        if is_denied:
            target = self.denied[key] = self.targets.pop(key)
            target.sent_high_watermark = -1  # When it may be read again, that is news.
        else:
            self.targets[key] = self.denied.pop(key)

    def move_to_end(self, target: SessionPartition) -> None:
        """Move a partition that was served behind the others, so that a full response starves none."""
        key = target_key(target, uses_topic_ids=self.uses_topic_ids)
        if self.targets.pop(key, None) is not None:
            self.targets[key] = target


class FetchPlan:
    """The partitions that one fetch request reads, those of its session (if any) included."""

    __slots__ = ("incremental", "session", "targets")

    def __init__(self, targets: list[SessionPartition], session: Session | None, *, incremental: bool) -> None:
        self.targets = targets
        self.session = session
        self.incremental = incremental


def target_key(target: SessionPartition, *, uses_topic_ids: bool) -> TargetKey:
    """The key of a partition in its session."""
    return (target.topic_id if uses_topic_ids else target.topic, target.requested.partition)


def _has_impossible_name(request: FetchRequest) -> bool:
    """Whether a topic's name is longer than allowed: a session would keep it, 32 KiB for each partition."""
    for topic in request.topics:  # noqa: SIM110 - a generator would cost every fetch of a session two calls.
        if len(topic.topic) > NAME_LENGTH_MAX:
            return True
    return False


class FetchSessions:
    """The sessions of one broker, in the order of their last use."""

    def __init__(
        self,
        slots: int,
        new_number: Callable[[], int],
        names: Callable[[TopicId], str | None],
        partitions_max: int = 2**31 - 1,
    ) -> None:
        """`new_number` draws a positive 31-bit session id; `names` finds a topic's name by its id."""
        self._slots = slots
        self._partitions_max = partitions_max
        self.partitions = 0
        """Of all sessions together."""
        self._new_number = new_number
        self._names = names
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, number: int) -> Session | None:
        return self._sessions.get(number)

    def advance(self, session: Session, now_ms: int) -> None:
        """A request of the session is served: its next one has the next epoch."""
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.number)

    def plan(self, request: FetchRequest, version: int, now_ms: int, *, privileged: bool = False) -> FetchPlan:
        """Find the partitions of a request and advance its session; `privileged` is a follower's.

        Raises BrokerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        uses_topic_ids = version >= 13
        if request.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
            if request.session_id != NO_SESSION:
                self._drop(request.session_id)
            targets = self._requested(request, uses_topic_ids=uses_topic_ids)
            session = None
            if request.session_epoch == FIRST_EPOCH and not _has_impossible_name(request):
                session = self._open(targets, uses_topic_ids=uses_topic_ids, privileged=privileged, now_ms=now_ms)
            return FetchPlan(targets, session, incremental=False)
        return self._continue(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

    def _continue(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if session.uses_topic_ids != uses_topic_ids:
            raise BrokerError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session names its topics another way")
        if session.epoch != request.session_epoch:
            raise BrokerError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"session {session.number} expects epoch {session.epoch}"
            )
        if _has_impossible_name(request):
            self._drop(session.number)
            raise BrokerError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "a session keeps no name that is too long for a topic"
            )
        if session.has_nameless:
            self.resolve_names(session)
        targets = session.targets
        before = len(targets)
        for topic in request.topics:
            topic_id = TopicId(topic.topic_id)
            key_topic = topic_id if uses_topic_ids else topic.topic
            for requested in topic.partitions:
                known = targets.get((key_topic, requested.partition))
                if known is None:
                    name = self.name_of(topic, uses_topic_ids=uses_topic_ids)
                    targets[key_topic, requested.partition] = SessionPartition(name, topic_id, requested)
                    session.has_nameless |= not name
                else:
                    known.requested = requested
                    known.quiet = None
        for forgotten in request.forgotten_topics_data:
            named: str | TopicId = TopicId(forgotten.topic_id) if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                session.targets.pop((named, index), None)
        self.partitions += len(targets) - before
        if not targets and not session.denied:
            self._drop(session.number)
            return FetchPlan([], None, incremental=False)
        if self.partitions > self._partitions_max and len(targets) > before:
            self._drop(session.number)
            raise BrokerError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch sessions hold {self._partitions_max} partitions at most"
            )
        self.advance(session, now_ms)
        return FetchPlan(list(session.targets.values()), session, incremental=True)

    def _requested(self, request: FetchRequest, *, uses_topic_ids: bool) -> list[SessionPartition]:
        targets: list[SessionPartition] = []
        for topic in request.topics:
            name = self.name_of(topic, uses_topic_ids=uses_topic_ids)
            targets.extend(SessionPartition(name, TopicId(topic.topic_id), requested) for requested in topic.partitions)
        return targets

    def name_of(self, topic: FetchTopic, *, uses_topic_ids: bool) -> str:
        """The name of a requested topic; empty if its id is unknown."""
        return (self._names(TopicId(topic.topic_id)) or "") if uses_topic_ids else topic.topic

    def resolve_names(self, session: Session) -> None:
        """Find the names of topics that were unknown when they were requested; what has none is not read."""
        session.has_nameless = False
        for target in session.targets.values():
            if not target.topic:
                target.topic = self._names(target.topic_id) or ""
                session.has_nameless |= not target.topic

    def deny(self, session: Session, topics: Sequence[FetchTopic]) -> None:
        """Keep partitions that the reader of a session may not read, as far as there is room."""
        for topic in topics:
            named: str | TopicId = TopicId(topic.topic_id) if session.uses_topic_ids else topic.topic
            if len(topic.topic) > NAME_LENGTH_MAX:
                continue
            name = self.name_of(topic, uses_topic_ids=session.uses_topic_ids)
            for requested in topic.partitions:
                key = (named, requested.partition)
                if key not in session.denied:
                    if self.partitions >= self._partitions_max:
                        return
                    self.partitions += 1
                session.denied[key] = SessionPartition(name, TopicId(topic.topic_id), requested)

    def forget_denied(self, session: Session, forgotten: Sequence[ForgottenTopic]) -> None:
        """Drop what the client of a session no longer requests."""
        for topic in forgotten:
            named: str | TopicId = TopicId(topic.topic_id) if session.uses_topic_ids else topic.topic
            for index in topic.partitions:
                if session.denied.pop((named, index), None) is not None:
                    self.partitions -= 1

    def _open(
        self, targets: list[SessionPartition], *, uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> Session | None:
        if not self._make_room(len(targets), now_ms, privileged=privileged):
            return None
        number = self._new_number()
        while number == NO_SESSION or number in self._sessions:
            number = self._new_number()
        session = Session(number, uses_topic_ids=uses_topic_ids, is_privileged=privileged, now_ms=now_ms)
        for target in targets:
            session.targets[target_key(target, uses_topic_ids=uses_topic_ids)] = target
            session.has_nameless |= not target.topic
        self._sessions[number] = session
        self.partitions += len(session.targets)
        return session

    def _drop(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            self.partitions -= len(session.targets) + len(session.denied)
            session.is_kept = False

    def _make_room(self, size: int, now_ms: int, *, privileged: bool) -> bool:
        """Whether a session of `size` partitions may be kept; may evict a stale or smaller session."""
        if not self._make_room_for_partitions(size, now_ms, privileged=privileged):
            return False
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._drop(oldest.number)
            return True
        least = min(self._sessions.values(), key=lambda session: (session.is_privileged, len(session.targets)))
        if (least.is_privileged, len(least.targets)) < (privileged, size):
            self._drop(least.number)
            return True
        return False

    def _make_room_for_partitions(self, size: int, now_ms: int, *, privileged: bool) -> bool:
        """As above for the partitions of all sessions: evicts stale ones, and for a follower's consumers' largest."""
        if size > self._partitions_max:
            return False
        while self.partitions + size > self._partitions_max:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms > EVICTION_MS:
                self._drop(oldest.number)
                continue
            lesser = [session for session in self._sessions.values() if privileged and not session.is_privileged]
            if not lesser:
                return False
            self._drop(max(lesser, key=lambda session: len(session.targets)).number)
        return True
