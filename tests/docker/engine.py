"""A Docker daemon of the tests' own, with everything it has below one folder of `.cache/docker`.

Images are built by a daemon that has no network of its own: `docker build` uses the machine's, and reaches the package
sources that the machine reaches. Containers run under another daemon, on the same images, in a network namespace that
is made for it: bridges, published ports and the addresses of containers are in there and nowhere else. What a page
calls "this machine" is that namespace, so a client of the host is a process in it.

The daemon ends with this process (SIGKILL included), its containers before it. What a former run left is removed when
the next one starts.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.outside.processes import OutsideProcess

ROOT = Path(__file__).resolve().parents[2]
# Resolved: several checkouts may share one cache, and find each other's daemon by this path.
FOLDER = (ROOT / ".cache" / "docker").resolve()
PROGRAMS = ("dockerd", "debootstrap", "iptables", "ip", "nsenter", "setpriv")
# Debian's client: it has `build` without plugins, which newer ones elsewhere in PATH may lack.
CLIENT = "/usr/bin/docker"
COMPOSE = FOLDER / "client" / "cli-plugins" / "docker-compose"
NAMESPACE = "sordini-docker"
PYTHON_IMAGE = "sordini-test/python"
ZOOKEEPER_IMAGE = "sordini-test/zookeeper"
COMMAND_SECONDS_MAX = 600.0

# As pages say `docker build`: with the stand-in for the base image, and the machine's network.
WRAPPER = f"""#!/bin/sh
if [ "$1" = build ]; then
    shift
    exec {CLIENT} build --network host --build-arg PYTHON_IMAGE={PYTHON_IMAGE} "$@"
fi
exec {CLIENT} "$@"
"""

# What differs from docker-compose.yml here: the stand-ins, and a limit of files that may be higher than the machine's.
OVERRIDE = f"""
x-broker: &broker
  build:
    network: host
    args: {{ PYTHON_IMAGE: {PYTHON_IMAGE} }}
  ulimits: {{ nofile: 20000 }}
services:
  zookeeper-1: {{ image: {ZOOKEEPER_IMAGE} }}
  zookeeper-2: {{ image: {ZOOKEEPER_IMAGE} }}
  zookeeper-3: {{ image: {ZOOKEEPER_IMAGE} }}
  broker-1: *broker
  broker-2: *broker
  broker-3: *broker
"""


def why_not() -> str:
    """Why there can be no daemon here; empty when there can."""
    if os.geteuid() != 0:
        return "a Docker daemon of one's own takes root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not Path(CLIENT).exists():
        missing.append(CLIENT)
    if not COMPOSE.exists():
        missing.append("Docker Compose")
    return f"not installed: {', '.join(missing)}" if missing else ""


class Daemon(OutsideProcess):
    """One dockerd: `isolated` in the namespace, otherwise without any network but the machine's own for builds."""

    name = "dockerd"
    stop_seconds_max = 60.0

    def __init__(self, directory: Path, *, isolated: bool) -> None:
        super().__init__(directory)
        self.isolated = isolated
        self.socket = directory / "docker.sock"

    def command(self) -> Sequence[str]:
        places = ["--data-root", f"{self.directory}/data", "--exec-root", f"{self.directory}/exec"]
        ours = [*places, "--host", f"unix://{self.socket}", "--pidfile", f"{self.directory}/dockerd.pid"]
        parent = ["setpriv", "--pdeathsig", "TERM"]
        if self.isolated:
            # Not `ip netns exec`, which shows another /sys, without control groups.
            # A resolver of the outside world that never answers, as on a machine without network.
            resolver = ["--dns", "127.0.0.1"]
            return [*parent, "nsenter", f"--net=/run/netns/{NAMESPACE}", "dockerd", *ours, *resolver]
        return [*parent, "dockerd", *ours, "--bridge=none", "--iptables=false", "--ip6tables=false"]

    def is_ready(self) -> bool:
        asked = [CLIENT, "--host", f"unix://{self.socket}", "version"]
        return subprocess.run(asked, check=False, capture_output=True, timeout=COMMAND_SECONDS_MAX).returncode == 0


