"""Several brokers in one process: a cluster for development, on one machine and without a ZooKeeper.

    DIRECTORY/coordination.sqlite ── a lease each ──► Server 1   Server 2   Server 3     one loop, one log
    DIRECTORY/broker-1, -2, -3                            └── sockets of this machine ──┘

Each is the broker that `sordini serve` runs, with its own directories and listener. They elect a controller, replicate
and exchange requests as separate processes do. They cannot fail separately: process and loop are shared. A test of
failures needs a cluster of processes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

import structlog
from structlog.typing import EventDict

from sordini.broker.configuration.keys.kraft_keys import PAGE as KRAFT_PAGE
from sordini.broker.configuration.keys.kraft_keys import is_kraft_key
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.metrics.telemetry.reader_process import PushReaderProcess
from sordini.broker.network.descriptors import Descriptors, allow_open_files
from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.process import pid_file
from sordini.broker.process.audit_file import AuditFile, open_audit_file
from sordini.broker.process.broker_process import EXIT_CLEAN, EXIT_FAILED
from sordini.broker.process.cleaning_children import CleaningChildren
from sordini.broker.process.config_loading import (
    LoadedConfig,
    choose_loop,
    load_config,
    log_ignored_keys,
    read_entries,
    resolved,
)
from sordini.broker.process.log_writer import write_before_exit
from sordini.broker.process.logging import INFO, LineOutput, ProcessLogger
from sordini.broker.process.pid_file import PidFile, PidFileRefused
from sordini.broker.process.process_context import StandardReport
from sordini.broker.process.serving_children import ChildPlan, ServingChildren
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals
from sordini.broker.records.jobs.children import RecordWorkerProcesses
from sordini.broker.topics.leaderships import are_led
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused, refuse_lost_file
from sordini.broker.wiring.tracing import span_exporter
from sordini.coordination_store.embedded import EmbeddedStore, StoreLease, open_embedded
from sordini.coordination_store.store_location import STORE_FILE, moved_to, refuse_moved
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Clock, CoordinationStore, StoreUnusable
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.disk import SystemDisk
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

OWN_KEYS: Final = (
    "broker.id",
    "listeners",
    "advertised.listeners",
    "sordini.advertised.listeners.rules",
    "log.dirs",
    "log.dir",
    "zookeeper.connect",
)
"""Keys that are set for each broker here, and that overrides may not contain."""

METRICS_PORT: Final = "sordini.metrics.port"
"""The first broker's port; the others have the next ones."""


class DevClusterPlan(NamedTuple):
    """The brokers to run."""

    brokers: int
    directory: str
    host: str
    port: int
    """The first broker's; the others have the next ones. 0 lets the system choose each."""
    children: tuple[ChildPlan, ...] = ()
    """What is started with the brokers: the page in the browser, a schema registry."""

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)


def configurations(
    plan: DevClusterPlan, overrides: Sequence[str], environment: Mapping[str, str]
) -> dict[int, LoadedConfig]:
    """Each broker's configuration by its id. Raises ConfigError for wrong overrides and for those of OWN_KEYS."""
    entries = {**_for_development(plan.brokers), **shared_entries(overrides, environment)}
    return {
        number: load_config({**with_own_metrics_port(entries, number), **_own(plan, number)})
        for number in plan.broker_ids
    }


def shared_entries(overrides: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What is configured for all brokers, without OWN_KEYS: a container's environment may set them for `sordini serve`.

    Raises ConfigError for overrides of OWN_KEYS.
    """
    given = read_entries(None, overrides, {})
    for key in OWN_KEYS:
        if key in given:
            raise ConfigError(f"--override {key}={given[key]} is not valid here: each broker has its own {key}")
    for key in filter(is_kraft_key, given):
        raise ConfigError(f"--override {key}={given[key]} is not valid here: there is no KRaft ({KRAFT_PAGE})")
    entries = resolved({**read_entries(None, (), environment), **given}, environment)
    return {key: text for key, text in entries.items() if key not in OWN_KEYS and not is_kraft_key(key)}


def with_own_metrics_port(entries: Mapping[str, str], number: int) -> dict[str, str]:
    """The same entries, in which METRICS_PORT is a broker's own."""
    port = entries.get(METRICS_PORT, "")
    is_set = port.isdecimal() and int(port)
    return {**entries, METRICS_PORT: str(int(port) + number - 1)} if is_set else dict(entries)


async def open_shared_store(
    disk: SystemDisk, directory: str, log_directories: Sequence[str], clock: Clock
) -> EmbeddedStore:
    """The coordination store of a cluster in a directory. Raises StoreUnusable, StartRefused when it was lost."""
    file = f"{directory}/{STORE_FILE}"
    if moved_to(disk, file) is None:
        refuse_lost_file(disk, file, log_directories)
    store = await open_embedded(file, clock)
    try:
        refuse_moved(disk, file)
    except (StoreUnusable, OSError):
        await store.close()
        raise
    return store


def _for_development(count: int) -> dict[str, str]:
    """Defaults for a short-lived cluster on one machine."""
    replicas = str(min(count, 3))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        # Apache Kafka's default of 50 would be 50 logs on each broker before the first group is served.
        "offsets.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        # All stop together: no broker is left to take leaderships.
        "controlled.shutdown.enable": "false",
    }


