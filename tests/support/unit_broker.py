"""A whole broker but for its sockets: the production parts on a disk in memory, a store in memory, a still clock.

The test plays the controller (`lead`, `learn`) and the clients (`ask`). Timers fire when a test says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sordini.broker.cluster.identity import BrokerIdentity
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.network.ports import DelayedResponse, ListeningSocket, Parts, Peer, Socket, SocketOptions
from sordini.broker.security.audit.audit_log import AuditOutput
from sordini.broker.topics.metadata_cache import BrokerMetadata, PartitionMetadata
from sordini.broker.wiring.assembly import assemble, topic_configs_of
from sordini.broker.wiring.deps import BrokerDeps, ClusterDeps, Runtime, Workers
from sordini.broker.wiring.oauthbearer import key_fetcher
from sordini.broker.wiring.parts import BrokerParts
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.served_apis import ALL_APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    UpdateMetadata,
)
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import Session
from sordini.storage.log_manager import Identity, LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.fake_ports import ListLog, StillClock
from tests.support.inline_cleaner import CleaningHere
from tests.support.inline_record_jobs import RecordsHere

SETTLING_ROUNDS_MAX = 100_000
ME = BrokerId(1)
OTHER = BrokerId(2)
CLUSTER_ID = "0123456789abcdefghijkl"
ADDRESS = ("broker.example", 9092)


def topic_id_of(topic: str) -> TopicId:
    """The id a topic has in these tests unless one is named."""
    return TopicId(topic.encode()[:16].ljust(16, b"\x01"))


def a_peer(listener: str = "PLAINTEXT", number: int = 0) -> Peer:
    """`number` is the count of connections that the broker accepted before."""
    return Peer(listener, "PLAINTEXT", "192.0.2.1", 4711, "connection-1", number)


async def inline(call: Callable[[], Any]) -> Any:
    return call()


class NoNetwork:
    """There is no other broker and no connection."""

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        raise AssertionError(f"no listener on {host}:{port} here")

    async def connect(self, address: tuple[str, int], options: SocketOptions, timeout_ms: int) -> Socket:
        raise ConnectionRefusedError(f"nothing listens at {address}")


class Timers:
    """`call_later` whose timers a test fires."""

    def __init__(self) -> None:
        self.waiting: list[Timer] = []

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        timer = Timer(self, seconds, action)
        self.waiting.append(timer)
        return timer

    def fire(self) -> None:
        """The time of all that wait has come."""
        for timer in list(self.waiting):
            timer.cancel()
            timer.action()


class Timer:
    def __init__(self, timers: Timers, seconds: float, action: Callable[[], None]) -> None:
        self._timers = timers
        self.seconds = seconds
        self.action = action

    def cancel(self) -> None:
        if self in self._timers.waiting:
            self._timers.waiting.remove(self)


class UnitBroker:
    """Broker 1, the controller of a cluster of its own."""

    def __init__(
        self,
        config: Config,
        explicit: frozenset[str],
        disk: ForgetfulDisk,
        session: Session,
        *,
        is_clustered: bool = True,
        audit: AuditOutput | None = None,
    ) -> None:
        self.config = config
        self.disk = disk
        self.session = session
        self.clock = StillClock()
        self.log = ListLog()
        self.timers = Timers()
        self.peer = a_peer()
        self.tasks: set[asyncio.Task[None]] = set()
        chance = random.Random(1)
        self.dynamic = DynamicConfig(config, explicit)
        configs = topic_configs_of(self.dynamic, session, self.log)
        self.logs = LogManager(
            disk,
            config.log_directories,
            Identity(ME, CLUSTER_ID),
            lambda name: configs.settings_of(name.topic).log,
            chance,
        )
        self.logs.open(0)
        identity = BrokerIdentity(ME, CLUSTER_ID)
        call_later = self.timers.call_later
        worker = CleaningHere(disk)
        self.records = RecordsHere()
        self.contact = StoreContact(self.clock, call_later, self.log)
        deps = BrokerDeps(
            self.dynamic,
            ClusterDeps(identity, session, self.contact, is_clustered),
            Runtime(self.clock, chance, self.spawn, call_later, self.log),
            NoNetwork(),
            Workers(worker, self.records),
            key_fetcher(disk),
            audit,
        )
        self.parts: BrokerParts = assemble(deps, configs, self.logs)
        self.logs.on_offline = self.parts.replicas.directory_failed

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task

    async def elect(self, controller_id: BrokerId = OTHER, epoch: int = 1) -> None:
        """Write the controller into the store: commands over the network must be of that controller."""
        for path, data in (
            (paths.CONTROLLER, znodes.encode_controller(controller_id, 0)),
            (paths.CONTROLLER_EPOCH, b"%d" % epoch),
        ):
            if await self.session.exists(path) is None:
                await self.session.create(path)
            await self.session.set(path, data)

    async def settled(self) -> None:
        """Wait for all that was spawned; a bug in it is the test's, and so is a task that nothing lets go on."""
        slices = self.parts.dispatcher.slices
        for _ in range(SETTLING_ROUNDS_MAX):
            if not self.tasks and not slices.waiting:
                return
            await self.run_round()
        raise AssertionError(f"still waiting: {[task.get_stack() for task in self.tasks]}, {slices.waiting} slices")

    async def run_round(self) -> None:
        """Let every task go on once."""
        await asyncio.sleep(0)
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.remove(task)
            task.result()

    async def lead(
        self,
        topic: str,
        partitions: int = 1,
        *,
        topic_id: TopicId | None = None,
        isr: tuple[BrokerId, ...] = (ME,),
        epoch: int = 0,
    ) -> None:
        """What the controller commands once a topic is made."""
        await self._become(ME, topic, partitions, topic_id, isr, epoch)

    async def follow(self, topic: str, partitions: int = 1, *, epoch: int = 0) -> None:
        """What the controller commands where broker OTHER leads, which this broker does not reach."""
        await self._become(OTHER, topic, partitions, None, (OTHER, ME), epoch)

    async def _become(
        self,
        leader: BrokerId,
        topic: str,
        partitions: int,
        topic_id: TopicId | None,
        isr: tuple[BrokerId, ...],
        epoch: int,
    ) -> None:
        state = PartitionState(leader, LeaderEpoch(epoch), isr, 1)
        infos = tuple(
            PartitionInfo(TopicPartition(topic, index), topic_id or topic_id_of(topic), isr, state, 0, is_new=True)
            for index in range(partitions)
        )
        answer = await self.parts.receiver.receive(LeaderAndIsr(ME, 1, -1, infos, ()))
        assert (answer.error, dict(answer.partitions)) == (0, {})
        await self.learn(infos)

    async def learn(self, infos: tuple[PartitionInfo, ...] = ()) -> None:
        me = Broker(ME, 0, (BrokerEndpoint("PLAINTEXT", *ADDRESS),))
        await self.parts.receiver.receive(UpdateMetadata(ME, 1, -1, (me,), infos))

    def frame(self, key: ApiKey, version: int, request: Any, *, client_id: str | None = "test") -> memoryview:
        head = request_header(ALL_APIS[key], version, 77, client_id)
        return memoryview(bytearray(head + codecs.encode(request, version)))

    def serve(self, key: ApiKey, version: int, request: Any, **header: Any) -> Parts | DelayedResponse | None:
        return self.parts.dispatcher.serve(self.peer, self.frame(key, version, request, **header))

    def ask(self, key: ApiKey, version: int, request: Any, **header: Any) -> Any:
        """The message that answers a request, which must be answered at once, or in slices without any other wait."""
        parts = self.serve(key, version, request, **header)
        if isinstance(parts, DelayedResponse) and parts.blocks_pipeline:
            while self.parts.dispatcher.slices.waiting:
                self.parts.dispatcher.slices.run_slice()
            parts = parts.parts
        assert isinstance(parts, list), f"not answered at once: {parts}"
        return read_answer(key, version, parts)

    async def ask_later(self, key: ApiKey, version: int, request: Any, **header: Any) -> Any:
        """The message that answers a request for which something has to be waited."""
        pending = self.serve(key, version, request, **header)
        assert isinstance(pending, DelayedResponse), f"answered at once: {pending}"
        await self.settled()
        return answer_of(pending, key, version)


