"""The controller's shell: it stands for election, feeds the machine what happens, and carries out what it decides.

One task does everything, one signal after another: a watch only says *what* may have changed, the task reads it
again, makes an event of it, and carries the actions out to the end before it looks at the next signal. So the
machine always sees the store in order, and a store that hangs delays the controller and nobody else.

    no controller -> multi(create /controller, set /controller_epoch) -> read everything -> reign
    a guarded write finds another epoch, or /controller is gone or not ours -> resign -> look again

A `Controller` belongs to one session. When that has expired it is over; a new session gets a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, assert_never

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import Answer, ClusterState, Command, Malformed
from sordini.replication.controller.controller_election import (
    ControllerElection,
    ControllerHolder,
    ControllerTerm,
    ElectionImpossible,
)
from sordini.replication.controller.leader_rebalance import LeaderRebalanceTimer
from sordini.replication.controller.machine.events import (
    CommandAnswered,
    Event,
    ReadStates,
    ReadUncleanSettings,
    Reply,
    Send,
    StatesRead,
    UncleanSettingsRead,
    WriteAll,
    Wrote,
)
from sordini.replication.controller.machine.machine import step
from sordini.replication.controller.policy import DEFAULT_POLICY, Policy
from sordini.replication.controller.store_reader import StoreReader
from sordini.replication.controller.store_signals import (
    BALANCE,
    ELECTION,
    ZK_ELECTIONS,
    ZK_REASSIGNMENTS,
    SignalWatch,
    StoreSignal,
    SubmitResult,
    SubmittedEvent,
    leaderless_signal,
    read_event,
    watches_of,
)
from sordini.replication.controller.store_writer import NoLongerController, StoreWriter
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import (
    BrokerChannel,
    Clock,
    ConnectionLoss,
    Log,
    Session,
    SessionExpired,
    SessionState,
)

RETRY_DELAY_S = 0.1
"""After a broken connection or a store that could not save: long enough not to spin."""


class Controller:
    """Stands for controller of the cluster as broker `broker_id`, for as long as its session lives."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        channel: BrokerChannel,
        clock: Clock,
        log: Log,
        *,
        topic_ids: Callable[[], TopicId],
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        """`topic_ids` draws ids for topics whose node has none (KIP-516), where the policy has such ids."""
        self._session = session
        self._broker_id = broker_id
        self._channel = channel
        self._log = log
        self._candidacy = ControllerElection(
            session, broker_id, clock, log, SignalWatch(self._signal, ELECTION), policy
        )
        self._reader = StoreReader(session, watches_of(self._signal), topic_ids, policy, log)
        self._writer = StoreWriter(session, self._reader, log)
        self._balancing = LeaderRebalanceTimer(policy.balance, partial(self._signal, BALANCE))
        self._signals: asyncio.Queue[StoreSignal | CommandAnswered | SubmittedEvent] = asyncio.Queue()
        self._waiting: set[Hashable] = set()
        self._connected = asyncio.Event()
        self._reign: ControllerTerm | None = None
        self._stale = False
        self._cluster: ClusterState | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._reign is not None

    @property
    def cluster(self) -> ClusterState | None:
        """What the reigning controller knows; None without a reign."""
        return self._cluster

    async def start(self) -> None:
        """Stand for election. Returns once it is decided and, if won, the first commands are on their way.

        Raises SessionExpired when the session ends before that.
        """
        self._session.on_state(self._session_changed)
        if self._session.state is SessionState.CONNECTED:
            self._connected.set()
        self._signal(ELECTION)
        self._task = asyncio.create_task(self._run(), name="controller")
        await self.caught_up()

    async def stop(self) -> None:
        """Resign, so that another can be elected at once, and end the task. Raises what the task died of, if it did."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        reign = self._reign
        self._resign("stopped")
        if reign is not None and self._session.state is SessionState.CONNECTED:
            await self._candidacy.give_up(reign)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def caught_up(self) -> None:
        """Wait until everything signalled so far is dealt with, or the controller is over."""
        assert self._task is not None, "the controller is not started"
        drained = asyncio.ensure_future(self._signals.join())
        try:
            await asyncio.wait([drained, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()
        if self._task.done():
            self._task.result()
            raise SessionExpired

    async def submit(self, event: Event) -> SubmitResult | None:
        """Let the machine take somebody's wish; what became of it once all is written.

        None without a reign, or when it ended meanwhile: then nobody knows what was written.
        """
        if self._task is None or self._cluster is None:
            return None
        signal = SubmittedEvent(event, asyncio.get_running_loop().create_future())
        self._signal(signal)
        waited: list[asyncio.Future[Any]] = [signal.taken, self._task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return signal.taken.result() if signal.taken.done() else None

    def unclean_settings_changed(self, topic: str | None) -> None:
        """Whether a topic, or every one that does not say, may be led by a replica not in sync has been set anew."""
        self._signal(leaderless_signal(topic))

    async def last_producer_ids(self) -> tuple[ProducerIdBlock | Malformed | None, int]:
        """The block of producer ids taken last, and its node's version."""
        return await self._reader.producer_id_block()

    async def over(self) -> None:
        """Wait for the end: by `stop`, by the end of the session, or by a bug, which is raised."""
        assert self._task is not None, "the controller is not started"
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    # Signals.

    def _signal(self, signal: StoreSignal | CommandAnswered | SubmittedEvent) -> None:
        if isinstance(signal, StoreSignal):
            if signal in self._waiting:
                return
            self._waiting.add(signal)
        self._signals.put_nowait(signal)

    def _session_changed(self, state: SessionState) -> None:
        match state:
            case SessionState.CONNECTED:
                # Watches are lost: the election's look re-reads whatever this broker must know.
                self._connected.set()
                self._signal(ELECTION)
            case SessionState.SUSPENDED:
                self._stale = True
                self._connected.clear()
            case SessionState.EXPIRED | SessionState.CLOSED:
                self._connected.set()
                self._signal(ELECTION)
            case _:
                assert_never(state)

    # The task.

    async def _run(self) -> None:
        while True:
            signal = await self._signals.get()
            if isinstance(signal, StoreSignal):
                self._waiting.discard(signal)
            try:
                await self._take(signal)
            except NoLongerController:
                self._resign("another controller was elected")
                self._signal(ELECTION)
            except ElectionImpossible as unreadable:
                self._resign("there is no election")
                self._log.error("no controller can be elected until this is mended", reason=str(unreadable))
            except ConnectionLoss:
                # Nobody knows what was written: look at everything again once there is a connection.
                self._stale = True
                await asyncio.sleep(RETRY_DELAY_S)
                await self._connected.wait()
                self._signal(ELECTION)
            except SessionExpired:
                self._resign("the session is over")
                return
            finally:
                self._signals.task_done()

    async def _take(self, signal: StoreSignal | CommandAnswered | SubmittedEvent) -> None:
        if signal == ELECTION:
            await self._look_at_the_election()
        elif isinstance(signal, SubmittedEvent):
            await self._take_submitted(signal)
        elif await self._is_current():
            assert self._cluster is not None
            event = (
                signal if isinstance(signal, CommandAnswered) else await read_event(self._reader, signal, self._cluster)
            )
            if event is not None:
                await self._feed(event)

    async def _take_submitted(self, signal: SubmittedEvent) -> None:
        outcome = None
        try:
            if await self._is_current():
                replies = await self._feed(signal.event)
                if self._cluster is not None:
                    outcome = SubmitResult(self._cluster, tuple(replies))
        finally:
            if not signal.taken.done():
                signal.taken.set_result(outcome)

    async def _is_current(self) -> bool:
        """Whether this broker reigns and knows all that is written; it reads everything anew where that is in doubt.

        A write whose answer was lost with the connection may have taken effect. What is decided without knowing of it
        is wrong: a leader that asks again for an in-sync set that it was given would be refused, and believe that its
        former one is in force.
        """
        if self._stale and self._cluster is not None:
            await self._look_at_the_election()
        return self._cluster is not None

    # Elections.

    async def _look_at_the_election(self) -> None:
        """Find out who reigns; if nobody does, stand."""
        while True:
            holder, last = await self._candidacy.look()
            match holder:
                case ControllerHolder.NOBODY:
                    self._resign("/controller is gone")
                    won = await self._candidacy.stand(last)
                    if won is None:
                        continue
                    await self._begin(won)
                case ControllerHolder.US:
                    if self._stale or self._cluster is None or self._reign != last:
                        await self._begin(last)
                case ControllerHolder.ANOTHER:
                    self._resign("another controller was elected")
                case _:
                    assert_never(holder)
            return

    async def _begin(self, reign: ControllerTerm) -> None:
        """Begin a reign, or go on with it after a broken connection: either way everything is read anew."""
        again = self._reign == reign
        if again:
            await self._writer.catch_up(reign.version)
        self._reign, self._stale = reign, False
        elected = await self._reader.everything(self._broker_id, reign.epoch)
        self._log.info(
            "still controller" if again else "controller elected", epoch=reign.epoch, brokers=len(elected.brokers)
        )
        await self._feed(elected)
        self._signal(ZK_ELECTIONS)
        self._signal(ZK_REASSIGNMENTS)
        if not again:
            self._balancing.begin()

    def _resign(self, reason: str) -> None:
        if self._reign is None:
            return
        self._log.info("controller resigned", epoch=self._reign.epoch, reason=reason)
        self._reign = self._cluster = None
        self._balancing.end()
        self._channel.set_brokers({})

    # Feeding the machine.

    async def _feed(self, event: Event) -> list[Reply]:
        """Take a step, carry it out, and with what became of its writes take the next, until nothing is left."""
        events, replies = deque([event]), list[Reply]()
        while events:
            before = self._cluster
            self._cluster, actions = step(before, events.popleft())
            if self._cluster is not None and (before is None or before.brokers != self._cluster.brokers):
                self._channel.set_brokers(self._cluster.brokers)
            for action in actions:
                match action:
                    case Send(broker_id, command):
                        self._channel.send(broker_id, command, partial(self._answered, broker_id, command))
                    case WriteAll(writes):
                        assert self._reign is not None, "only a controller writes"
                        events.append(Wrote(await self._writer.write_all(writes, self._reign.version)))
                    case ReadStates(partitions):
                        events.append(StatesRead(await self._reader.states(partitions)))
                    case ReadUncleanSettings(partitions):
                        allowed = await self._reader.topics_allowing_unclean(one.topic for one in partitions)
                        events.append(UncleanSettingsRead(partitions, allowed))
                    case Reply():
                        replies.append(action)
                    case _:
                        assert_never(action)
        return replies

    def _answered(self, broker_id: BrokerId, command: Command, answer: Answer) -> None:
        reign = self._reign
        if (
            answer.error == ErrorCode.STALE_CONTROLLER_EPOCH
            and reign is not None
            and command.controller_epoch == reign.epoch
            and self._candidacy.refused(reign.epoch)
        ):
            self._log.warning("controller epoch refused, another was higher", broker=broker_id, epoch=reign.epoch)
            self._signal(ELECTION)
        self._signal(CommandAnswered(broker_id, command, answer))
