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
from typing import Any, NamedTuple, assert_never

from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import ANY_CONVENTIONS, Answer, Cluster, Command, Conventions, Malformed
from sordini.replication.controller.events import (
    Answered,
    BrokersChanged,
    DeletionsListed,
    Event,
    Reply,
    Reread,
    Send,
    StatesRead,
    TopicChanged,
    TopicsListed,
    WriteAll,
    Wrote,
)
from sordini.replication.controller.machine import step
from sordini.replication.controller.reading import Reader, Watches
from sordini.replication.controller.signals import (
    BROKERS,
    DELETIONS,
    ELECTION,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    TOPICS,
    Look,
    Submitted,
    Taken,
    Watcher,
)
from sordini.replication.controller.writing import NoLongerController, Writer
from sordini.replication.controller.znodes import ProducerIdBlock
from sordini.replication.ports import (
    BadVersion,
    BrokerChannel,
    Check,
    Clock,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    Log,
    NodeExists,
    NoNode,
    Session,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    StoreUnusable,
)


class Reign(NamedTuple):
    """A won election. `version` is that of /controller_epoch's node, the condition of every write."""

    epoch: int
    version: int


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
        conventions: Conventions = ANY_CONVENTIONS,
    ) -> None:
        """`topic_ids` draws ids for topics whose node has none (KIP-516), where the conventions have such ids."""
        self._session = session
        self._broker_id = broker_id
        self._channel = channel
        self._clock = clock
        self._log = log
        watches = Watches(
            self._watcher(BROKERS),
            self._watcher(TOPICS),
            self._watcher(DELETIONS),
            self._watcher(ISR_CHANGES),
            self._watcher(LOG_DIR_EVENTS),
            lambda _: self._watcher(BROKERS),
            lambda name: self._watcher(Look("topic", name)),
        )
        self._reader = Reader(session, watches, topic_ids, conventions, log)
        self._writer = Writer(session, self._reader, log)
        self._signals: asyncio.Queue[Look | Answered | Submitted] = asyncio.Queue()
        self._waiting: set[Hashable] = set()
        self._connected = asyncio.Event()
        self._reign: Reign | None = None
        self._stale = False
        self._cluster: Cluster | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._reign is not None

    @property
    def cluster(self) -> Cluster | None:
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
            await self._give_up(reign)
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

    async def submit(self, event: Event) -> Taken | None:
        """Let the machine take somebody's wish; what became of it once all is written.

        None without a reign, or when it ended meanwhile: then nobody knows what was written.
        """
        if self._task is None or self._cluster is None:
            return None
        signal = Submitted(event, asyncio.get_running_loop().create_future())
        self._signal(signal)
        waited: list[asyncio.Future[Any]] = [signal.taken, self._task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return signal.taken.result() if signal.taken.done() else None

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

    def _watcher(self, look: Look) -> Watcher:
        return Watcher(self._signal, look)

    def _signal(self, signal: Look | Answered | Submitted) -> None:
        if isinstance(signal, Look):
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
            if isinstance(signal, Look):
                self._waiting.discard(signal)
            try:
                await self._take(signal)
            except NoLongerController:
                self._resign("another controller was elected")
                self._signal(ELECTION)
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

    async def _take(self, signal: Look | Answered | Submitted) -> None:
        if signal == ELECTION:
            await self._look_at_the_election()
        elif isinstance(signal, Submitted):
            await self._take_submitted(signal)
        elif self._cluster is not None:
            event = signal if isinstance(signal, Answered) else await self._look(signal, self._cluster)
            if event is not None:
                await self._feed(event)

    async def _take_submitted(self, signal: Submitted) -> None:
        outcome = None
        try:
            replies = await self._feed(signal.event)
            if self._cluster is not None:
                outcome = Taken(self._cluster, tuple(replies))
        finally:
            if not signal.taken.done():
                signal.taken.set_result(outcome)

    async def _look(self, look: Look, cluster: Cluster) -> Event | None:
        if look == BROKERS:
            return BrokersChanged(await self._reader.brokers())
        if look == TOPICS:
            names = await self._reader.topic_names()
            read = await self._reader.topics(names - cluster.topics.keys())
            return TopicsListed(names, read, self._reader.fresh_ids(read))
        if look == DELETIONS:
            return DeletionsListed(await self._reader.deletions())
        if look == ISR_CHANGES:
            return await self._reader.isr_changes()
        if look == LOG_DIR_EVENTS:
            return await self._reader.log_dir_events()
        topic = await self._reader.topic(look.which)
        return None if topic is None else TopicChanged(topic)

    # Elections.

    async def _look_at_the_election(self) -> None:
        """Find out who reigns; if nobody does, stand."""
        while True:
            # In this order: while /controller is ours, the epoch read before it is ours as well.
            (epoch, version), stat = await asyncio.gather(
                self._read_epoch(),
                self._session.exists(paths.CONTROLLER, watch=self._watcher(ELECTION)),
            )
            if stat is None:
                self._resign("/controller is gone")
                won = await self._stand(epoch, version)
                if won is None:
                    continue
                await self._begin(won)
            elif stat.ephemeral_owner == self._session.session_id:
                if self._stale or self._cluster is None or self._reign != (epoch, version):
                    await self._begin(Reign(epoch, version))
            else:
                self._resign("another controller was elected")
            return

    async def _read_epoch(self) -> tuple[int, int]:
        """The last epoch and its node's version. The node is made, as epoch 0, when there is none."""
        try:
            data, stat = await self._session.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            try:
                await self._session.create(paths.CONTROLLER_EPOCH, b"0")
            except NodeExists:
                return await self._read_epoch()
            return 0, 0
        epoch = znodes.decode_controller_epoch(data)
        if isinstance(epoch, Malformed):
            # Never guessed at: a lower epoch would make every broker deaf to this controller.
            raise StoreUnusable(f"{epoch.path} holds no epoch: {epoch.reason}")
        return epoch, stat.version

    async def _stand(self, epoch: int, version: int) -> Reign | None:
        """Try to become the controller; None when somebody was faster."""
        mine = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        try:
            _, stat = await self._session.multi(
                [
                    Create(paths.CONTROLLER, mine, ephemeral=True),
                    Set(paths.CONTROLLER_EPOCH, b"%d" % (epoch + 1), version),
                ]
            )
        except (NodeExists, BadVersion):
            return None
        assert isinstance(stat, Stat)
        # The watch set before fired at our own creation; this one is for the end of the reign.
        await self._session.exists(paths.CONTROLLER, watch=self._watcher(ELECTION))
        return Reign(epoch + 1, stat.version)

    async def _begin(self, reign: Reign) -> None:
        """Begin a reign, or go on with it after a broken connection: either way everything is read anew."""
        again = self._reign == reign
        self._reign, self._stale = reign, False
        elected = await self._reader.everything(self._broker_id, reign.epoch)
        self._log.info(
            "reign goes on" if again else "elected controller", epoch=reign.epoch, brokers=len(elected.brokers)
        )
        await self._feed(elected)

    def _resign(self, reason: str) -> None:
        if self._reign is None:
            return
        self._log.info("resigned as controller", epoch=self._reign.epoch, reason=reason)
        self._reign = self._cluster = None
        self._channel.set_brokers({})

    async def _give_up(self, reign: Reign) -> None:
        """Remove /controller if the reign is still ours."""
        try:
            await self._session.multi([Check(paths.CONTROLLER_EPOCH, reign.version), Delete(paths.CONTROLLER)])
        except CoordinationError as error:
            self._log.info("left /controller to the end of the session", reason=str(error))

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
                    case Reread(partitions):
                        events.append(StatesRead(await self._reader.states(partitions)))
                    case Reply():
                        replies.append(action)
                    case _:
                        assert_never(action)
        return replies

    def _answered(self, broker_id: BrokerId, command: Command, answer: Answer) -> None:
        self._signal(Answered(broker_id, command, answer))
