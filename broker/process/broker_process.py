"""One broker as a process: configuration from files, the real ports, signals, one line when it is ready.

Exit codes: 0 after a clean stop, 1 when the broker failed, 2 for a configuration that cannot be used, 3 for a stop
that was forced (by a second signal, or by the deadline).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sordini.broker.clock import SystemClock
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.kraft_keys import taken_over
from sordini.broker.configuration.listeners import addresses_of
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.sd_notify import ServiceManager
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.process import garbage, pid_file
from sordini.broker.process.audit_file import AuditFile, open_audit_file
from sordini.broker.process.child_processes import CleaningChildren
from sordini.broker.process.config_loading import (
    LoadedConfig,
    choose_loop,
    load_config,
    log_configuration,
    read_entries,
    resolved,
    with_absolute_paths,
)
from sordini.broker.process.daemon import (
    StartReport,
    detach,
    open_missing_standard_files,
    redirect_output,
    take_over_standard_files,
)
from sordini.broker.process.descriptors import Descriptors, allow_open_files
from sordini.broker.process.interpreter import INTERPRETER_CHECK_S, report_interpreter
from sordini.broker.process.library_lines import take_over_libraries
from sordini.broker.process.log_directories import DirectoryRefused, check_log_directories
from sordini.broker.process.log_writer import file_output, standard_error, standard_output, write_before_exit
from sordini.broker.process.logging import LogFile, ProcessLogger, make_logger
from sordini.broker.process.pid_file import PidFile, PidFileRefused
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals
from sordini.broker.process.store_opening import open_store
from sordini.broker.record_jobs.children import RecordWorkerProcesses
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import Ports, StartRefused
from sordini.protocol.printable import shown_lines
from sordini.replication.ports import CoordinationStore
from sordini.storage.disk import SystemDisk

LOG_FILE = "sordini.log"
"""In the first log directory, for a daemon that was given no other."""

EXIT_CLEAN, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2


class Launch(NamedTuple):
    """Options of the process; the broker's are in the configuration."""

    started_ms: int
    """When the process started, on the monotonic clock."""
    log_level: str = "info"
    log_form: str = "text"
    log_file: str | None = None
    pid_file: str | None = None
    is_daemon: bool = False
    is_secure: bool = False
    """Whether the broker secures itself (`--secure`)."""
    secure_directory: str | None = None


def run_broker(properties: str | None, overrides: Sequence[str], launch: Launch) -> int:
    """Run a broker until it is stopped, or start a daemon that does; returns the exit code.

    Raises ConfigError for a wrong configuration.
    """
    entries, kraft = taken_over(resolved(read_entries(properties, overrides, os.environ), os.environ))
    secure = None
    if launch.is_secure:
        from sordini.broker.process.secure_launch import secure_launch  # Late: only here are certificates made.

        secure = secure_launch(SystemDisk(), SystemClock(), entries, launch.secure_directory)
        entries = secure.entries
    given = load_config(entries)._replace(kraft=kraft)
    try:
        check_log_directories(SystemDisk(), given.config)
    except DirectoryRefused as error:
        sys.stderr.write(shown_lines(f"sordini: {error}\n"))
        return EXIT_FAILED
    if secure is not None:
        given = given._replace(first_user=secure.first_user, notes=secure.notes)
        sys.stdout.write(secure.words)
        sys.stdout.flush()
    if not launch.is_daemon:
        return _run_process(given, launch, StandardReport())
    given, launch = _absolute(given, launch)
    outcome = detach(lambda report: _run_process(given, launch, report))
    if isinstance(outcome, int):
        return outcome
    # The daemon has them in its log, which is read when it is too late.
    log_configuration(given, make_logger("error" if launch.log_level == "error" else "warning", standard_error()))
    if outcome.is_ready:
        sys.stdout.write(outcome.line)
        return EXIT_CLEAN
    silent = f"sordini: the broker ended before it was ready: see {launch.log_file}\n"
    sys.stderr.write(shown_lines(outcome.line or silent))
    return EXIT_FAILED


class StandardReport:
    """Reports to the terminal, or to the pipe in its place, which may have no reader."""

    def ready(self, line: str) -> None:
        standard_output().write(line)

    def failed(self, line: str) -> None:
        sys.stderr.write(shown_lines(line))