def _own(plan: DevClusterPlan, number: int) -> dict[str, str]:
    port = plan.port + number - 1 if plan.port else 0
    return {
        "broker.id": str(number),
        "listeners": f"PLAINTEXT://{plan.host}:{port}",
        "log.dirs": f"{plan.directory}/broker-{number}",
    }


def run_brokers(plan: DevClusterPlan, overrides: Sequence[str], log: ProcessLogger, started_ms: int) -> int:
    """Run the brokers until SIGTERM or Ctrl-C; returns the exit code. `started_ms` is the process's monotonic start.

    Raises ConfigError for a wrong configuration.
    """
    given = configurations(plan, overrides, os.environ)
    new_loop = choose_loop(given[1].config)
    log_ignored_keys(given[1], log)
    disk, report = SystemDisk(), StandardReport()
    block_signals()
    own_pid_file = claim_directory(disk, plan.directory, report)
    if own_pid_file is None:
        return EXIT_FAILED
    try:
        audit = open_audit_file(disk, given[1].config)
    except OSError as error:
        own_pid_file.remove()
        report.failed(f"sordini: {error.filename or plan.directory}: {error.strerror}\n")
        return EXIT_FAILED
    descriptors = allow_open_files(given[1].config, log, plan.brokers)
    gc.collect()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_DevCluster(plan, given, disk, log, started_ms, descriptors, audit).run())
    except (StartRefused, StoreUnusable) as error:
        report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    finally:
        own_pid_file.remove()
    return EXIT_CLEAN


def claim_directory(disk: SystemDisk, directory: str, report: StandardReport) -> PidFile | None:
    """Make the directory of a dev cluster and claim its pid file. A failure is reported, and None returned."""
    try:
        disk.make_directory(directory)
        return pid_file.claim(disk, f"{directory}/{pid_file.NAME}", os.getpid())
    except PidFileRefused as error:
        report.failed(f"sordini: {error}\n")
    except (FileExistsError, NotADirectoryError):
        report.failed(f"sordini: {directory} is not a directory, and none can be made there: a file is in its place\n")
    except OSError as error:
        report.failed(f"sordini: {error.filename or directory}: {error.strerror}\n")
    return None


