"""What belongs to a broker's process as a whole: its options, its files, and whom it reports to."""

from __future__ import annotations

import sys

from sordini.broker.process.audit_file import AuditFile
from sordini.broker.process.daemon import StartReport
from sordini.broker.process.log_writer import standard_output
from sordini.broker.process.logging import LogFile, ProcessLogger
from sordini.broker.process.serving_children import ChildPlan
from sordini.protocol.printable import shown_lines
from sordini.storage.disk import SystemDisk
from sordini.system.named_tuple import NamedTuple


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
    children: tuple[ChildPlan, ...] = ()
    """The page in the browser that is started with the broker."""


class StandardReport:
    """Reports to the terminal, or to the pipe in its place, which may have no reader."""

    def ready(self, line: str) -> None:
        standard_output().write(line)

    def failed(self, line: str) -> None:
        sys.stderr.write(shown_lines(line))


class ProcessContext(NamedTuple):
    """Made before the loop runs."""

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