class Engine:
    """A running daemon, and commands that use it as a reader of the pages would."""

    def __init__(self, daemon: Daemon, source: Path) -> None:
        self.daemon = daemon
        self.source = source
        """A copy of the repository, in which the commands run."""

    def environment(self) -> dict[str, str]:
        path = f"{FOLDER}/bin:{ROOT}/.venv/bin:{os.environ['PATH']}"
        files = f"docker-compose.yml:{FOLDER}/override.yml"
        return {
            **os.environ,
            "PATH": path,
            "DOCKER_HOST": f"unix://{self.daemon.socket}",
            "DOCKER_CONFIG": str(FOLDER / "client"),
            "DOCKER_BUILDKIT": "1",
            "COMPOSE_FILE": files,
        }

    def command(self, words: Sequence[str]) -> list[str]:
        """Words that run a command of "this machine"."""
        return ["nsenter", f"--net=/run/netns/{NAMESPACE}", *words] if self.daemon.isolated else list(words)

    def run(self, *words: str, check: bool = True, variables: Mapping[str, str] | None = None) -> str:
        """What a command prints on both outputs; it fails the test when it fails."""
        done = subprocess.run(
            self.command(words),
            cwd=self.source,
            env={**self.environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        # pytest shows it beside a failure, as a terminal would.
        sys.stdout.write(f"$ {' '.join(words)}\n{done.stdout}")
        assert done.returncode == 0 or not check, f"{' '.join(words)}\n{done.stdout}"
        return done.stdout

    def docker(self, *words: str) -> str:
        return self.run("docker", *words).strip()

    def compose(self, *words: str) -> str:
        return self.run("docker", "compose", *words)

    def inspect(self, container: str, what: str) -> str:
        """A field of a container, as `State.Health.Status`."""
        return self.docker("inspect", "--format", f"{{{{.{what}}}}}", container)

    def wait_for(self, container: str, what: str, expected: str, seconds_max: float = 120.0) -> None:
        """Until a field of a container has this value."""
        deadline = time.monotonic() + seconds_max
        while (found := self.inspect(container, what)) != expected:
            assert time.monotonic() < deadline, (
                f"{what} of {container} is {found}, not {expected}\n{self.logs(container)}"
            )
            time.sleep(0.5)

    def logs(self, container: str) -> str:
        return self.docker("logs", container)

    def clear(self) -> None:
        """Remove every container, volume and network; images stay."""
        for kind, remove in (("ps --all", "rm --force"), ("volume ls", "volume rm --force")):
            if found := self.docker(*kind.split(), "--quiet").split():
                self.docker(*remove.split(), *found)
        self.docker("network", "prune", "--force")


@contextmanager
def only_one() -> Iterator[None]:
    """No two runs use the folder at once. Raises BlockingIOError."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_client_files()
        yield


def write_client_files() -> None:
    (FOLDER / "bin").mkdir(exist_ok=True)
    wrapper = FOLDER / "bin" / "docker"
    wrapper.write_text(WRAPPER, encoding="utf-8")
    wrapper.chmod(0o755)
    (FOLDER / "override.yml").write_text(OVERRIDE, encoding="utf-8")


@contextmanager
def running(source: Path, *, isolated: bool) -> Iterator[Engine]:
    """An engine without containers and volumes, in the namespace when it is isolated."""
    end_former_daemon()
    remove_mounts()
    if isolated:
        make_namespace()
    daemon = Daemon(FOLDER, isolated=isolated)
    try:
        engine = Engine(daemon.start(), source)
        try:
            engine.clear()
            yield engine
            engine.clear()
        finally:
            daemon.stop()
    finally:
        remove_mounts()
        if isolated:
            remove_namespace()


def end_former_daemon() -> None:
    """Stop a daemon of this very folder that a former run left."""
    try:
        pid = int((FOLDER / "dockerd.pid").read_text())
        if str(FOLDER) not in Path(f"/proc/{pid}/cmdline").read_text():
            return
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"dockerd {pid} of a former run does not end"
        time.sleep(0.1)


def remove_mounts() -> None:
    """What a daemon leaves: its data directory mounted on itself, and more of a daemon that was killed."""
    for mounted in reversed(mounts()):
        subprocess.run(["umount", "--lazy", mounted], check=True)


def mounts() -> list[str]:
    """Mount points below the folder, outer ones first."""
    found = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return sorted(point for point in found if point.startswith(f"{FOLDER}/"))


def make_namespace() -> None:
    remove_namespace()
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)


def remove_namespace() -> None:
    if Path("/run/netns", NAMESPACE).exists():
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)
