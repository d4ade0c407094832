"""`sordini dev --control`: the kit's brokers in a directory, with their control, until SIGTERM or Ctrl-C.

    main thread      loop of the control; starts and stops the brokers from threads
    sordini-brokers  the loop of all brokers (brokers/site.py)
    sordini-signals  waits for signals (broker/process/signals.py)

The directory is that of `sordini dev`: either finds what the other left. Brokers of this process can be killed,
paused and cut off one by one, which those of `sordini dev` alone cannot.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.descriptors import allow_open_files
from sordini.broker.process.broker_process import EXIT_CLEAN, EXIT_FAILED
from sordini.broker.process.dev_cluster import OWN_KEYS, DevClusterPlan, claim_directory, shared_entries
from sordini.broker.process.log_writer import write_before_exit
from sordini.broker.process.logging import ProcessLogger
from sordini.broker.process.process_context import StandardReport
from sordini.broker.process.signals import SignalActions, SignalThread, block_signals
from sordini.broker.wiring.startup import StartRefused
from sordini.replication.ports import StoreUnusable
from sordini.storage.disk import SystemDisk
from sordini.system.clock import SystemClock
from sordini.testing.brokers.node import SiteOptions
from sordini.testing.brokers.site import Site, SiteFailed
from sordini.testing.cluster import Address
from sordini.testing.control.controlled import Control
from sordini.testing.control.server import ControlServer
from sordini.testing.kafka import Kafka
from sordini.testing.owned_keys import OWNED_KEYS

OF_THE_SITE: Final = tuple(key for key in (*OWNED_KEYS, "sordini.audit.log.file") if key not in OWN_KEYS)
"""Keys that overrides may not contain: brokers with a control have two listeners without protection, and no audit."""
FAILURES: Final = (StartRefused, StoreUnusable, SiteFailed)


def run_controlled(
    plan: DevClusterPlan, overrides: Sequence[str], control: Address, log: ProcessLogger, started_ms: int
) -> int:
    """Run until SIGTERM or Ctrl-C; returns the exit code. Raises ConfigError for a wrong configuration."""
    entries = _entries(overrides)
    config, unknown = build_config(entries)
    if unknown:
        raise ConfigError(f"{unknown[0]} is not a key of a broker: allowed are those of docs/configuration.md")
    report = StandardReport()
    block_signals()
    own_pid_file = claim_directory(SystemDisk(), plan.directory, report)
    if own_pid_file is None:
        return EXIT_FAILED
    descriptors = allow_open_files(config, log, plan.brokers)
    options = SiteOptions(plan.directory, plan.host, plan.port, descriptors, start_s=None)
    running = _Running(Site(plan.brokers, entries, 0, options, log), log, config.shutdown_deadline_ms)
    try:
        asyncio.run(running.run(control, started_ms))
    except FAILURES as error:
        report.failed(f"sordini: {error}\n")
        return EXIT_FAILED
    finally:
        own_pid_file.remove()
    return EXIT_CLEAN


def _entries(overrides: Sequence[str]) -> dict[str, str]:
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in OF_THE_SITE:
            raise ConfigError(f"--override {override} is not valid with --control: its brokers set it themselves")
    entries = shared_entries(overrides, os.environ)
    return {key: text for key, text in entries.items() if key not in OF_THE_SITE}


class _Running:
    """The brokers and their control; `run` starts them, serves, and stops them."""

    def __init__(self, site: Site, log: ProcessLogger, deadline_ms: int) -> None:
        self._site = site
        self._log = log
        self._deadline_ms = deadline_ms
        self._clock = SystemClock()
        self._stop = asyncio.Event()

    async def run(self, control: Address, started_ms: int) -> None:
        """Raises one of FAILURES, ConfigError, and the exception of a bug in one of the brokers."""
        reactions = SignalActions(self._stop.set, lambda: None, self._before_forced_exit)
        SignalThread(asyncio.get_running_loop(), reactions, self._clock, self._deadline_ms).start()
        kafka = Kafka(self._site)
        server = ControlServer(Control(kafka, self._site), self._log)
        starting = asyncio.ensure_future(asyncio.to_thread(kafka.start))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                starting.result()
                self._report_ready(kafka, await _listening(server, control), started_ms)
                await stopping
                await asyncio.to_thread(self._site.stop_all)
        finally:
            stopping.cancel()
            await server.close()
            await asyncio.to_thread(kafka.close)
            await asyncio.gather(starting, stopping, return_exceptions=True)

    def _report_ready(self, kafka: Kafka, control: str, started_ms: int) -> None:
        count = len(kafka.brokers)
        brokers = "1 broker" if count == 1 else f"{count} brokers"
        seconds = (self._clock.monotonic_ms() - started_ms) / 1000
        line = f"{brokers} of cluster {self._site.cluster_id} at {kafka.bootstrap_servers}, control at {control}"
        StandardReport().ready(f"sordini is ready: {line} ({seconds:.2f} s)\n")

    def _before_forced_exit(self, reason: str) -> None:
        activities = ", ".join(f"broker {number} {doing}" for number, doing in self._site.activities().items())
        write_before_exit(f"sordini: stop forced after {reason}, not finished: {activities}\n")


async def _listening(server: ControlServer, control: Address) -> str:
    """Where the control listens from now on. Raises StartRefused."""
    try:
        host, port = await server.start(*control)
    except OSError as error:
        raise StartRefused(error.strerror) from error
    return f"{host}:{port}"