def _absolute(given: LoadedConfig, launch: Launch) -> tuple[LoadedConfig, Launch]:
    """The same with absolute paths: a daemon changes its working directory."""
    given = with_absolute_paths(given)
    log_file = os.path.abspath(launch.log_file or f"{given.config.log_directories[0]}/{LOG_FILE}")  # noqa: PTH100
    own_pid_file = launch.pid_file and os.path.abspath(launch.pid_file)  # noqa: PTH100
    return given, launch._replace(log_file=log_file, pid_file=own_pid_file)


def _run_process(given: LoadedConfig, launch: Launch, report: StartReport) -> int:
    """Run the process that is the broker; returns the exit code."""
    disk = SystemDisk()
    open_missing_standard_files(disk)
    errors = standard_error()
    try:
        log_file = _open_log_file(disk, given.config, launch)
    except OSError as error:
        report.failed(f"sordini: {launch.log_file}: {error.strerror}\n")
        return EXIT_FAILED
    try:
        audit = _open_audit_file(disk, given.config)
    except OSError as error:
        report.failed(f"sordini: {given.config.audit_log_file} (sordini.audit.log.file): {error.strerror}\n")
        return EXIT_FAILED
    log = make_logger(launch.log_level, file_output(log_file.fileno) if log_file else errors, launch.log_form)
    take_over_libraries(log)
    log_configuration(given, log)
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
        return _run_loop(given, ProcessContext(launch, disk, log, log_file, audit, report, found, is_advertised))
    finally:
        for file in pid_files:
            file.remove()


def _open_log_file(disk: SystemDisk, config: Config, launch: Launch) -> LogFile | None:
    if launch.log_file is None:
        return None
    with contextlib.suppress(OSError):  # The server reports what is wrong with the directory.
        disk.make_directory(config.log_directories[0])
    log_file = LogFile(disk, launch.log_file)
    if launch.is_daemon:
        take_over_standard_files(disk, log_file.fileno())
        log_file.on_reopened = lambda: redirect_output(log_file.fileno())
    return log_file


def _open_audit_file(disk: SystemDisk, config: Config) -> AuditFile | None:
    with contextlib.suppress(OSError):  # It may be in there; the server reports what is wrong with the directory.
        disk.make_directory(config.log_directories[0])
    return open_audit_file(disk, config)


