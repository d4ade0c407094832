"""A cluster on this machine, as plain processes: ZooKeeper and three brokers, until Ctrl-C.

    python3 scripts/cluster.py                                 what docker-compose.yml starts, without containers
    python3 scripts/cluster.py --zookeepers 3                  with an ensemble
    python3 scripts/cluster.py --zookeeper zk-1:2181/kafka     with an existing ZooKeeper
    python3 scripts/cluster.py --directory data/try --port 19092 --zookeeper-port 12181    beside another one

Brokers are started with config/cluster/broker-N.properties, and get addresses and directories from the environment,
as containers do. ZooKeeper's jars are fetched by `python3 scripts/outside.py cluster`. All data is in the directory,
and each process writes its output to its .log there. A process that ends does not end the others: this script prints
the command that starts it again. At the end it stops the brokers one after another, and ZooKeeper last.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = Path("config") / "cluster"
ZOOKEEPER_JARS = ROOT / ".cache" / "kafka" / "3.9.1" / "lib"
"""Apache Kafka's release contains ZooKeeper."""
QUIET = Path("tests") / "outside" / "log4j.properties"
BROKERS = (1, 2, 3)
CHROOT = "/sordini"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0
POLL_SECONDS = 0.05


class Options(NamedTuple):
    """Directory, ports and ZooKeeper of the cluster."""

    directory: Path
    port: int
    """The first broker's client port; the others have the next ones. The inter-broker port is 10,000 above."""
    zookeeper_port: int
    """The first ZooKeeper's; the others have the next ones."""
    zookeepers: int
    zookeeper: str
    """The address of an existing one; empty to start some."""

    @property
    def zookeeper_connect(self) -> str:
        if self.zookeeper:
            return self.zookeeper
        ports = range(self.zookeeper_port, self.zookeeper_port + self.zookeepers)
        return ",".join(f"127.0.0.1:{port}" for port in ports) + CHROOT

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number - 1}" for number in BROKERS)


class Process(NamedTuple):
    """How one process is started."""

    name: str
    command: list[str]
    environment: dict[str, str]
    """In addition to this script's."""


def main() -> int:
    options = options_of(sys.argv[1:])
    # Both signals stop the cluster cleanly; in a background job of a shell SIGINT is ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        start(options, running)
        say(f"three brokers are ready at {options.bootstrap}; Ctrl-C stops them")
        watch(options, running)
    except KeyboardInterrupt:
        say("stopping")
        return 0 if stop(running) else 1
    finally:
        stop(running)
    return 1


