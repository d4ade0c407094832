"""The controller's shell: it stands for election, feeds events to the machine, and carries out the machine's actions.

One task processes one signal after another. A watch only signals *what* may have changed: the task reads it from the
store, makes an event of it, and carries out all actions before the next signal. So the machine sees the store's content
in order, and a slow store delays nothing but the controller.

    no controller -> multi(create /controller, set /controller_epoch) -> read everything -> controller elected
    another epoch in a guarded write, or /controller is gone or another broker's -> controller resigned -> new election

A `Controller` belongs to one session and ends with it; the next session gets a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, assert_never

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import ClusterState, Command, CommandAnswer, Malformed
from sordini.replication.controller.controller_election import (
    ControllerElection,
    ControllerHolder,
    ControllerTerm,
    ElectionImpossible,
)
from sordini.replication.controller.machine.events import (
    CommandAnswered,
    ControllerReply,
    Event,
    ReadStates,
    ReadUncleanSettings,
    Send,
    StatesRead,
    UncleanSettingsRead,
    WriteAll,
    WritesDone,
)
from sordini.replication.controller.machine.machine import step
from sordini.replication.controller.policy import DEFAULT_POLICY, Policy
from sordini.replication.controller.rebalance_timer import LeaderRebalanceTimer
from sordini.replication.controller.store_reader import StoreReader
from sordini.replication.controller.store_signals import (
    ELECTION,
    REBALANCE,
    ZK_ELECTIONS,
    ZK_REASSIGNMENTS,
    SignalWatch,
    StoreSignal,
    leaderless_signal,
    read_event,
    watches_of,
)
from sordini.replication.controller.store_writer import NoLongerController, StoreWriter
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import (
    RETRY_DELAY_S,
    BrokerChannel,
    Clock,
    ConnectionLoss,
    Logger,
    Session,
    SessionExpired,
    SessionState,
)
from sordini.system.named_tuple import NamedTuple


class SubmitResult(NamedTuple):
    """The outcome of a submitted event: the cluster state after all that followed, and the machine's replies."""

    cluster: ClusterState
    replies: tuple[ControllerReply, ...]


class SubmittedEvent(NamedTuple):
    """A signal: a request for the machine. The result is None where this broker is not the controller."""

    event: Event
    result: asyncio.Future[SubmitResult | None]


