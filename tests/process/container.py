"""A container of the broker's image without Docker: Linux's namespaces around the image's own environment and command.

What Docker makes of `docker run --read-only --cap-drop ALL --security-opt no-new-privileges -p 9092:9092 sordini`, and
of docker-compose.yml: a host name of twelve hexadecimal digits that no client can look up, a network in which only
this broker listens, process ids of its own (the broker is number 1), no file system to write to but the volume, the
image's user, and no capability. A client "on the host" is a thread or a process in that network with the name service
of this machine: it reaches the published port at localhost.

It takes root to make one. Nothing of it is left when its process has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.outside.processes import OutsideProcess
from tests.process import image

T = TypeVar("T")
PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "hostname", "ip")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child")
SECONDS_MAX = 120.0
CLONE_NEWNET = 0x40000000

# Arguments: host name; the interpreter's directory, where it is shown for a moment, and a directory above it into which
# only root may look, or nothing; the volume's directory, and where it is shown.
SCRIPT = """
hostname "$1"
mount --make-rprivate /
if [ "$4" ]; then
    mount --bind "$2" "$3"
    mount -t tmpfs -o mode=0755 none "$4"
    mkdir -p "$2"
    mount --bind "$3" "$2"
fi
mount -t tmpfs -o mode=0755 none "$(dirname "$6")"
mkdir "$6"
mount -t proc none /proc
ip link set lo up
for place in $(awk '{ print $2 }' /proc/mounts); do mount -o remount,bind,ro "$place"; done
mount --bind "$5" "$6"
mount -o remount,bind,rw "$6"
cd "$6"
shift 6
exec "$@"
"""


def why_not() -> str:
    """Why there can be no container here; empty when there can."""
    if os.geteuid() != 0:
        return "making namespaces takes root"
    missing = [program for program in PROGRAMS if shutil.which(program, path=SYSTEM_PATH) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    tried = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True, text=True)
    return tried.stderr.strip()


class Container(OutsideProcess):
    """ENTRYPOINT and CMD as the image's user. `installed` holds the virtual environment that the image's RUN makes."""

    name = "container"
    hostname = "3f9a0c51d7be"

    def __init__(self, directory: Path, installed: Path) -> None:
        super().__init__(directory)
        self.installed = installed
        self.volume = directory / "volume"
        self.volume.mkdir()
        os.chown(self.volume, image.user(), image.user())
        self.variables: dict[str, str] = {}
        """Those of `docker run -e`."""

    def environment(self) -> Mapping[str, str]:
        path = f"{self.installed}/venv/bin:{SYSTEM_PATH}"
        return {"PATH": path, "HOSTNAME": self.hostname, **image.environment(), **self.variables}

    def command(self) -> list[str]:
        shown = self.directory / "python"
        shown.mkdir(exist_ok=True)
        interpreter = [sys.base_prefix, str(shown), closed_directory_above(Path(sys.base_prefix))]
        places = [self.hostname, *interpreter, str(self.volume), image.value(image.BROKER, "VOLUME")]
        words = [*json.loads(image.value(image.BROKER, "ENTRYPOINT")), *json.loads(image.value(image.BROKER, "CMD"))]
        return [*NAMESPACES, "sh", "-ec", SCRIPT, "sh", *places, *confined(words)]

    def is_ready(self) -> bool:
        return "sordini is ready" in self.output()

    @property
    def first_pid(self) -> int:
        """Of the container's process 1, as this machine counts."""
        (child,) = self._children()
        return child

    def _children(self) -> list[int]:
        return [int(word) for word in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def terminate(self) -> None:
        """As `docker stop`: its process 1 gets the signal of STOPSIGNAL."""
        if self.is_running:
            assert image.value(image.BROKER, "STOPSIGNAL") == "SIGTERM"
            os.kill(self.first_pid, 15)

    def kill(self) -> None:
        """As `docker kill`: its process 1 ends at once, and all others of the container with it."""
        if self.is_running and self._children():
            os.kill(self.first_pid, 9)
            self.wait_for_exit(SECONDS_MAX)  # Which is when the system has let go of all of them.
        super().kill()

    def run(self, words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        """As `docker exec`: a command in the container, as its user and confined as it is."""
        enter = ["nsenter", "--target", str(self.first_pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
        return self._run([*enter, *confined(words)], given, dict(self.environment()))

    def run_on_host(self, words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        """A command of this machine that finds the published port at localhost."""
        return self._run(["nsenter", f"--net=/proc/{self.first_pid}/ns/net", *words], given, dict(os.environ))

    def _run(self, words: list[str], given: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, input=given, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )

    def on_host(self, action: Callable[[], T]) -> T:
        """Call a function of the test where the published port is at localhost."""

        def enter() -> None:
            network = os.open(f"/proc/{self.first_pid}/ns/net", os.O_RDONLY)
            try:
                # Of this thread alone.
                if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(network)

        with ThreadPoolExecutor(1, initializer=enter) as thread:
            return thread.submit(action).result(SECONDS_MAX)

    def is_healthy(self) -> bool:
        check = image.value(image.BROKER, "HEALTHCHECK")
        ended = self.run(json.loads(check[check.index("[") :]))
        assert ended.returncode in (0, 1), ended.stderr
        return ended.returncode == 0


def confined(words: Sequence[str]) -> list[str]:
    """A command as USER of the image, without capabilities or a way to get some."""
    user = [f"--reuid={image.user()}", f"--regid={image.user()}", "--clear-groups"]
    none = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    return ["setpriv", *user, *none, *words]


def closed_directory_above(place: Path) -> str:
    """The topmost directory that only its owner may look into, as /root is; empty where there is none."""
    closed = (str(above) for above in reversed(place.parents) if not above.stat().st_mode & 0o001)
    return next(closed, "")