def _claim_pid_files(disk: SystemDisk, config: Config, launch: Launch) -> tuple[list[PidFile], str]:
    """The requested pid file and the one in the first log directory; and why the latter could not be written.

    Raises PidFileRefused, and OSError for the requested one.
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
            return claimed, str(error)  # The log manager decides whether a broken directory is fatal.
    except PidFileRefused:
        for file in claimed:
            file.remove()
        raise
    return claimed, ""


class ProcessContext(NamedTuple):
    """What belongs to the process as a whole."""

    launch: Launch
    disk: SystemDisk
    log: ProcessLogger
    log_file: LogFile | None
    audit: AuditFile | None
    report: StartReport
    pid_file_error: str
    """Why there is no pid file in the log directory, logged once the broker is ready; otherwise empty."""
    is_advertised_by_name: bool
    """Whether `advertised.listeners` is set."""


def _run_loop(given: LoadedConfig, process: ProcessContext) -> int:
    try:
        new_loop = choose_loop(given.config)
    except ConfigError as error:
        process.report.failed(f"sordini: {error}\n")
        return EXIT_CONFIG
    descriptors = allow_open_files(given.config, process.log)
    thresholds = garbage.begin_start()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_run(given, process, descriptors, lambda: garbage.end_start(thresholds)))


async def _run(
    given: LoadedConfig, process: ProcessContext, descriptors: Descriptors, on_ready: Callable[[], None]
) -> int:
    config, log, clock, disk = given.config, process.log, SystemClock(), process.disk
    loop = asyncio.get_running_loop()

    async def open_configured() -> CoordinationStore:
        return await open_store(config, disk, clock, log)

    ports = Ports(
        clock=clock,
        randomness=random.SystemRandom(),
        disk=disk,
        network=SystemNetwork(use_sendfile=config.sendfile_enable),
        page_cache=SystemPageCache(clock, disk.offload),
        open_store=open_configured,
        worker=CleaningChildren(),
        record_worker=RecordWorkerProcesses(),
        descriptors=descriptors,
        audit=process.audit,
    )
    server = Server(config, given.explicit, ports, log, given.first_user)
    stop, manager = asyncio.Event(), ServiceManager(os.environ)
    reactions = SignalActions(
        stop=lambda: _stop(stop, manager),
        reopen=lambda: _reopen(process),
        before_forced_exit=lambda reason: _before_forced_exit(server, reason),
    )
    SignalThread(loop, reactions, clock, config.shutdown_deadline_ms).start()

    def ready() -> None:
        _ready(server, manager, process, clock)
        on_ready()

    try:
        await server.run(stop, ready)
    except StartRefused as error:
        if process.log_file is not None:
            log.error("broker failed", reason=str(error))  # noqa: TRY400 - foreseen: its text says it all.
        process.report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    if process.log_file is not None:
        log.info("broker stopped")
    return EXIT_CLEAN


def _ready(server: Server, manager: ServiceManager, process: ProcessContext, clock: SystemClock) -> None:
    """Notify the starter, the service manager and the log."""
    identity = server.identity
    assert identity is not None
    seconds = (clock.monotonic_ms() - process.launch.started_ms) / 1000
    addresses = f"{addresses_of(server.bound)}{_advertised(server, process)}"
    line = f"broker {identity.broker_id} of cluster {identity.cluster_id} listens on {addresses}"
    process.report.ready(f"sordini is ready: {line} ({seconds:.2f} s)\n")
    manager.notify(READY=1, STATUS=line)
    if manager.watchdog_s is not None:
        _beat(manager, manager.watchdog_s / 2)
    if process.log_file is not None:
        process.log.info(
            "broker ready",
            broker=identity.broker_id,
            cluster=identity.cluster_id,
            listeners=", ".join(str(endpoint) for endpoint in server.bound),
            advertised=", ".join(str(endpoint) for endpoint in server.advertised),
            seconds=round(seconds, 2),
            process=os.getpid(),
        )
    if process.pid_file_error:
        process.log.warning("no pid file in the log directory", reason=process.pid_file_error)
    asyncio.get_running_loop().call_later(INTERPRETER_CHECK_S, report_interpreter, process.log)


def _advertised(server: Server, process: ProcessContext) -> str:
    """The advertised addresses if they differ from the bound ones, and what to set if they are defaults.

    A reachable bootstrap address with an unreachable advertised one is the usual fault with containers.
    """
    if set(server.advertised) <= set(server.bound):
        return ""
    text = f" and advertises {addresses_of(server.advertised)}"
    if process.is_advertised_by_name:
        return text
    return f"{text} (clients elsewhere need advertised.listeners, or KAFKA_ADVERTISED_LISTENERS in the environment)"


def _beat(manager: ServiceManager, interval_s: float) -> None:
    """Send WATCHDOG=1 to the service manager twice in its interval, as long as the loop runs."""
    manager.notify(WATCHDOG=1)
    asyncio.get_running_loop().call_later(interval_s, _beat, manager, interval_s)


def _stop(stop: asyncio.Event, manager: ServiceManager) -> None:
    manager.notify(STOPPING=1, STATUS="stopping")
    stop.set()


def _reopen(process: ProcessContext) -> None:
    """Reopen the files of the log and the audit log after logrotate has renamed them, where there are such."""
    if process.log_file is not None:
        _reopen_file(process.log, process.log_file, "log file reopened", "log file not reopened")
    if process.audit is not None:
        _reopen_file(process.log, process.audit, "audit log reopened", "audit log not reopened")


def _reopen_file(log: ProcessLogger, file: LogFile | AuditFile, done: str, failed: str) -> None:
    try:
        file.reopen()
    except OSError as error:
        log.error(failed, file=file.path, reason=str(error))  # noqa: TRY400 - as above.
        return
    log.info(done, file=file.path)


def _before_forced_exit(server: Server, reason: str) -> None:
    """Write what was not finished; the process ends right after it."""
    write_before_exit(
        f"sordini: stop forced after {reason}, not finished: {server.activity}; the next start recovers it\n"
    )
