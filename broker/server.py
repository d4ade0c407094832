"""One broker, from its first file to its last: how it is started, run and stopped.

    open the store -> who am I -> lock and load the logs -> bind -> register -> elect a controller
    -> be told what to lead -> accept connections -> ready

Everything of the world comes in through `Ports`, so that the same server runs on real files and sockets and in a
simulation. Every task is a child of one group: a bug in any of them ends the process, not a part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from sordini.broker.assembly import Assembly, Surroundings, assemble, network_limits, topic_configs_of
from sordini.broker.clock import Clock
from sordini.broker.config import Config
from sordini.broker.identity import BrokerIdentity, find_identity
from sordini.broker.listeners import Endpoint, advertised_endpoints
from sordini.broker.local_channel import LocalChannel
from sordini.broker.network.limits import Listener
from sordini.broker.network.ports import Log, Network, PageCache, SocketOptions
from sordini.broker.network.server import SocketServer
from sordini.broker.network.watchdog import Watchdog
from sordini.broker.topic_configs import TopicConfigs
from sordini.replication.controller import cluster
from sordini.replication.controller.configs import ConfigChanges
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.paths import BROKER_IDS, TOPICS
from sordini.replication.controller.registration import DuplicateBrokerId, Registration, ensure_base_paths
from sordini.replication.controller.topics import topic_ids
from sordini.replication.ports import CoordinationStore, Session, StoreUnusable
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError
from sordini.storage.home import Randomness
from sordini.storage.log_manager import Identity, LogManager, StoreConfig

TICK_S = 1.0
TOPIC_ENTITY = "topics/"


class StartRefused(Exception):  # noqa: N818 - says what it is.
    """The broker cannot start; the text says why and what to do about it."""


EXPECTED = (StoreUnusable, StorageError, DuplicateBrokerId)
"""What may end a broker without a bug."""


class Ports(NamedTuple):
    """The world, as the server sees it."""

    clock: Clock
    randomness: Randomness
    disk: Disk
    network: Network
    page_cache: PageCache
    open_store: Callable[[], Awaitable[CoordinationStore]]


class Server:
    """A broker. `run` is its whole life."""

    def __init__(self, config: Config, explicit: frozenset[str], ports: Ports, log: Log) -> None:
        """`explicit` names the configuration keys that were set, for those who ask where a value comes from."""
        self._config = config
        self._explicit = explicit
        self._ports = ports
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self.watchdog = Watchdog(ports.clock, log, config.stall_threshold_ms)
        self.identity: BrokerIdentity | None = None
        self.bound: list[Endpoint] = []

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Start, call `ready`, serve until `stop` is set, and stop cleanly.

        Raises StartRefused when the broker cannot start or go on, and whatever bug ended one of its tasks.
        """
        store = None
        try:
            store = await self._ports.open_store()
            session = await store.open_session()
            await self._run(session, stop, ready)
        except EXPECTED as error:
            raise StartRefused(str(error)) from error
        except BaseExceptionGroup as group:
            # The group of tasks wraps what ended it; what was foreseen is told as plainly as before the group.
            foreseen, others = group.split((StartRefused, *EXPECTED))
            if foreseen is None or others is not None:
                raise
            raise StartRefused(str(_first(foreseen))) from group
        finally:
            if store is not None:
                await store.close()

    async def _run(self, session: Session, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        await ensure_base_paths(session)
        self.identity = await find_identity(self._config, self._ports.disk, session)
        others = [name for name in await session.children(BROKER_IDS) if name != str(self.identity.broker_id)]
        if others:
            raise StartRefused(
                f"zookeeper.connect={self._config.zookeeper_connect!r} is in use by brokers {sorted(others)}: "
                "brokers do not replicate to each other yet, give this one a chroot of its own"
            )
        topic_configs = topic_configs_of(self._config, self._explicit, session)
        # Before the logs: how a log is recovered depends on its topic (compacted ones may have gaps).
        await topic_configs.load(await session.children(TOPICS))
        logs = await self._open_logs(topic_configs)
        clean = False
        try:
            async with self._group:
                await self._serve(session, topic_configs, logs, stop, ready)
            clean = True
        finally:
            await logs.close(clean=clean)

    async def _open_logs(self, topic_configs: TopicConfigs) -> LogManager:
        assert self.identity is not None
        config, ports = self._config, self._ports
        logs = LogManager(
            ports.disk,
            config.log_directories,
            Identity(self.identity.broker_id, self.identity.cluster_id),
            lambda partition: topic_configs.settings_of(partition.topic).log,
            ports.randomness,
            StoreConfig(
                open_files_max=config.open_segments_max,
                retention_check_interval_ms=config.log_retention_check_interval_ms,
                recovery_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
                log_start_checkpoint_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
                high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
            ),
        )
        for finding in logs.open(ports.clock.now_ms()):
            self._log.warning("found at start", what=finding)
        return logs

    async def _serve(
        self,
        session: Session,
        topic_configs: TopicConfigs,
        logs: LogManager,
        stop: asyncio.Event,
        ready: Callable[[], None],
    ) -> None:
        assert self.identity is not None
        config, ports, log = self._config, self._ports, self._log
        around = Surroundings(
            config, self._explicit, self.identity, session, ports.clock, ports.randomness, self._spawn, log
        )
        parts = assemble(around, topic_configs, logs)
        logs.on_offline = lambda failure: self._directory_failed(failure, parts, logs)
        sockets = SocketServer(
            ports.network, parts.dispatcher, ports.clock, ports.page_cache, log, *network_limits(config)
        )
        advertised = self._bind(sockets)
        channel = LocalChannel({self.identity.broker_id: parts.receiver.receive}, self._spawn)
        me = cluster.Broker(self.identity.broker_id, 0, advertised)
        parts.receiver.broker_epoch = await Registration(
            session, me, ports.clock, log, session_timeout_ms=config.zookeeper_session_timeout_ms
        ).register()
        changes = ConfigChanges(session, self._config_changed(parts), ports.clock, log)
        await changes.start()
        controller = Controller(
            session,
            self.identity.broker_id,
            channel,
            ports.clock,
            log,
            topic_ids=topic_ids(ports.randomness.getrandbits),
        )
        await controller.start()
        over = self._spawn(controller.over())
        await channel.drained()
        self.watchdog.start()
        self._spawn(sockets.run())
        self._spawn(self._tick(logs))
        sockets.start()
        ready()
        await stop.wait()
        log.info("stopping")
        parts.replicas.resign_all()
        await sockets.close(config.shutdown_deadline_ms)
        self.watchdog.stop()
        over.cancel()
        await controller.stop()
        await changes.stop()
        for task in list(self._tasks):
            task.cancel()

    def _bind(self, sockets: SocketServer) -> tuple[cluster.Endpoint, ...]:
        """Bind every listener; what to tell others. A port of 0 is the system's choice, told as it came out."""
        config = self._config
        options = SocketOptions(
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            backlog=config.socket_listen_backlog_size,
            user_timeout_ms=config.tcp_user_timeout_ms,
        )
        try:
            sockets.bind([Listener(end.name, end.host, end.port, end.protocol, options) for end in config.endpoints])
        except OSError as error:
            raise StartRefused(str(error.strerror)) from error
        self.bound = [end._replace(port=sockets.address(end.name)[1]) for end in config.endpoints]
        told = advertised_endpoints(config.advertised_listeners, tuple(self.bound), config.protocols)
        return tuple(cluster.Endpoint(end.name, end.host, end.port, end.protocol) for end in told)

    @staticmethod
    def _config_changed(parts: Assembly) -> Callable[[str, Mapping[str, str]], None]:
        def changed(entity_path: str, settings: Mapping[str, str]) -> None:
            if entity_path.startswith(TOPIC_ENTITY):
                topic = entity_path.removeprefix(TOPIC_ENTITY)
                parts.topic_configs.set(topic, settings)
                parts.replicas.reconfigure(topic)

        return changed

    def _directory_failed(self, failure: StorageError, parts: Assembly, logs: LogManager) -> None:
        self._log.error("log directory is offline", directory=failure.directory, reason=str(failure))
        parts.replicas.directory_failed(failure)
        if not logs.online_directories:
            self._spawn(_end(failure))

    async def _tick(self, logs: LogManager) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await logs.tick(self._ports.clock.now_ms())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something as a child of this server; its failure is the server's."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in a group, however deep."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _end(failure: StorageError) -> None:
    """The last log directory is gone: nothing can be served any more, and the process ends saying so."""
    raise failure
