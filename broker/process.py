"""One broker as a process: configuration from files, the real ports, signals, one line when it is ready.

Exit codes: 0 after a clean stop, 1 when the broker failed, 2 for a configuration that cannot be used.
"""

from __future__ import annotations

import asyncio
import gc
import random
import resource
import signal
import sys
from collections.abc import Sequence

from sordini.broker.clock import SystemClock
from sordini.broker.config import Config, build_config
from sordini.broker.coordination.embedded import open_embedded
from sordini.broker.logging import Logger
from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.server import Ports, Server, StartRefused
from sordini.broker.settings import ConfigError, read_properties
from sordini.replication.ports import CoordinationStore
from sordini.storage.disk import SystemDisk

STORE_FILE = "coordination.sqlite"
"""In the first log directory, where Apache Kafka passes over files whose names it does not know."""


def run_broker(properties: str | None, overrides: Sequence[str], *, log_level: str, started_ms: int) -> int:
    """Run a broker until it is told to stop; the exit code. Raises ConfigError for a wrong configuration."""
    entries = read_entries(properties, overrides)
    config, unknown = build_config(entries)
    log = Logger(log_level)
    for key in unknown:
        log.warning("unknown configuration key", key=key)
    new_loop = choose_loop(config)
    _allow_open_files()
    # What was imported lives for ever: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_run(config, frozenset(entries) - frozenset(unknown), log, started_ms))


def read_entries(properties: str | None, overrides: Sequence[str]) -> dict[str, str]:
    """Key and text of every entry given, overrides over the file's. Raises ConfigError."""
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
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--override {override!r} is not valid: allowed is KEY=VALUE")
        entries[key.strip()] = text
    return entries


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


def _allow_open_files() -> None:
    """Raise the soft bound on descriptors to the hard one: logs and connections need more than the usual 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(config: Config, explicit: frozenset[str], log: Logger, started_ms: int) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    disk, clock = SystemDisk(), SystemClock()

    async def open_store() -> CoordinationStore:
        return await _open_store(config, disk, clock)

    ports = Ports(
        clock=clock,
        randomness=random.SystemRandom(),
        disk=disk,
        network=SystemNetwork(use_sendfile=config.sendfile_enable),
        page_cache=SystemPageCache(clock, disk.offload),
        open_store=open_store,
    )
    server = Server(config, explicit, ports, log)

    def ready() -> None:
        seconds = (clock.monotonic_ms() - started_ms) / 1000
        identity = server.identity
        assert identity is not None
        listeners = ", ".join(str(endpoint) for endpoint in server.bound)
        sys.stdout.write(
            f"sordini is ready: broker {identity.broker_id} of cluster {identity.cluster_id} "
            f"listens on {listeners} ({seconds:.2f} s)\n"
        )
        sys.stdout.flush()

    try:
        await server.run(stop, ready)
    except StartRefused as error:
        sys.stderr.write(f"sordini: {error}\n")
        return 1
    return 0


async def _open_store(config: Config, disk: SystemDisk, clock: SystemClock) -> CoordinationStore:
    """ZooKeeper where one is configured, and otherwise the embedded store in the first log directory."""
    if config.zookeeper_connect:
        from sordini.broker.coordination.zookeeper import ZooKeeperStore  # Late: kazoo takes its time to import.

        return ZooKeeperStore(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms,
        )
    directory = config.log_directories[0]
    disk.make_directory(directory)
    return await open_embedded(f"{directory}/{STORE_FILE}", clock)
