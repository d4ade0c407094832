"""A cluster on this machine, as plain processes: ZooKeeper and three brokers, until Ctrl-C.

    python3 scripts/cluster.py                                 what docker-compose.yml starts, without containers
    python3 scripts/cluster.py --zookeepers 3                  with an ensemble
    python3 scripts/cluster.py --zookeeper zk-1:2181/kafka     with a ZooKeeper that is there already
    python3 scripts/cluster.py --directory data/try --port 19092 --zookeeper-port 12181    beside another one

Brokers are started with config/cluster/broker-N.properties, and get their addresses from the environment, as containers
are. ZooKeeper's jars are those that `python3 scripts/outside.py cluster` brings. Everything is kept in the directory;
what a process says is in its .log there. A process that ends, or is killed, does not end the others: this script names
the command that starts it again. It stops all of them in order: brokers one after another, each while the next can
lead, and ZooKeeper last.
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
"""Apache Kafka's release comes with the ZooKeeper that it uses."""
QUIET = Path("tests") / "outside" / "log4j.properties"
BROKERS = (1, 2, 3)
CHROOT = "/sordini"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0
POLL_SECONDS = 0.05


class Places(NamedTuple):
    """Where everything is."""

    directory: Path
    port: int
    """The first broker's for clients; the others' follow it. Among themselves they use ports 10,000 above."""
    zookeeper_port: int
    """The first ZooKeeper's; the others' follow it."""
    zookeepers: int
    zookeeper: str
    """The address of one that is there already; empty to start some."""

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
    """How one of them is started."""

    name: str
    command: list[str]
    environment: dict[str, str]
    """Beside this script's own."""


def main() -> int:
    places = places_of(sys.argv[1:])
    # Whoever ends this script in order gets all of it ended in order; a shell's background job has SIGINT ignored.
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.default_int_handler)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        start(places, running)
        say(f"three brokers are ready at {places.bootstrap}; Ctrl-C stops them")
        watch(places, running)
    except KeyboardInterrupt:
        say("stopping")
        return 0 if stop(running) else 1
    finally:
        stop(running)
    return 1