class Controller:
    """One broker as controller, or candidate, of the cluster, in one session."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        channel: BrokerChannel,
        clock: Clock,
        log: Logger,
        *,
        topic_ids: Callable[[], TopicId],
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        """`topic_ids` generates ids for topics without one (KIP-516), if the cluster uses topic ids."""
        self._session = session
        self._broker_id = broker_id
        self._channel = channel
        self._log = log
        self._election = ControllerElection(session, broker_id, clock, log, SignalWatch(self._signal, ELECTION), policy)
        self._reader = StoreReader(session, watches_of(self._signal), topic_ids, policy, log)
        self._writer = StoreWriter(session, self._reader, log)
        self._rebalance_timer = LeaderRebalanceTimer(policy.rebalance, partial(self._signal, REBALANCE))
        self._signals: asyncio.Queue[StoreSignal | CommandAnswered | SubmittedEvent] = asyncio.Queue()
        self._queued: set[Hashable] = set()
        self._connected = asyncio.Event()
        self._term: ControllerTerm | None = None
        self._stale = False
        self._cluster: ClusterState | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

    @property
    def cluster(self) -> ClusterState | None:
        """The cluster state of the active controller; None while this broker is not the controller."""
        return self._cluster

    async def start(self) -> None:
        """Stand for election. Returns once it is decided and, if won, the first commands are sent.

        Raises SessionExpired when the session ends before.
        """
        self._session.on_state(self._session_changed)
        if self._session.state is SessionState.CONNECTED:
            self._connected.set()
        self._signal(ELECTION)
        self._task = asyncio.create_task(self._run(), name="controller")
        await self.caught_up()

    async def stop(self) -> None:
        """Resign, so that another broker can be elected at once, and end the task. Raises what made the task fail."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        term = self._term
        self._resign("stopped")
        if term is not None and self._session.state is SessionState.CONNECTED:
            await self._election.resign(term)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def caught_up(self) -> None:
        """Wait until all signals so far are processed. Raises SessionExpired when the controller ends before."""
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
        """Feed a request to the machine; the outcome once all is written.

        None while this broker is not the controller, or if it resigned meanwhile: then some of it may be written.
        """
        if self._task is None or self._cluster is None:
            return None
        signal = SubmittedEvent(event, asyncio.get_running_loop().create_future())
        self._signal(signal)
        waited: list[asyncio.Future[Any]] = [signal.result, self._task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return signal.result.result() if signal.result.done() else None

    def unclean_settings_changed(self, topic: str | None) -> None:
        """The unclean election setting of a topic, or the brokers' default, has changed."""
        self._signal(leaderless_signal(topic))

    async def last_producer_id_block(self) -> tuple[ProducerIdBlock | Malformed | None, int]:
        """The last allocated block of producer ids, and its node's version."""
        return await self._reader.producer_id_block()

    async def wait_closed(self) -> None:
        """Wait for the end: by `stop`, by the end of the session, or by an unexpected exception, which is raised."""
        assert self._task is not None, "the controller is not started"
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    # Signals.

    def _signal(self, signal: StoreSignal | CommandAnswered | SubmittedEvent) -> None:
        if isinstance(signal, StoreSignal):
            if signal in self._queued:
                return
            self._queued.add(signal)
        self._signals.put_nowait(signal)

    def _session_changed(self, state: SessionState) -> None:
        match state:
            case SessionState.CONNECTED:
                # The watches are lost: the election signal reads everything again.
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
                self._queued.discard(signal)
            try:
                await self._process(signal)
            except NoLongerController:
                self._resign("another controller was elected")
                self._signal(ELECTION)
            except ElectionImpossible as failure:
                self._resign("no election is possible")
                self._log.error("no controller can be elected until this is repaired", reason=str(failure))
            except ConnectionLoss:
                # It is not known what was written: read everything again once connected.
                self._stale = True
                await asyncio.sleep(RETRY_DELAY_S)
                await self._connected.wait()
                self._signal(ELECTION)
            except SessionExpired:
                self._resign("the session ended")
                return
            finally:
                self._signals.task_done()

    async def _process(self, signal: StoreSignal | CommandAnswered | SubmittedEvent) -> None:
        if signal == ELECTION:
            await self._check_election()
        elif isinstance(signal, SubmittedEvent):
            await self._process_submitted(signal)
        elif await self._is_current():
            assert self._cluster is not None
            event = (
                signal if isinstance(signal, CommandAnswered) else await read_event(self._reader, signal, self._cluster)
            )
            if event is not None:
                await self._feed(event)

    async def _process_submitted(self, signal: SubmittedEvent) -> None:
        outcome = None
        try:
            if await self._is_current():
                replies = await self._feed(signal.event)
                if self._cluster is not None:
                    outcome = SubmitResult(self._cluster, tuple(replies))
        finally:
            if not signal.result.done():
                signal.result.set_result(outcome)

    async def _is_current(self) -> bool:
        """Whether this broker is the controller and knows all that is written; after a reconnect it reads again.

        A write whose response was lost with the connection may have taken effect. A decision made without knowing it
        is wrong: a leader that repeats an AlterPartition that took effect would be rejected, and keep its former ISR.
        """
        if self._stale and self._cluster is not None:
            await self._check_election()
        return self._cluster is not None

    # Elections.

    async def _check_election(self) -> None:
        """Find out which broker is the controller; stand for election if there is none."""
        while True:
            holder, last = await self._election.read()
            match holder:
                case ControllerHolder.NONE:
                    self._resign("/controller is gone")
                    won = await self._election.run_for(last)
                    if won is None:
                        continue
                    await self._begin(won)
                case ControllerHolder.THIS_BROKER:
                    if self._stale or self._cluster is None or self._term != last:
                        await self._begin(last)
                case ControllerHolder.OTHER_BROKER:
                    self._resign("another controller was elected")
                case _:
                    assert_never(holder)
            return

    async def _begin(self, term: ControllerTerm) -> None:
        """Begin a term, or continue it after a reconnect: in both cases everything is read again."""
        again = self._term == term
        if again:
            await self._writer.catch_up(term.version)
        self._term, self._stale = term, False
        elected = await self._reader.full_state(self._broker_id, term.epoch)
        self._log.info(
            "still controller" if again else "controller elected", epoch=term.epoch, brokers=len(elected.brokers)
        )
        await self._feed(elected)
        self._signal(ZK_ELECTIONS)
        self._signal(ZK_REASSIGNMENTS)
        if not again:
            self._rebalance_timer.start()

    def _resign(self, reason: str) -> None:
        if self._term is None:
            return
        self._log.info("controller resigned", epoch=self._term.epoch, reason=reason)
        self._term = self._cluster = None
        self._rebalance_timer.stop()
        self._channel.set_brokers({})

    # Feeding the machine.

    async def _feed(self, event: Event) -> list[ControllerReply]:
        """Take a step and carry out its actions, then the steps that follow from their results."""
        events, replies = deque([event]), list[ControllerReply]()
        while events:
            before = self._cluster
            self._cluster, actions = step(before, events.popleft())
            if self._cluster is not None and (before is None or before.brokers != self._cluster.brokers):
                self._channel.set_brokers(self._cluster.brokers)
            for action in actions:
                match action:
                    case Send(broker_id, command):
                        self._channel.send(broker_id, command, partial(self._on_command_answered, broker_id, command))
                    case WriteAll(writes):
                        assert self._term is not None, "only the active controller writes"
                        events.append(WritesDone(await self._writer.write_all(writes, self._term.version)))
                    case ReadStates(partitions):
                        events.append(StatesRead(await self._reader.states(partitions)))
                    case ReadUncleanSettings(partitions):
                        allowed = await self._reader.topics_allowing_unclean(one.topic for one in partitions)
                        events.append(UncleanSettingsRead(partitions, allowed))
                    case ControllerReply():
                        replies.append(action)
                    case _:
                        assert_never(action)
        return replies

    def _on_command_answered(self, broker_id: BrokerId, command: Command, answer: CommandAnswer) -> None:
        term = self._term
        if (
            answer.error == ErrorCode.STALE_CONTROLLER_EPOCH
            and term is not None
            and command.controller_epoch == term.epoch
            and self._election.epoch_refused(term.epoch)
        ):
            self._log.warning("controller epoch refused by a broker", broker=broker_id, epoch=term.epoch)
            self._signal(ELECTION)
        self._signal(CommandAnswered(broker_id, command, answer))
