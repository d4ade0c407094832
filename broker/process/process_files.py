"""The files of a broker's process: its log, its audit log and its pid files; how they are opened and opened again."""

from __future__ import annotations

import contextlib
import os

from sordini.broker.configuration.config import Config
from sordini.broker.process import pid_file
from sordini.broker.process.audit_file import AuditFile, open_audit_file
from sordini.broker.process.daemon import redirect_output, take_over_standard_files
from sordini.broker.process.logging import LogFile, ProcessLogger
from sordini.broker.process.pid_file import PidFile, PidFileRefused
from sordini.broker.process.process_context import Launch, ProcessContext
from sordini.storage.disk import SystemDisk


def open_log_file(disk: SystemDisk, config: Config, launch: Launch) -> LogFile | None:
    if launch.log_file is None:
        return None
    with contextlib.suppress(OSError):  # The server reports what is wrong with the directory.
        disk.make_directory(config.log_directories[0])
    log_file = LogFile(disk, launch.log_file)
    if launch.is_daemon:
        take_over_standard_files(disk, log_file.fileno())
        log_file.on_reopened = lambda: redirect_output(log_file.fileno())
    return log_file


def open_configured_audit_file(disk: SystemDisk, config: Config) -> AuditFile | None:
    with contextlib.suppress(OSError):  # It may be in there; the server reports what is wrong with the directory.
        disk.make_directory(config.log_directories[0])
    return open_audit_file(disk, config)


def claim_pid_files(disk: SystemDisk, config: Config, launch: Launch) -> tuple[list[PidFile], str]:
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


def reopen_files(process: ProcessContext) -> None:
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