class _DevCluster:
    """The brokers of one process; `run` starts them, serves, and stops them."""

    def __init__(
        self,
        plan: DevClusterPlan,
        given: Mapping[int, LoadedConfig],
        disk: SystemDisk,
        log: ProcessLogger,
        started_ms: int,
        descriptors: Descriptors,
        audit: AuditFile | None,
    ) -> None:
        self._plan = plan
        self._given = given
        self._disk = disk
        self._log = log
        self._started_ms = started_ms
        self._descriptors = descriptors
        self._audit = audit
        self._clock = SystemClock()
        self._servers: dict[int, Server] = {}
        self._children = ServingChildren(plan.children, log)

    async def run(self) -> None:
        """Raises StartRefused and StoreUnusable, and the exception of a bug in one of the brokers."""
        directories = [path for given in self._given.values() for path in given.config.log_directories]
        store = await open_shared_store(self._disk, self._plan.directory, directories, self._clock)
        try:
            await self._run(store)
        finally:
            await store.close()

    async def _run(self, store: CoordinationStore) -> None:
        stop = asyncio.Event()

        def begin_stop() -> None:
            self._children.close_input()
            stop.set()

        reactions = SignalActions(stop=begin_stop, reopen=self._reopen, before_forced_exit=self._before_forced_exit)
        deadline_ms = self._given[1].config.shutdown_deadline_ms
        SignalThread(asyncio.get_running_loop(), reactions, self._clock, deadline_ms).start()
        self._servers = {number: self._server(number, store, stop) for number in self._plan.broker_ids}
        up = {number: asyncio.Event() for number in self._plan.broker_ids}
        runs = [self._run_one(number, stop, up[number]) for number in self._plan.broker_ids]
        reporting = asyncio.create_task(self._report_when_ready(list(up.values())))
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        reporting.cancel()
        await asyncio.wait([reporting])
        self._children.stop()
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _run_one(self, number: int, stop: asyncio.Event, up: asyncio.Event) -> None:
        """Run one broker; when it ends, the others are stopped."""
        try:
            await self._servers[number].run(stop, up.set)
        finally:
            stop.set()

    def _server(self, number: int, store: CoordinationStore, stop: asyncio.Event) -> Server:
        config, explicit = self._given[number].config, self._given[number].explicit

        async def lease() -> CoordinationStore:
            return StoreLease(store)

        ports = ServerPorts(
            clock=self._clock,
            randomness=random.SystemRandom(),
            disk=self._disk,
            network=SystemNetwork(use_sendfile=config.sendfile_enable),
            page_cache=SystemPageCache(self._clock, self._disk.offload),
            open_store=lease,
            worker=CleaningChildren(),
            record_worker=RecordWorkerProcesses(),
            telemetry_reader=PushReaderProcess() if config.client_telemetry_enable else None,
            span_exporter=span_exporter(config, self._disk),
            descriptors=self._descriptors,
            is_store_shared=True,
            audit=self._audit,
        )
        return Server(config, explicit, ports, broker_log(self._log, number, stop))

    async def _report_when_ready(self, up: Sequence[asyncio.Event]) -> None:
        """Write the ready line once each broker serves, knows all others, and leads what it should lead.

        A new topic can be placed on all, and the topics of an earlier run can be written to and read.
        """
        for event in up:
            await event.wait()
        all_ids = set(self._plan.broker_ids)
        for number, server in self._servers.items():
            metadata, replicas = server.metadata, server.replicas
            assert metadata is not None
            assert replicas is not None
            await metadata.until(
                partial(_is_ready, metadata, replicas, BrokerId(number), all_ids),
                self._given[1].config.zookeeper_session_timeout_ms,
            )
        identity = self._servers[1].identity
        assert identity is not None
        seconds = (self._clock.monotonic_ms() - self._started_ms) / 1000
        bootstrap = ",".join(f"{end.address}" for server in self._servers.values() for end in server.bound)
        brokers = "1 broker" if len(all_ids) == 1 else f"{len(all_ids)} brokers"
        line = f"{brokers} of cluster {identity.cluster_id} at {bootstrap}"
        StandardReport().ready(f"sordini is ready: {line} ({seconds:.2f} s)\n")
        self._children.start(bootstrap)

    def _reopen(self) -> None:
        """Reopen the audit log after it was renamed."""
        if self._audit is None:
            return
        try:
            self._audit.reopen()
        except OSError as error:
            self._log.error("audit log not reopened", file=self._audit.path, reason=str(error))

    def _before_forced_exit(self, reason: str) -> None:
        activities = ", ".join(f"broker {number} {server.activity}" for number, server in self._servers.items())
        write_before_exit(f"sordini: stop forced after {reason}, not finished: {activities}\n")


def _is_ready(metadata: MetadataCache, replicas: ReplicaSet, number: BrokerId, all_ids: AbstractSet[int]) -> bool:
    return all_ids <= metadata.brokers.keys() and are_led(metadata, replicas, number, all_ids)


def broker_log(log: ProcessLogger, broker_id: int, stop: asyncio.Event) -> ProcessLogger:
    """The process's log for one of its brokers: with `this_broker` in each line."""

    def expect_warnings(output: LineOutput, level: str, fields: EventDict) -> EventDict:
        # While all brokers stop, warnings about the others are expected.
        if level != "warning" or not stop.is_set():
            return fields
        if output.level > INFO:
            raise structlog.DropEvent
        return {**fields, "level": "info"}

    return log.adjusted(expect_warnings).bind(this_broker=broker_id)