def places_of(arguments: list[str]) -> Places:
    """Read the command line; ends the program when it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path("data") / "cluster", help="everything is kept here")
    parser.add_argument("--port", type=int, default=9092, help="the first broker's; the others' follow it")
    parser.add_argument("--zookeeper-port", type=int, default=2181, help="the first ZooKeeper's")
    parser.add_argument("--zookeepers", type=int, choices=(1, 3), default=1, help="so many are started")
    parser.add_argument("--zookeeper", default="", metavar="HOST:PORT/CHROOT", help="start none; use this one")
    return Places(**vars(parser.parse_args(arguments)))


def zookeeper(places: Places, number: int) -> Process:
    """One ZooKeeper; its settings file is `write_zookeeper_settings`'s."""
    flags = ["-Xmx256m", "-XX:+UseSerialGC", f"-Dlog4j.configuration=file:{QUIET}"]
    program = ["-cp", f"{ZOOKEEPER_JARS}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
    settings = str(places.directory / f"zookeeper-{number}.properties")
    return Process(f"zookeeper-{number}", ["java", *flags, *program, settings], {})


def broker(places: Places, number: int) -> Process:
    """One broker; the environment says what depends on places."""
    port = places.port + number - 1
    environment = {
        "KAFKA_ZOOKEEPER_CONNECT": places.zookeeper_connect,
        "KAFKA_LISTENERS": f"CLIENTS://127.0.0.1:{port},BROKERS://127.0.0.1:{port + 10_000}",
        "KAFKA_LOG_DIRS": str(places.directory / f"broker-{number}"),
    }
    command = ["sordini", "serve", str(SETTINGS / f"broker-{number}.properties")]
    return Process(f"broker-{number}", command, environment)


def write_zookeeper_settings(places: Places, number: int) -> None:
    """What all have in common, and then what this one has for itself."""
    data = places.directory / f"zookeeper-{number}"
    (ROOT / data).mkdir(parents=True, exist_ok=True)
    port = places.zookeeper_port + number - 1
    own = [f"dataDir={data}", f"clientPort={port}", "clientPortAddress=127.0.0.1"]
    if places.zookeepers > 1:
        (ROOT / data / "myid").write_text(f"{number}\n", encoding="ascii")
        for other in range(1, places.zookeepers + 1):
            first = places.zookeeper_port + other - 1
            own.append(f"server.{other}=127.0.0.1:{first + 707}:{first + 1707}")
    common = (ROOT / SETTINGS / "zookeeper.properties").read_text(encoding="utf-8")
    file = ROOT / places.directory / f"zookeeper-{number}.properties"
    file.write_text("\n".join([common, *own, ""]), encoding="utf-8")


def start(places: Places, running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start everything and wait until it is ready. Ends the program when a process ends first."""
    ensemble = [] if places.zookeeper else list(range(1, places.zookeepers + 1))
    if ensemble and (shutil.which("java") is None or not any(ZOOKEEPER_JARS.glob("zookeeper-3*.jar"))):
        sys.exit(
            "ZooKeeper is not here: `python3 scripts/outside.py cluster` fetches it, --zookeeper names another one"
        )
    (ROOT / places.directory).mkdir(parents=True, exist_ok=True)
    for number in ensemble:
        write_zookeeper_settings(places, number)
        launch(zookeeper(places, number), places, running)
    for number in ensemble:
        wait(f"zookeeper-{number}", running, places, partial(zookeeper_serves, places.zookeeper_port + number - 1))
    begins = {number: launch(broker(places, number), places, running) for number in BROKERS}
    for number, begin in begins.items():
        name = f"broker-{number}"
        wait(name, running, places, partial(says_ready, log_of(places, name), begin))


def launch(process: Process, places: Places, running: dict[str, subprocess.Popen[bytes]]) -> int:
    """Start one, its output added to its log; where in the log that begins."""
    log = log_of(places, process.name)
    with log.open("ab") as output:
        begin = output.tell()
        running[process.name] = subprocess.Popen(  # noqa: S603 - our own commands.
            [str(program_of(process)), *process.command[1:]],
            cwd=ROOT,
            env={**os.environ, **process.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this script, which stops the others in order.
        )
    say(f"{process.name} is process {running[process.name].pid} and writes {places.directory / log.name}")
    return begin


def program_of(process: Process) -> Path | str:
    """Our own command is that of this checkout."""
    name = process.command[0]
    return ROOT / ".venv" / "bin" / name if name == "sordini" else name


def log_of(places: Places, name: str) -> Path:
    return ROOT / places.directory / f"{name}.log"


def says_ready(log: Path, begin: int) -> bool:
    """Whether a broker has said so since."""
    return b"sordini is ready" in log.read_bytes()[begin:]


def zookeeper_serves(port: int) -> bool:
    """Whether a ZooKeeper is there, and one of a quorum where it has to be."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"srvr")
            return b"Mode: " in b"".join(iter(partial(connection.recv, 4_096), b""))
    except OSError:
        return False


def wait(name: str, running: Mapping[str, subprocess.Popen[bytes]], places: Places, ready: Callable[[], bool]) -> None:
    """Until a process is ready; ends the program when it is not in time, or has ended."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not ready():
        log = log_of(places, name)
        if running[name].poll() is not None or time.monotonic() > deadline:
            end = log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            sys.exit(f"{end}\n{name} did not start; {log} says why")
        time.sleep(POLL_SECONDS)


def watch(places: Places, running: dict[str, subprocess.Popen[bytes]]) -> None:
    """Tell of processes that end by themselves, until none is left. KeyboardInterrupt passes."""
    while running:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # Left for Popen to take note of.
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                say(f"{name} has ended with status {process.returncode}; the others continue. To start it again:")
                say(f"  {command_line(places, name)}")


def command_line(places: Places, name: str) -> str:
    """What starts a process again, for a shell in this directory."""
    kind, _, number = name.partition("-")
    process = (broker if kind == "broker" else zookeeper)(places, int(number))
    settings = (f"{key}={shlex.quote(text)}" for key, text in process.environment.items())
    return (
        shlex.join(["cd", str(ROOT)])
        + " && "
        + " ".join([*settings, shlex.join([str(program_of(process)), *process.command[1:]])])
    )


def stop(running: dict[str, subprocess.Popen[bytes]]) -> bool:
    """Stop all that run, the brokers first; whether each ended by itself. A second Ctrl-C kills them."""
    in_order = True
    for name in sorted(running):
        process = running[name]
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS_MAX)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            status = process.wait()
        # A JVM that is stopped by a signal exits with that signal's status.
        in_order = in_order and status in (0, 128 + signal.SIGTERM)
        del running[name]
        say(f"{name} has ended with status {status}")
    return in_order


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