def answer_of(pending: DelayedResponse, key: ApiKey, version: int) -> Any:
    """The message of an answer that was completed."""
    assert pending.is_answered
    return None if pending.parts is None else read_answer(key, version, pending.parts)


def joined(parts: Parts) -> bytes:
    """What goes over the wire; slices are read, and released as the network does."""
    whole = bytearray()
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            whole += part
        else:
            whole += part.read()  # type: ignore[attr-defined]
            part.release()
    return bytes(whole)


def read_answer(key: ApiKey, version: int, parts: Parts) -> Any:
    whole = joined(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    frame = memoryview(whole)[4:]
    api = ALL_APIS[key]
    correlation_id, position = read_response_header(api, version, frame)
    assert correlation_id == 77
    message, end = codecs.decode(api.response, version, frame, position)
    assert end == len(frame)
    return message


@asynccontextmanager
async def a_broker(
    entries: Mapping[str, str] | None = None,
    disk: ForgetfulDisk | None = None,
    *,
    is_clustered: bool = True,
    audit: AuditOutput | None = None,
) -> AsyncIterator[UnitBroker]:
    """A broker with one log directory, or with what `entries` of its configuration say; one of several, or alone.

    `audit` takes the lines of its audit log.
    """
    given = {"log.dirs": "/logs", "broker.id": "1", **(entries or {})}
    config, unknown = build_config(given)
    assert not unknown
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    try:
        session = await store.open_session()
        await ensure_base_paths(session)
        broker = UnitBroker(
            config, frozenset(given), disk or ForgetfulDisk(), session, is_clustered=is_clustered, audit=audit
        )
        await broker.learn()
        await broker.parts.config_changes.start()
        await broker.parts.security.start(session)
        try:
            yield broker
        finally:
            await broker.parts.security.stop()
            await broker.parts.config_changes.stop()
    finally:
        await store.close()


def led(leader: BrokerId = ME, *, epoch: int = 0) -> PartitionMetadata:
    """A partition as the metadata cache holds it."""
    return PartitionMetadata(leader, LeaderEpoch(epoch), (ME,), (ME,), ())


def known_broker(broker_id: BrokerId = ME, **endpoints: tuple[str, int]) -> BrokerMetadata:
    return BrokerMetadata(broker_id, endpoints or {"PLAINTEXT": ADDRESS}, None)
