"""One broker: how it is started, run and stopped.

    open the store -> find the ids -> lock and load the logs -> bind -> join the cluster -> ready -> ... -> stop

Alone, with the embedded store, a broker accepts connections once it leads all of its partitions. In a cluster it
accepts them as soon as it is registered, because the controller connects and sends commands from then on; before that,
connections wait in the backlog. In a cluster its leaderships are handed over before it stops (controlled shutdown).

Files, sockets, time and the coordination store come in through `ServerPorts`, so that the same server runs in
production and in a simulation. Every task is a child of one group: a bug in any of them ends the process, not a part
of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from sordini.broker.administration.config_receiver import load_layers
from sordini.broker.cluster.identity import BrokerIdentity, find_identity, owner_of
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.listeners import ListenerEndpoint
from sordini.broker.configuration.password_renewal import encrypt_passwords_again
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.network.server import SocketServer
from sordini.broker.network.watchdog import Watchdog
from sordini.broker.security.sasl.first_user import FirstUser
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.assembly import assemble, topic_configs_of
from sordini.broker.wiring.client_quotas import throttle
from sordini.broker.wiring.cluster_wiring import wire_cluster
from sordini.broker.wiring.deps import BrokerDeps, ClusterDeps, Runtime, Workers
from sordini.broker.wiring.joining import join
from sordini.broker.wiring.listeners import bind, listen_for_metrics, network_limits, registered_broker
from sordini.broker.wiring.oauthbearer import key_fetcher
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.running import Running
from sordini.broker.wiring.startup import (
    FORESEEN_FAILURES,
    STORE_LOST,
    ServerPorts,
    StartRefused,
    open_logs,
    refuse_incompatible_cluster,
    refuse_other_tree,
    refuse_unreadable_telemetry,
    store_lost,
    warn_of_unknown_topics,
)
from sordini.broker.wiring.stopping import stop_parts
from sordini.broker.wiring.tls import broker_network, wire_tls
from sordini.broker.wiring.tracing import refuse_unusable_tracing, served_by, wire_tracing
from sordini.coordination_store.current_session import CurrentSession
from sordini.replication.metadata_store.log_dir_notifications import LogDirFailureNotifier
from sordini.replication.metadata_store.paths import TOPICS
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.metadata_store.store_format import ensure_format
from sordini.replication.ports import CoordinationStore, Logger, Session
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError
from sordini.storage.log_manager import LogManager

if TYPE_CHECKING:
    from sordini.broker.metrics.endpoint import MetricsEndpoint

TICK_S = 1.0
SERVING = "serving"
"""The activity of a broker that is ready."""


class Server:
    """A broker; `run` starts it, serves, and stops it."""

    def __init__(
        self,
        config: Config,
        explicit: frozenset[str],
        ports: ServerPorts,
        log: Logger,
        first_user: FirstUser | None = None,
    ) -> None:
        """`explicit` names the configuration keys that were set; `first_user` is made before the broker serves."""
        self._first_user = first_user
        self._config = config
        self._dynamic = DynamicConfig(config, explicit)
        self._ports = ports
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        self._group = asyncio.TaskGroup()
        self.watchdog = Watchdog(ports.clock, log, config.stall_threshold_ms)
        self.activity = "starting"
        """What the broker does now, for the line that says what a forced stop left unfinished."""
        self.identity: BrokerIdentity | None = None
        self.bound: list[ListenerEndpoint] = []
        self.advertised: tuple[ListenerEndpoint, ...] = ()
        self.metadata: MetadataCache | None = None
        """The cluster's metadata; None before the parts are built, as is the next."""
        self.replicas: ReplicaSet | None = None
        self._has_topics = False
        """Whether the store had topics when this broker started."""

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Start, call `ready`, serve until `stop` is set, and stop cleanly.

        Raises StartRefused when the broker cannot start or continue, and the exception of a bug in one of its tasks.
        """
        store = None
        try:
            refuse_unreadable_telemetry(self._config)
            await refuse_unusable_tracing(self._ports.span_exporter)
            store = await self._ports.open_store()
            session = CurrentSession(await store.open_session())
            await self._run(store, session, stop, ready)
        except FORESEEN_FAILURES as error:
            raise StartRefused(str(error)) from error
        except BaseExceptionGroup as group:
            # The task group wraps the failure; a foreseen one is reported as one that comes before the group.
            foreseen, others = group.split((StartRefused, *FORESEEN_FAILURES))
            if foreseen is None or others is not None:
                raise
            raise StartRefused(str(_first(foreseen))) from group
        finally:
            if store is not None:
                self.activity = "closing the coordination store"
                await store.close()
                await self._ports.record_worker.close()
                if self._ports.telemetry_reader is not None:
                    await self._ports.telemetry_reader.close()
                if self._ports.span_exporter is not None:
                    await self._ports.span_exporter.close()

    async def _run(
        self, store: CoordinationStore, session: CurrentSession, stop: asyncio.Event, ready: Callable[[], None]
    ) -> None:
        try:
            topic_configs = await self._read_cluster(session)
        except STORE_LOST as error:
            raise store_lost(error) from error
        assert self.identity is not None
        logs = open_logs(self._config, self._ports, self.identity, topic_configs, self._log)
        clean = False
        try:
            async with self._group:
                running = await self._build(store, session, topic_configs, logs)
                await self._serve(running, stop, ready)
            clean = True
        finally:
            self.activity = "flushing logs and checkpoints"
            await logs.close(clean=clean)

    async def _read_cluster(self, session: Session) -> TopicConfigs:
        """Read what must be known before the logs are opened: a log's recovery depends on its topic's configuration."""
        owner = owner_of(self._ports.disk, self._config.log_directories)
        await refuse_other_tree(self._config, owner, session)
        await ensure_format(session)
        await ensure_base_paths(session)
        self.identity = await find_identity(self._config, self._ports.disk, session)
        await load_layers(session, self.identity.broker_id, self._dynamic, self._log)
        topic_configs = topic_configs_of(self._dynamic, session, self._log)
        names = await session.children(TOPICS)
        self._has_topics = bool(names)
        await topic_configs.load(names)
        return topic_configs

    async def _build(
        self, store: CoordinationStore, session: CurrentSession, topic_configs: TopicConfigs, logs: LogManager
    ) -> Running:
        """Build all parts and bind the listeners; nothing is accepted yet, and the broker is not registered."""
        assert self.identity is not None
        ports, log = self._ports, self._log
        call_later = asyncio.get_running_loop().call_later
        contact = StoreContact(ports.clock, call_later, log)
        tls = wire_tls(self._dynamic, ports, log)
        deps = BrokerDeps(
            self._dynamic,
            ClusterDeps(self.identity, session, contact, self._is_clustered),
            Runtime(ports.clock, ports.randomness, self._spawn, call_later, log),
            broker_network(self._dynamic.config, ports.network, tls),
            Workers(ports.worker, ports.record_worker, ports.telemetry_reader),
            key_fetcher(ports.disk),
            ports.audit,
            ports.interposer,
        )
        parts = assemble(deps, topic_configs, logs)
        self.metadata, self.replicas = parts.metadata, parts.replicas
        parts.health.activity = self._unless_serving
        failure_notifier = LogDirFailureNotifier(session, self.identity.broker_id, self._spawn)
        logs.on_offline = lambda failure: self._directory_failed(failure, parts, failure_notifier)
        metrics = await listen_for_metrics(self._config, parts.dispatcher, log)
        service = parts.dispatcher if metrics is None else metrics.service
        descriptors_max = ports.descriptors.connections
        limits = network_limits(self._dynamic.config, descriptors_max)
        sockets = SocketServer(ports.network, service, ports.clock, ports.page_cache, log, *limits)
        tracing = wire_tracing(deps, ports.span_exporter, parts.metadata)
        throttle(sockets, parts.quotas, service, served_by(sockets, tracing), self._dynamic, ports.clock)
        logs.before_truncate(sockets.reset_holders)
        parts.transactions.accepted_connections = parts.groups.accepted_connections = lambda: sockets.quotas.accepted
        parts.transactions.send_markers_by(asyncio.get_running_loop().call_soon)
        parts.activity.connections = sockets.connections
        self._dynamic.on_change(lambda changed: sockets.limit_connections(network_limits(changed, descriptors_max)[0]))
        self.bound, self.advertised = bind(self._config, sockets, tls, parts.security)
        broker = registered_broker(self._config, self.identity.broker_id, self.advertised)
        await refuse_incompatible_cluster(self._config, session, broker)
        try:
            await warn_of_unknown_topics(logs, session, log)
        except STORE_LOST as error:
            raise store_lost(error) from error
        parts.metadata.awaits_first_topics = self._is_clustered and self._has_topics
        if self._is_clustered:
            parts.first_metadata.start_waiting()
        cluster = wire_cluster(deps, session, store, parts, broker)
        parts.health.unreached = cluster.channel.unreached
        return Running(
            self.identity,
            session,
            contact,
            failure_notifier,
            parts,
            sockets,
            cluster,
            metrics,
            tls,
            tracing,
            self._is_clustered,
        )

    async def _serve(self, running: Running, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        self._spawn(running.sockets.run())
        serving: list[asyncio.Task[None]] = []
        if await self._done_before(stop, self._join(running)):
            self.watchdog.start()
            # The cleaner's child processes have ended by the time that open requests are answered.
            serving += map(self._spawn, (running.cluster.membership.run(), running.parts.cleaner.run()))
            self._spawn(self._tick(running))
            if self._is_clustered:
                self._spawn(running.cluster.clocks.run())
            self._spawn(self._check_isr(running.parts.replicas))
            if running.tracing is not None:
                self._spawn(running.tracing.run())
            running.sockets.start()
            running.parts.activity.ready()
            if running.metrics is not None:
                self._open_metrics(running.metrics, running)
            self.activity = SERVING
            ready()
            await stop.wait()
        self._log.info("broker stopping")
        for task in serving:
            task.cancel()
        await self._stop(running)

    async def _done_before(self, stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
        """Whether `work` was done before `stop` was set; otherwise it is cancelled."""
        task, stopping = self._spawn(work), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        return not task.cancelled()

    async def _join(self, running: Running) -> None:
        await join(running, self._config, self._first_user, self._log)
        await encrypt_passwords_again(running.session, running.identity.broker_id, self._dynamic.encoder, self._log)

    async def _stop(self, running: Running) -> None:
        """Leave the cluster, answer open requests, and end every task."""
        await stop_parts(running, self._config, self._ports.clock, self.watchdog, self._note_activity, self._log)
        for task in list(self._tasks):
            task.cancel()

    def _note_activity(self, activity: str) -> None:
        self.activity = activity

    def _open_metrics(self, metrics: MetricsEndpoint, running: Running) -> None:
        from sordini.broker.metrics.families import MetricSources

        log = self._log
        sources = MetricSources(
            running.parts,
            running.sockets,
            running.cluster.membership,
            self.watchdog,
            metrics.service.latencies,
            running.parts.groups,
            clocks=running.cluster.clocks,
            uptime_ms=running.parts.activity.uptime_ms,
            lines_lost=lambda: getattr(log, "lines_lost", 0),  # A test's log has no such count.
            contact=running.contact,
            tls=running.tls,
            broker_id=running.identity.broker_id,
            monotonic_ms=self._ports.clock.monotonic_ms,
            group_partitions_max=self._config.metrics_group_partitions_max,
            tracing=running.tracing,
        )
        metrics.open(sources, self._unless_serving)

    def _unless_serving(self) -> str:
        """What the broker does, while it does not serve; otherwise empty."""
        return "" if self.activity == SERVING else self.activity

    @property
    def _is_clustered(self) -> bool:
        """Whether other brokers can exist: the embedded store belongs to one process."""
        return bool(self._config.zookeeper_connect) or self._ports.is_store_shared

    def _directory_failed(
        self, failure: StorageError, parts: BrokerParts, failure_notifier: LogDirFailureNotifier
    ) -> None:
        self._log.error("log directory is offline", directory=failure.directory, reason=str(failure))
        parts.replicas.directory_failed(failure)
        if not parts.logs.online_directories:
            self._spawn(_end(failure))
        elif self._is_clustered:
            failure_notifier.notify()

    async def _tick(self, running: Running) -> None:
        clock = self._ports.clock
        while True:
            await asyncio.sleep(TICK_S)
            running.parts.activity.sample()
            await running.parts.lag.sample(clock.monotonic_ms())
            await running.parts.logs.tick(clock.now_ms())
            if running.parts.receiver.deferred.is_due(clock.monotonic_ms()):
                running.failure_notifier.notify()
            running.parts.security.tick(clock.monotonic_ms())
            if running.tls is not None:
                await running.tls.listeners.poll(self._dynamic.config)

    async def _check_isr(self, replicas: ReplicaSet) -> None:
        while True:
            await asyncio.sleep(self._config.replica_lag_time_max_ms / 2000)
            replicas.maybe_shrink_isr()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of this server; its failure ends the server."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in a group, however deep."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _end(failure: StorageError) -> None:
    """The last log directory went offline: nothing can be served, and the process ends with this reason."""
    raise failure