def options_of(arguments: list[str]) -> Options:
    """Read the command line; ends the program when it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path("data") / "cluster", help="of all data and logs")
    parser.add_argument("--port", type=int, default=9092, help="the first broker's; the others have the next ones")
    parser.add_argument("--zookeeper-port", type=int, default=2181, help="the first ZooKeeper's")
    parser.add_argument("--zookeepers", type=int, choices=(1, 3), default=1, help="how many to start")
    parser.add_argument("--zookeeper", default="", metavar="HOST:PORT/CHROOT", help="start none; use this one")
    return Options(**vars(parser.parse_args(arguments)))


def zookeeper(options: Options, number: int) -> Process:
    """One ZooKeeper; its settings file is `write_zookeeper_settings`'s."""
    flags = ["-Xmx256m", "-XX:+UseSerialGC", f"-Dlog4j.configuration=file:{QUIET}"]
    program = ["-cp", f"{ZOOKEEPER_JARS}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
    settings = str(options.directory / f"zookeeper-{number}.properties")
    return Process(f"zookeeper-{number}", ["java", *flags, *program, settings], {})


def broker(options: Options, number: int) -> Process:
    """One broker; addresses and directories are in its environment."""
    port = options.port + number - 1
    environment = {
        "KAFKA_ZOOKEEPER_CONNECT": options.zookeeper_connect,
        "KAFKA_LISTENERS": f"CLIENTS://127.0.0.1:{port},BROKERS://127.0.0.1:{port + 10_000}",
        "KAFKA_LOG_DIRS": str(options.directory / f"broker-{number}"),
    }
    command = ["sordini", "serve", str(SETTINGS / f"broker-{number}.properties")]
    return Process(f"broker-{number}", command, environment)


def write_zookeeper_settings(options: Options, number: int) -> None:
    """Write the common settings and those of one ZooKeeper."""
    data = options.directory / f"zookeeper-{number}"
    (ROOT / data).mkdir(parents=True, exist_ok=True)
    port = options.zookeeper_port + number - 1
    own = [f"dataDir={data}", f"clientPort={port}", "clientPortAddress=127.0.0.1"]
    if options.zookeepers > 1:
        (ROOT / data / "myid").write_text(f"{number}\n", encoding="ascii")
        for other in range(1, options.zookeepers + 1):
            first = options.zookeeper_port + other - 1
            own.append(f"server.{other}=127.0.0.1:{first + 707}:{first + 1707}")
    common = (ROOT / SETTINGS / "zookeeper.properties").read_text(encoding="utf-8")
    file = ROOT / options.directory / f"zookeeper-{number}.properties"
    file.write_text("\n".join([common, *own, ""]), encoding="utf-8")


def start(options: Options, running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start everything and wait until it is ready. Ends the program when a process ends first."""
    ensemble = [] if options.zookeeper else list(range(1, options.zookeepers + 1))
    if ensemble and (shutil.which("java") is None or not any(ZOOKEEPER_JARS.glob("zookeeper-3*.jar"))):
        sys.exit("ZooKeeper is missing: `python3 scripts/outside.py cluster` fetches it, --zookeeper names another one")
    (ROOT / options.directory).mkdir(parents=True, exist_ok=True)
    for number in ensemble:
        write_zookeeper_settings(options, number)
        launch(zookeeper(options, number), options, running)
    for number in ensemble:
        wait(f"zookeeper-{number}", running, options, partial(zookeeper_serves, options.zookeeper_port + number - 1))
    begins = {number: launch(broker(options, number), options, running) for number in BROKERS}
    for number, begin in begins.items():
        name = f"broker-{number}"
        wait(name, running, options, partial(says_ready, log_of(options, name), begin))


def launch(process: Process, options: Options, running: dict[str, subprocess.Popen[bytes]]) -> int:
    """Start one, its output appended to its log; returns where in the log it begins."""
    log = log_of(options, process.name)
    with log.open("ab") as output:
        begin = output.tell()
        running[process.name] = subprocess.Popen(  # noqa: S603 - our own commands.
            [str(program_of(process)), *process.command[1:]],
            cwd=ROOT,
            env={**os.environ, **process.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is handled by this script, which stops the others.
        )
    say(f"{process.name} is process {running[process.name].pid} and writes {options.directory / log.name}")
    return begin


def program_of(process: Process) -> Path | str:
    """The path of the program; `sordini` is that of this checkout."""
    name = process.command[0]
    return ROOT / ".venv" / "bin" / name if name == "sordini" else name


def log_of(options: Options, name: str) -> Path:
    return ROOT / options.directory / f"{name}.log"


def says_ready(log: Path, begin: int) -> bool:
    """Whether a broker has reported it since `begin`."""
    return b"sordini is ready" in log.read_bytes()[begin:]


def zookeeper_serves(port: int) -> bool:
    """Whether a ZooKeeper serves; in an ensemble that needs a quorum."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"srvr")
            return b"Mode: " in b"".join(iter(partial(connection.recv, 4_096), b""))
    except OSError:
        return False


def wait(
    name: str, running: Mapping[str, subprocess.Popen[bytes]], options: Options, ready: Callable[[], bool]
) -> None:
    """Wait until a process is ready; ends the program at a timeout, or when the process has ended."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not ready():
        log = log_of(options, name)
        if running[name].poll() is not None or time.monotonic() > deadline:
            end = log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            sys.exit(f"{end}\n{name} did not start; see {log}")
        time.sleep(POLL_SECONDS)


def watch(options: Options, running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Report processes that end, until none is left. KeyboardInterrupt passes."""
    while running:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # Left for Popen to take note of.
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                say(f"{name} has ended with status {process.returncode}; the others keep running. To start it again:")
                say(f"  {command_line(options, name)}")


def command_line(options: Options, name: str) -> str:
    """The shell command that starts a process again."""
    kind, _, number = name.partition("-")
    process = (broker if kind == "broker" else zookeeper)(options, int(number))
    settings = (f"{key}={shlex.quote(text)}" for key, text in process.environment.items())
    return (
        shlex.join(["cd", str(ROOT)])
        + " && "
        + " ".join([*settings, shlex.join([str(program_of(process)), *process.command[1:]])])
    )


def stop(running: dict[str, subprocess.Popen[bytes]]) -> bool:
    """Stop all processes, the brokers first; whether each stopped cleanly. A second Ctrl-C kills them."""
    is_clean = True
    for name in sorted(running):
        process = running[name]
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS_MAX)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            status = process.wait()
        # A JVM exits with 128 + the signal.
        is_clean = is_clean and status in (0, 128 + signal.SIGTERM)
        del running[name]
        say(f"{name} has ended with status {status}")
    return is_clean


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
