"""One broker, from its first file to its last: how it is started, run and stopped.

    open the store -> who am I -> lock and load the logs -> bind -> register -> elect a controller
    -> be told what to lead -> accept connections -> ready

Everything of the world comes in through `Ports`, so that the same server runs on real files and sockets and in a
simulation. Every task is a child of one group: a bug in any of them ends the process, not a part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from sordini.broker.assembly import Assembly, Surroundings, assemble, network_limits, topic_configs_of
from sordini.broker.clock import Clock
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.listeners import Endpoint, advertised_endpoints
from sordini.broker.configuration.receiver import load_layers
from sordini.broker.configuration.settings import INT64_MAX, ConfigError
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.delete_policies import load_policies
from sordini.broker.identity import BrokerIdentity, find_identity
from sordini.broker.local_channel import LocalChannel
from sordini.broker.network.limits import Listener
from sordini.broker.network.ports import Log, Network, PageCache, SocketOptions
from sordini.broker.network.server import SocketServer
from sordini.broker.network.watchdog import Watchdog
from sordini.replication.controller import cluster
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.paths import BROKER_IDS, TOPICS
from sordini.replication.controller.registration import DuplicateBrokerId, Registration, ensure_base_paths
from sordini.replication.controller.topics import topic_ids
from sordini.replication.ports import CoordinationStore, Session, StoreUnusable
from sordini.storage.cleaner import Worker
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError
from sordini.storage.home import Randomness
from sordini.storage.log_manager import Identity, LogManager, StoreConfig

if TYPE_CHECKING:
    from sordini.broker.metrics.endpoint import MetricsEndpoint

TICK_S = 1.0
SERVING = "serving"
"""What a broker that is ready is about."""


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
    worker: Worker
    """Who compacts."""


class Server:
    """A broker. `run` is its whole life."""

    def __init__(self, config: Config, explicit: frozenset[str], ports: Ports, log: Log) -> None:
        """`explicit` names the configuration keys that were set, for those who ask where a value comes from."""
        self._config = config
        self._dynamic = DynamicConfig(config, explicit)
        self._ports = ports
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self.watchdog = Watchdog(ports.clock, log, config.stall_threshold_ms)
        self.doing = "starting"
        """What the broker is about, in a few words: for whoever has to say what was not finished."""
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
                self.doing = "closing the coordination store"
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
        await load_layers(session, self.identity.broker_id, self._dynamic, self._log)
        topic_configs = topic_configs_of(self._dynamic, session, self._log)
        # Before the logs: how a log is recovered depends on its topic (compacted ones may have gaps).
        await topic_configs.load(await session.children(TOPICS))
        logs = await self._open_logs(topic_configs)
        clean = False
        try:
            async with self._group:
                await self._serve(session, topic_configs, logs, stop, ready)
            clean = True
        finally:
            self.doing = "writing the logs and their checkpoints out"
            await logs.close(clean=clean)

    async def _open_logs(self, topic_configs: TopicConfigs) -> LogManager:
        assert self.identity is not None
        config, ports = self._config, self._ports
        try:
            policies = load_policies(config.log_delete_policy)
        except ConfigError as error:
            raise StartRefused(str(error)) from error
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
                # Unset it is never, and a topic's flush.ms would promise nothing.
                flush_check_interval_ms=config.log_flush_scheduler_interval_ms % INT64_MAX,
                delete_policies=policies,
            ),
        )
        logs.on_finding = self._tell_finding
        for finding in logs.open(ports.clock.now_ms()):
            self._log.warning("found at start", what=finding)
        return logs

    def _tell_finding(self, finding: str) -> None:
        self._log.warning("found in the logs", what=finding)

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
        call_later = asyncio.get_running_loop().call_later
        around = Surroundings(
            self._dynamic,
            self.identity,
            session,
            ports.clock,
            ports.randomness,
            self._spawn,
            call_later,
            log,
            ports.worker,
        )
        parts = assemble(around, topic_configs, logs)
        logs.on_offline = lambda failure: self._directory_failed(failure, parts, logs)
        metrics = await self._metrics(parts)
        service = parts.dispatcher if metrics is None else metrics.service
        limits = network_limits(self._dynamic.config)
        sockets = SocketServer(ports.network, service, ports.clock, ports.page_cache, log, *limits)
        logs.on_cut(sockets.reset_holders)
        self._dynamic.on_change(lambda changed: sockets.limit_connections(network_limits(changed)[0]))
        advertised = self._bind(sockets)
        channel = LocalChannel({self.identity.broker_id: parts.receiver.receive}, self._spawn)
        me = cluster.Broker(self.identity.broker_id, 0, advertised)
        parts.receiver.broker_epoch = await Registration(
            session, me, ports.clock, log, session_timeout_ms=config.zookeeper_session_timeout_ms
        ).register()
        await parts.config_changes.start()
        controller = self._controller(session, channel)
        parts.partition_admin.controller = controller
        await controller.start()
        over = self._spawn(controller.over())
        await channel.drained()
        self.watchdog.start()
        self._spawn(sockets.run())
        self._spawn(self._tick(logs))
        cleaning = self._spawn(parts.cleaner.run())
        sockets.start()
        if metrics is not None:
            self._open_metrics(metrics, parts, sockets, controller)
        self.doing = SERVING
        ready()
        await stop.wait()
        log.info("stopping")
        cleaning.cancel()  # Its children are gone by the time that the requests are answered.
        self.doing = "answering open requests"
        parts.replicas.resign_all()
        # Half of the time, so that a peer that does not read leaves the other half to the disks.
        await sockets.close(config.shutdown_deadline_ms // 2)
        if metrics is not None:
            await metrics.close()
        self.doing = "resigning as controller"
        self.watchdog.stop()
        over.cancel()
        await controller.stop()
        await parts.config_changes.stop()
        for task in list(self._tasks):
            task.cancel()

    def _controller(self, session: Session, channel: LocalChannel) -> Controller:
        assert self.identity is not None
        ports = self._ports
        ids = topic_ids(ports.randomness.getrandbits)
        return Controller(session, self.identity.broker_id, channel, ports.clock, self._log, topic_ids=ids)

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

    async def _metrics(self, parts: Assembly) -> MetricsEndpoint | None:
        """What times requests and is scraped, where that is wanted."""
        if self._config.metrics_port < 0:
            return None
        from sordini.broker.metrics.endpoint import MetricsEndpoint  # Late: its library takes 100 ms to import.

        metrics = MetricsEndpoint(parts.dispatcher, self._log)
        try:
            host, port = await metrics.listen(self._config.metrics_host, self._config.metrics_port)
        except OSError as error:
            raise StartRefused(str(error.strerror)) from error
        self._log.info("metrics are served", host=host, port=port)
        return metrics

    def _open_metrics(
        self,
        metrics: MetricsEndpoint,
        parts: Assembly,
        sockets: SocketServer,
        controller: Controller,
    ) -> None:
        from sordini.broker.metrics.families import Sources

        monotonic_ms, log = self._ports.clock.monotonic_ms, self._log
        ready_ms = monotonic_ms()
        sources = Sources(
            parts,
            sockets,
            controller,
            self.watchdog,
            metrics.service.latencies,
            parts.groups,
            uptime_ms=lambda: monotonic_ms() - ready_ms,
            lines_lost=lambda: getattr(log, "lines_lost", 0),  # Only a log that writes can fail to.
        )
        metrics.open(sources, lambda: "" if self.doing == SERVING else self.doing)

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
