"""A ZooKeeper ensemble in memory: one linearizable tree, and sessions with it over links that delay and break.

The tree is the production one (`coordination_store/znode_tree.py`). Around it are the parts of ZooKeeper that brokers meet:
requests and answers of a session travel in order and take their time; a session is kept alive by pings and ends when
none came for the session timeout, whatever its client believes; a client that receives nothing for two thirds of that
time is SUSPENDED, has lost its watches and all that it waits for, and connects again, to find its session or its end.
A request that was under way may have taken effect; one of an old connection never does once there is a newer one.

    client                                   ensemble
    SimZkSession --- up: Stream, ordered ---> _Member: watches, last seen, connection
    (zk_session.py)  <-- down: Stream, ordered --

What a dead or paused process would send is not sent, because its pings carry its mark; what it had sent arrives.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sordini.coordination_store.znode_tree import Fired, ZnodeTree
from sordini.replication.ports import (
    Clock,
    CoordinationError,
    Operation,
    OperationResult,
    Watch,
    WatchEvent,
    WatchKind,
)

if TYPE_CHECKING:
    from tests.support.fake_zookeeper_session import SimZkSession

DELAY_LEAST_S = 0.0002
DELAY_MEAN_S = 0.001
TAIL_CHANCE = 0.02
TAIL_DELAY_S = 0.3
LOSS_CHANCE = 0.5
RECONNECT_S = (0.02, 0.3)
Work = Callable[[], tuple[Any, list[Fired]]]
Watches = dict[str, dict[Watch, None]]


class Notes(Protocol):
    """Where what happens is written down."""

    def note(self, *fields: object) -> None: ...


class Stream:
    """One direction of one connection: calls arrive in order, each with its delay, and none while the link is down."""

    def __init__(self, zk: SimZk, host: str, context: contextvars.Context) -> None:
        self._zk = zk
        self._host = host
        self._context = context
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._last = 0.0
        self._timer_is_set = False

    def send(self, arrive: Callable[[], None]) -> None:
        self._last = max(self._last, self._zk.loop.time() + self._zk.delay())
        self._waiting.append((self._last, arrive))
        self._set_timer()

    def lose(self) -> None:
        """What has not arrived yet never does."""
        self._waiting.clear()

    def _set_timer(self) -> None:
        if self._timer_is_set or not self._waiting:
            return
        self._timer_is_set = True
        when = max(self._waiting[0][0], self._zk.cut_until(self._host))
        self._zk.loop.call_at(when, self._arrive, context=self._context)

    def _arrive(self) -> None:
        self._timer_is_set = False
        now = self._zk.loop.time()
        while self._waiting and self._waiting[0][0] <= now and self._zk.cut_until(self._host) <= now:
            _, arrive = self._waiting.popleft()
            arrive()
        self._set_timer()


class _Member:
    """A session as the ensemble knows it."""

    def __init__(self, session_id: int, timeout_s: float, now: float) -> None:
        self.session_id = session_id
        self.timeout_s = timeout_s
        self.last_seen = now
        self.connection = 0
        self.data_watches: Watches = {}
        self.child_watches: Watches = {}
        self.down: Stream | None = None
        self.client: SimZkSession | None = None


class SimZk:
    """The ensemble. Checks may read `tree`; `write` changes it at once, without a session."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, notes: Notes, seed: int = 0) -> None:
        self.loop = loop
        self.tree = ZnodeTree()
        self.on_write: Callable[[], None] = lambda: None
        self._clock = clock
        self._notes = notes
        self._random = random.Random(f"zk {seed}")
        self._cuts: dict[str, float] = {}
        self._members: dict[int, _Member] = {}

    # Faults.

    def cut(self, host: str, seconds: float) -> None:
        """Nothing passes between a host and the ensemble for a while."""
        self._cuts[host] = max(self.cut_until(host), self.loop.time() + seconds)

    def heal(self) -> None:
        self._cuts.clear()

    def drop(self, host: str) -> None:
        """The connections of a host break; its sessions live."""
        for member in list(self._members.values()):
            client = member.client
            if client is not None and client.host == host:
                client.lose_connection()

    def expire(self, session_id: int) -> None:
        """End a session as the ensemble ends that of a silent client."""
        member = self._members.pop(session_id, None)
        if member is None:
            return
        self._notes.note("zk expired", session_id)
        self._fire(self.tree.end_session(session_id), None)
        client = member.client
        if member.down is not None and client is not None:
            member.down.send(lambda: client.is_expired(session_id))
        self.on_write()

    # For tests, beside the protocol.

    def write(self, operations: Sequence[Operation], session_id: int = 0) -> list[OperationResult]:
        """Carry out a transaction at once. Raises the refusals of the port."""
        results, fired = self.tree.apply(operations, session_id, self._clock.now_ms())
        self.tree.begin_batch()
        self._fire(fired, None)
        self.on_write()
        return results

    # For the sessions.

    def delay(self) -> float:
        seconds = DELAY_LEAST_S + self._random.expovariate(1 / DELAY_MEAN_S)
        return seconds + self._random.random() * TAIL_DELAY_S if self._random.random() < TAIL_CHANCE else seconds

    def reconnect_delay(self) -> float:
        return self._random.uniform(*RECONNECT_S)

    def loses(self) -> bool:
        """Whether a connection that breaks takes with it what was under way to the ensemble."""
        return self._random.random() < LOSS_CHANCE

    def cut_until(self, host: str) -> float:
        return self._cuts.get(host, 0.0)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def connect(self, session_id: int, connection: int, down: Stream, client: SimZkSession, timeout_s: float) -> None:
        """A client shakes hands; a `session_id` of 0 requests a new session. The answer comes through `down`."""
        if session_id == 0:
            self.tree.zxid += 1
            session_id = self.tree.zxid
            member = self._members[session_id] = _Member(session_id, timeout_s, self.loop.time())
            self._watch_over(member)
        found = self._members.get(session_id)
        if found is None:
            down.send(lambda: client.is_expired(session_id))
            return
        if connection <= found.connection:
            return
        found.connection, found.down, found.client, found.last_seen = connection, down, client, self.loop.time()
        found.data_watches, found.child_watches = {}, {}
        down.send(lambda: client.is_connected(connection, session_id))

    def serve(self, session_id: int, connection: int, work: Work | None, answer: Callable[[Any], None]) -> None:
        """A request, or a ping, has arrived. An exception is an answer, too."""
        member = self._members.get(session_id)
        if member is None or member.connection != connection:
            return
        assert member.down is not None
        member.last_seen = self.loop.time()
        if work is None:
            member.down.send(lambda: answer(None))
            return
        try:
            result, fired = work()
        except (CoordinationError, ValueError, AssertionError) as error:
            result, fired = error, []
        self.tree.begin_batch()
        own = self._fire(fired, member)
        # In one message: the watch events of a session's own change come before its answer.
        member.down.send(lambda: _deliver(self.loop, own, answer, result))
        if fired:
            self._notes.note("zk wrote", session_id, *(path for _, path in fired))
            self.on_write()

    def end(self, session_id: int) -> None:
        """A client closes its session."""
        if self._members.pop(session_id, None) is not None:
            self._fire(self.tree.end_session(session_id), None)
            self.on_write()

    def remember(self, session_id: int, path: str, watch: Watch | None, *, of_children: bool) -> None:
        member = self._members.get(session_id)
        if watch is not None and member is not None:
            watches = member.child_watches if of_children else member.data_watches
            watches.setdefault(path, {})[watch] = None

    def _fire(self, fired: Sequence[Fired], own: _Member | None) -> list[tuple[Watch, WatchEvent]]:
        """Send events to the sessions that watch; those of `own` are returned."""
        owns: list[tuple[Watch, WatchEvent]] = []
        for member in list(self._members.values()):
            events = [event for what in fired for event in _taken(member, *what)]
            if member is own:
                owns = events
            elif events and member.down is not None:
                member.down.send(lambda events=events: _deliver(self.loop, events, None, None))  # type: ignore[misc]
        return owns

    def _watch_over(self, member: _Member) -> None:
        """Expire a session once it has been silent for too long."""

        def look() -> None:
            if member.session_id not in self._members:
                return
            due = member.last_seen + member.timeout_s
            if due <= self.loop.time():
                self.expire(member.session_id)
            else:
                self.loop.call_at(due, look, context=contextvars.Context())

        self.loop.call_at(member.last_seen + member.timeout_s, look, context=contextvars.Context())


def _taken(member: _Member, kind: WatchKind, path: str) -> list[tuple[Watch, WatchEvent]]:
    watches: dict[Watch, None] = {}
    if kind is not WatchKind.CHILDREN:
        watches |= member.data_watches.pop(path, {})
    if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
        watches |= member.child_watches.pop(path, {})
    event = WatchEvent(kind, path, member.session_id)
    return [(watch, event) for watch in watches]


def _deliver(
    loop: asyncio.AbstractEventLoop,
    events: Sequence[tuple[Watch, WatchEvent]],
    answer: Callable[[Any], None] | None,
    result: Any,
) -> None:
    for watch, event in events:
        loop.call_soon(watch, event)
    if answer is not None:
        answer(result)
