"""One broker as a process: configuration from files, the real ports, signals, one line when it is ready.

Exit codes: 0 after a clean stop, 1 when the broker failed, 2 for a configuration that cannot be used, 3 for a stop
that was forced (by a second signal, or by the deadline).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Sequence

from sordini.broker.configuration.keys.kraft_keys import taken_over
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.metrics.telemetry.reader_process import PushReaderProcess
from sordini.broker.network.descriptors import Descriptors, allow_open_files
from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.sd_notify import ServiceManager
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.process import garbage
from sordini.broker.process.cleaning_children import CleaningChildren
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
)
from sordini.broker.process.library_lines import take_over_libraries
from sordini.broker.process.log_directories import DirectoryRefused, check_log_directories
from sordini.broker.process.log_writer import file_output, standard_error, write_before_exit
from sordini.broker.process.logging import make_logger
from sordini.broker.process.pid_file import PidFileRefused
from sordini.broker.process.process_context import Launch, ProcessContext, StandardReport
from sordini.broker.process.process_files import (
    claim_pid_files,
    open_configured_audit_file,
    open_log_file,
    reopen_files,
)
from sordini.broker.process.readiness import report_ready
from sordini.broker.process.serving_children import ServingChildren
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals
from sordini.broker.process.store_opening import open_store
from sordini.broker.records.jobs.children import RecordWorkerProcesses
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.broker.wiring.tracing import span_exporter
from sordini.protocol.printable import shown_lines
from sordini.replication.ports import CoordinationStore
from sordini.storage.disk import SystemDisk
from sordini.system.clock import SystemClock

LOG_FILE = "sordini.log"
"""In the first log directory, for a daemon that was given no other."""

EXIT_CLEAN, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2


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
        launch = launch._replace(children=tuple(secure.child(plan) for plan in launch.children))
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
        log_file = open_log_file(disk, given.config, launch)
    except OSError as error:
        report.failed(f"sordini: {launch.log_file}: {error.strerror}\n")
        return EXIT_FAILED
    try:
        audit = open_configured_audit_file(disk, given.config)
    except OSError as error:
        report.failed(f"sordini: {given.config.audit_log_file} (sordini.audit.log.file): {error.strerror}\n")
        return EXIT_FAILED
    log = make_logger(launch.log_level, file_output(log_file.fileno) if log_file else errors, launch.log_form)
    take_over_libraries(log)
    log_configuration(given, log)
    block_signals()
    try:
        pid_files, found = claim_pid_files(disk, given.config, launch)
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

    ports = ServerPorts(
        clock=clock,
        randomness=random.SystemRandom(),
        disk=disk,
        network=SystemNetwork(use_sendfile=config.sendfile_enable),
        page_cache=SystemPageCache(clock, disk.offload),
        open_store=open_configured,
        worker=CleaningChildren(),
        record_worker=RecordWorkerProcesses(),
        telemetry_reader=PushReaderProcess() if config.client_telemetry_enable else None,
        span_exporter=span_exporter(config, disk),
        descriptors=descriptors,
        audit=process.audit,
    )
    server = Server(config, given.explicit, ports, log, given.first_user)
    stop, manager = asyncio.Event(), ServiceManager(os.environ)
    children = ServingChildren(process.launch.children, log)
    reactions = SignalActions(
        stop=lambda: _stop(stop, manager, children),
        reopen=lambda: reopen_files(process),
        before_forced_exit=lambda reason: _before_forced_exit(server, reason),
    )
    SignalThread(loop, reactions, clock, config.shutdown_deadline_ms).start()

    def ready() -> None:
        report_ready(server, manager, process, clock)
        children.start_beside(server.advertised)
        on_ready()

    try:
        await server.run(stop, ready)
    except StartRefused as error:
        if process.log_file is not None:
            log.error("broker failed", reason=str(error))  # noqa: TRY400 - foreseen: its text says it all.
        process.report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    finally:
        children.stop()
    if process.log_file is not None:
        log.info("broker stopped")
    return EXIT_CLEAN


def _stop(stop: asyncio.Event, manager: ServiceManager, children: ServingChildren) -> None:
    children.close_input()
    manager.notify(STOPPING=1, STATUS="stopping")
    stop.set()


def _before_forced_exit(server: Server, reason: str) -> None:
    """Write what was not finished; the process ends right after it."""
    write_before_exit(
        f"sordini: stop forced after {reason}, not finished: {server.activity}; the next start recovers it\n"
    )
