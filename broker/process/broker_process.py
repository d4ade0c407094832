"""One broker as a process: configuration from files, the real ports, signals, one line when it is ready.

Exit codes: 0 after a clean stop, 1 when the broker failed, 2 for a configuration that cannot be used, 3 for a stop
that was forced (by a second signal, or by the deadline).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import random
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sordini.broker.clock import SystemClock
from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.environment import environment_entries, unknown_names
from sordini.broker.configuration.protection import is_without_effect
from sordini.broker.configuration.settings import ConfigError, read_properties
from sordini.broker.coordination.embedded import open_embedded
from sordini.broker.coordination.kazoo_lines import KazooLines
from sordini.broker.coordination.store_location import STORE_FILE, moved_to, refuse_moved
from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.sd_notify import ServiceManager
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.process import pid_file
from sordini.broker.process.child_processes import CleaningChildren
from sordini.broker.process.daemon import (
    StartReport,
    detach,
    open_missing_standard_files,
    redirect_output,
    take_over_standard_files,
)
from sordini.broker.process.descriptors import Descriptors, allow_open_files
from sordini.broker.process.log_writer import file_output, standard_error, standard_output, write_before_exit
from sordini.broker.process.logging import LogFile, Logger
from sordini.broker.process.pid_file import PidFile, PidFileRefused
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals
from sordini.broker.record_jobs.children import RecordWorkerProcesses
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import Ports, StartRefused, refuse_lost_file
from sordini.protocol.printable import shown_lines
from sordini.replication.ports import CoordinationStore, StoreUnusable
from sordini.storage.disk import SystemDisk

LOG_FILE = "sordini.log"
"""In the first log directory, for a daemon that was given no other."""

EXIT_CLEAN, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2


class Launch(NamedTuple):
    """How the process is to behave; what the broker is to do is the configuration's."""

    started_ms: int
    """When it was started, on the monotonic clock."""
    log_level: str = "info"
    log_form: str = "text"
    log_file: str | None = None
    pid_file: str | None = None
    is_daemon: bool = False


class LoadedConfig(NamedTuple):
    """A configuration that was read."""

    config: Config
    explicit: frozenset[str]
    """The keys that were set."""
    unknown: list[str]
    """Keys, and names in the environment that look like keys, which nobody knows."""
    without_effect: list[str]
    """Keys of Apache Kafka's that were set and do nothing here."""


def run_broker(properties: str | None, overrides: Sequence[str], launch: Launch) -> int:
    """Run a broker until it is told to stop, or start a daemon that does; the exit code.

    Raises ConfigError for a wrong configuration.
    """
    given = load_config(read_entries(properties, overrides, os.environ))
    if not launch.is_daemon:
        return _run_process(given, launch, StandardReport())
    given, launch = _absolute(given, launch)
    outcome = detach(lambda report: _run_process(given, launch, report))
    if isinstance(outcome, int):
        return outcome
    if outcome.is_ready:
        sys.stdout.write(outcome.line)
        return EXIT_CLEAN
    silent = f"sordini: the broker ended before it was ready: {launch.log_file} may say why\n"
    sys.stderr.write(shown_lines(outcome.line or silent))
    return EXIT_FAILED


class StandardReport:
    """A broker in the foreground tells its terminal, or the pipe in its place, which need not be read."""

    def ready(self, line: str) -> None:
        standard_output().write(line)

    def failed(self, line: str) -> None:
        sys.stderr.write(shown_lines(line))


