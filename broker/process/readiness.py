"""What a broker reports when it is ready: to its starter, to the service manager, and in its log."""

from __future__ import annotations

import asyncio
import os

from sordini.broker.configuration.listeners import addresses_of
from sordini.broker.network.sd_notify import ServiceManager
from sordini.broker.process.interpreter import INTERPRETER_CHECK_S, report_interpreter
from sordini.broker.process.process_context import ProcessContext
from sordini.broker.wiring.server import Server
from sordini.replication.ports import Clock


def report_ready(server: Server, manager: ServiceManager, process: ProcessContext, clock: Clock) -> None:
    """Notify the starter, the service manager and the log."""
    identity = server.identity
    assert identity is not None
    seconds = (clock.monotonic_ms() - process.launch.started_ms) / 1000
    addresses = f"{addresses_of(server.bound)}{_advertised(server, process)}"
    line = f"broker {identity.broker_id} of cluster {identity.cluster_id} listens on {addresses}"
    process.report.ready(f"sordini is ready: {line} ({seconds:.2f} s)\n")
    manager.notify(READY=1, STATUS=line)
    if manager.watchdog_s is not None:
        _notify_watchdog(manager, manager.watchdog_s / 2)
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


def _notify_watchdog(manager: ServiceManager, interval_s: float) -> None:
    """Send WATCHDOG=1 to the service manager twice in its interval, as long as the loop runs."""
    manager.notify(WATCHDOG=1)
    asyncio.get_running_loop().call_later(interval_s, _notify_watchdog, manager, interval_s)
