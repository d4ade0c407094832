"""Limits, memory, the interpreter and the clock of the machine, beside what a configuration needs of them."""

from __future__ import annotations

import importlib.util
import platform
import sys
import sysconfig

from sordini.broker.configuration.config import Config
from sordini.broker.network.descriptors import CONNECTIONS_EXPECTED, OTHER_FILES
from sordini.broker.process.interpreter import is_profile_optimised
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.doctor.sizes import binary_size
from sordini.system import machine

PROCESS_BYTES = 256 << 20
"""A broker, its children, and some page cache."""


def check_machine(config: Config, report: Report) -> None:
    """All of it."""
    _files(config, report)
    _memory(config, report)
    _interpreter(config, report)
    _clock(report)


def _files(config: Config, report: Report) -> None:
    limit = machine.descriptor_limit()
    needed = config.open_segments_max + min(config.max_connections, CONNECTIONS_EXPECTED) + OTHER_FILES
    if limit is None or limit >= needed:
        report.ok("open files", f"{'any number' if limit is None else limit} allowed, {needed} needed")
        return
    facts = {"limit": str(limit), "needed": str(needed)}
    report.found("open files", f"{limit} allowed, {needed} needed", Finding(Fault.FILE_LIMIT, "ulimit -Hn", facts))


def _memory(config: Config, report: Report) -> None:
    available = machine.available_memory()
    if available is None:
        report.skipped("memory", "what is available is not known on this system")
        return
    requests = max(config.queued_max_request_bytes, 0)
    needed = PROCESS_BYTES + requests
    text = f"{binary_size(available)} available, {binary_size(needed)} needed"
    if available >= needed:
        report.ok("memory", text)
        return
    facts = {
        "available": binary_size(available),
        "needed": binary_size(needed),
        "requests": binary_size(requests),
        "lower": str(max((available - PROCESS_BYTES) // 2, 16 << 20)),
    }
    report.found("memory", text, Finding(Fault.MEMORY_LOW, "memory", facts))


def _interpreter(config: Config, report: Report) -> None:
    step, version = "interpreter", platform.python_version()
    has_uvloop = importlib.util.find_spec("uvloop") is not None
    text = f"Python {version}, {'with' if has_uvloop else 'without'} uvloop"
    if not has_uvloop and config.event_loop != "asyncio":
        facts = {"python": sys.executable}
        report.found(step, text, Finding(Fault.NO_UVLOOP, sys.executable, facts))
    elif is_profile_optimised(sysconfig.get_config_vars()) is False:
        report.found(step, f"{text}, built without optimisation", Finding(Fault.INTERPRETER_SLOW, sys.executable))
    else:
        report.ok(step, text)


def _clock(report: Report) -> None:
    is_kept = machine.is_clock_kept()
    if is_kept is None:
        report.skipped("clock", "whether it is synchronised is not known on this system")
    elif is_kept:
        report.ok("clock", "synchronised by a time service")
    else:
        report.found("clock", "no time service keeps it", Finding(Fault.CLOCK_UNSYNCHRONISED, "clock"))