def read_entries(properties: str | None, overrides: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Key and text of every entry given, overrides over the environment's over the file's. Raises ConfigError."""
    entries: dict[str, str] = {}
    if properties is not None:
        disk = SystemDisk()
        try:
            file = disk.open(properties, writable=False)
        except OSError as error:
            raise ConfigError(f"{properties}: {error.strerror}") from None
        try:
            entries.update(read_properties(file.read_at(0, file.size()).decode()))
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError(f"{properties}: {error}") from None
        finally:
            file.close()
    entries.update(environment_entries(environment))
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--override {override!r} is not valid: allowed is KEY=VALUE")
        entries[key.strip()] = text
    return entries


def load_config(entries: Mapping[str, str]) -> LoadedConfig:
    """The configuration that entries make. Raises ConfigError."""
    config, unknown = build_config(entries)
    return LoadedConfig(
        config,
        frozenset(entries) & SETTINGS.keys(),
        unknown + unknown_names(os.environ),
        sorted(filter(is_without_effect, entries)),
    )


def log_ignored_keys(given: LoadedConfig, log: Logger) -> None:
    """Name what was given and will not be as somebody may expect."""
    for key in given.unknown:
        log.warning("unknown configuration key", key=key)
    if given.config.is_format_overruled:
        log.warning("from protocol 3.0 on the message format is 2", key="log.message.format.version")
    if given.without_effect:
        log.info("configuration keys without effect here", keys=", ".join(given.without_effect))


def choose_loop(config: Config) -> type[asyncio.AbstractEventLoop] | None:
    """The loop to run on: uvloop where it is installed, unless the configuration says otherwise."""
    if config.event_loop != "asyncio":
        try:
            import uvloop  # Late: it is an optional library on some platforms.
        except ImportError:
            if config.event_loop == "uvloop":
                raise ConfigError("sordini.event.loop='uvloop' is not valid here: uvloop is not installed") from None
        else:
            return uvloop.Loop
    return asyncio.SelectorEventLoop


def _absolute(given: LoadedConfig, launch: Launch) -> tuple[LoadedConfig, Launch]:
    """The same with whole paths: a daemon leaves the directory it was started in."""
    directories = [os.path.abspath(path) for path in given.config.log_directories]  # noqa: PTH100 - text, as configured.
    cordoned = [os.path.abspath(path) for path in given.config.cordoned_directories]  # noqa: PTH100
    config = dataclasses.replace(
        given.config, log_dirs=",".join(directories), cordoned_log_dirs=",".join(sorted(cordoned))
    )
    log_file = os.path.abspath(launch.log_file or f"{directories[0]}/{LOG_FILE}")  # noqa: PTH100
    own_pid_file = launch.pid_file and os.path.abspath(launch.pid_file)  # noqa: PTH100
    return given._replace(config=config), launch._replace(log_file=log_file, pid_file=own_pid_file)


def _run_process(given: LoadedConfig, launch: Launch, report: StartReport) -> int:
    """The life of the process that is the broker, from its first open file on; the exit code."""
    disk = SystemDisk()
    open_missing_standard_files(disk)
    errors = standard_error()
    try:
        log_file = _open_log_file(disk, given.config, launch)
    except OSError as error:
        report.failed(f"sordini: {launch.log_file}: {error.strerror}\n")
        return EXIT_FAILED
    log = Logger(launch.log_level, file_output(log_file.fileno) if log_file else errors, launch.log_form)
    log_ignored_keys(given, log)
    block_signals()
    try:
        pid_files, found = _claim_pid_files(disk, given.config, launch)
    except PidFileRefused as error:
        report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    except OSError as error:
        report.failed(f"sordini: {launch.pid_file}: {error.strerror}\n")
        return EXIT_FAILED
    try:
        is_advertised = bool((given.config.advertised_listeners or "").strip())
        return _run_loop(given, ProcessContext(launch, disk, log, log_file, report, found, is_advertised))
    finally:
        for file in pid_files:
            file.remove()


def _open_log_file(disk: SystemDisk, config: Config, launch: Launch) -> LogFile | None:
    if launch.log_file is None:
        return None
    with contextlib.suppress(OSError):  # The server will say what is wrong with it.
        disk.make_directory(config.log_directories[0])
    log_file = LogFile(disk, launch.log_file)
    if launch.is_daemon:
        take_over_standard_files(disk, log_file.fileno())
        log_file.on_reopened = lambda: redirect_output(log_file.fileno())
    return log_file


def _claim_pid_files(disk: SystemDisk, config: Config, launch: Launch) -> tuple[list[PidFile], str]:
    """The pid file that was asked for and the one in the first log directory; and why the latter is not there.

    Raises PidFileRefused, and OSError for the one that was asked for.
    """
    claimed: list[PidFile] = []
    in_directory = f"{config.log_directories[0]}/{pid_file.NAME}"
    try:
        if launch.pid_file is not None and os.path.abspath(launch.pid_file) != os.path.abspath(in_directory):  # noqa: PTH100
            claimed.append(pid_file.claim(disk, launch.pid_file, os.getpid()))
        try:
            disk.make_directory(config.log_directories[0])
            claimed.append(pid_file.claim(disk, in_directory, os.getpid()))
        except OSError as error:
            return claimed, str(error)  # Whether a broken directory is fatal is for the log manager to say.
    except PidFileRefused:
        for file in claimed:
            file.remove()
        raise
    return claimed, ""


class ProcessContext(NamedTuple):
    """What one process has for its whole life."""

    launch: Launch
    disk: SystemDisk
    log: Logger
    log_file: LogFile | None
    report: StartReport
    finding: str
    """What went wrong early and is told once the broker is ready."""
    is_advertised_by_name: bool
    """Whether `advertised.listeners` is set."""


def _run_loop(given: LoadedConfig, life: ProcessContext) -> int:
    try:
        new_loop = choose_loop(given.config)
    except ConfigError as error:
        life.report.failed(f"sordini: {error}\n")
        return EXIT_CONFIG
    descriptors = allow_open_files(given.config, life.log)
    # What was imported lives for ever: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_run(given, life, descriptors))


async def _run(given: LoadedConfig, life: ProcessContext, descriptors: Descriptors) -> int:
    config, log, clock, disk = given.config, life.log, SystemClock(), life.disk
    loop = asyncio.get_running_loop()

    async def open_store() -> CoordinationStore:
        return await _open_store(config, disk, clock, log)

    ports = Ports(
        clock=clock,
        randomness=random.SystemRandom(),
        disk=disk,
        network=SystemNetwork(use_sendfile=config.sendfile_enable),
        page_cache=SystemPageCache(clock, disk.offload),
        open_store=open_store,
        worker=CleaningChildren(),
        record_worker=RecordWorkerProcesses(),
        descriptors=descriptors,
    )
    server = Server(config, given.explicit, ports, log)
    stop, manager = asyncio.Event(), ServiceManager(os.environ)
    reactions = SignalActions(
        stop=lambda: _stop(stop, manager),
        reopen=lambda: _reopen(life),
        before_forced_exit=lambda reason: _last_words(server, reason),
    )
    SignalThread(loop, reactions, clock, config.shutdown_deadline_ms).start()
    try:
        await server.run(stop, lambda: _ready(server, manager, life, clock))
    except StartRefused as error:
        if life.log_file is not None:
            log.error("the broker failed", reason=str(error))  # noqa: TRY400 - foreseen: its text says it all.
        life.report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    if life.log_file is not None:
        log.info("stopped")
    return EXIT_CLEAN


def _ready(server: Server, manager: ServiceManager, life: ProcessContext, clock: SystemClock) -> None:
    """Tell everybody who waits for it."""
    identity = server.identity
    assert identity is not None
    seconds = (clock.monotonic_ms() - life.launch.started_ms) / 1000
    listeners = ", ".join(str(endpoint) for endpoint in server.bound)
    advertised = _advertised(server, life)
    line = f"broker {identity.broker_id} of cluster {identity.cluster_id} listens on {listeners}{advertised}"
    life.report.ready(f"sordini is ready: {line} ({seconds:.2f} s)\n")
    manager.notify(READY=1, STATUS=line)
    if manager.watchdog_s is not None:
        _beat(manager, manager.watchdog_s / 2)
    if life.log_file is not None:
        life.log.info(
            "ready",
            broker=identity.broker_id,
            cluster=identity.cluster_id,
            listeners=listeners,
            advertised=", ".join(str(endpoint) for endpoint in server.advertised),
            seconds=round(seconds, 2),
            process=os.getpid(),
        )
    if life.finding:
        life.log.warning("no pid file in the log directory", reason=life.finding)


def _advertised(server: Server, life: ProcessContext) -> str:
    """Where clients are sent, if that is not where the broker listens, and what to set if it is only a guess.

    A bootstrap address that works and an advertised one that does not is what keeps clients of a container away.
    """
    if set(server.advertised) <= set(server.bound):
        return ""
    told = f" and advertises {', '.join(str(endpoint) for endpoint in server.advertised)}"
    if life.is_advertised_by_name:
        return told
    return f"{told} (clients elsewhere need advertised.listeners, or KAFKA_ADVERTISED_LISTENERS in the environment)"


def _beat(manager: ServiceManager, interval_s: float) -> None:
    """Tell the service manager twice in its interval that the loop still turns."""
    manager.notify(WATCHDOG=1)
    asyncio.get_running_loop().call_later(interval_s, _beat, manager, interval_s)


def _stop(stop: asyncio.Event, manager: ServiceManager) -> None:
    manager.notify(STOPPING=1, STATUS="stopping")
    stop.set()


def _reopen(life: ProcessContext) -> None:
    """After logrotate has moved the log file away; without a log file there is nothing to do."""
    if life.log_file is None:
        return
    try:
        life.log_file.reopen()
    except OSError as error:
        life.log.error("log file not reopened", file=life.log_file.path, reason=str(error))  # noqa: TRY400 - as above.
        return
    life.log.info("log file reopened", file=life.log_file.path)


def _last_words(server: Server, reason: str) -> None:
    """The process ends right after it."""
    write_before_exit(
        f"sordini: stop forced after {reason}, not finished: {server.doing}; the next start recovers it\n"
    )


async def _open_store(config: Config, disk: SystemDisk, clock: SystemClock, log: Logger) -> CoordinationStore:
    """ZooKeeper where one is configured, and otherwise the embedded store in the first log directory."""
    if config.zookeeper_connect:
        from sordini.broker.coordination.zookeeper import ZooKeeperStore  # Late: kazoo takes its time to import.

        KazooLines(log, asyncio.get_running_loop().call_soon_threadsafe).install()
        return ZooKeeperStore(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms,
        )
    directory = config.log_directories[0]
    disk.make_directory(directory)
    file = f"{directory}/{STORE_FILE}"
    if moved_to(disk, file) is None:
        refuse_lost_file(disk, file, config.log_directories)
    store = await open_embedded(file, clock)
    try:
        refuse_moved(disk, file)
    except StoreUnusable:
        await store.close()
        raise
    return store
