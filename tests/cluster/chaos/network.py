"""A network of which every direction between two nodes can be cut: a namespace for each, joined by a bridge.

Each node knows its neighbours' hardware addresses once and for all; a direction is cut by giving it a wrong one, so
that what is sent is dropped in silence, as by a firewall, while answers to what others send are cut on their own. It
takes neither iptables nor a kernel module. Who is not root becomes it in a namespace of users, if the kernel lets him.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final, Protocol

UNUSED_MAC: Final = "02:00:00:00:00:01"
_ENTERED: Final = "SORDINI_CHAOS_ENTERED"
_DEVICE: Final = "eth0"


class NoNetworkError(Exception):
    """Namespaces cannot be made here; the message says what was tried."""


def become_root() -> None:
    """Start this program again as the root of namespaces of its own, when it is not root already."""
    if os.geteuid() == 0 or os.environ.get(_ENTERED):
        return
    unshare = shutil.which("unshare")
    probe = [unshare or "unshare", "--user", "--map-root-user", "--net", "--mount"]
    if unshare is None or subprocess.run([*probe, "true"], check=False, capture_output=True).returncode:
        return
    words = [sys.executable, "-m", "tests.cluster.chaos", *sys.argv[1:]]
    script = 'mount -t tmpfs none /run && ip link set lo up && exec "$@"'
    os.execve(unshare, [*probe, "sh", "-c", script, "sh", *words], {**os.environ, _ENTERED: "1"})


class Network(Protocol):
    """Nodes by name, each with processes and servers of its own, and what can be done to the ways between them."""

    def address(self, node: str) -> str:
        """Where a node's servers listen."""

    def enter(self, node: str) -> list[str]:
        """Words before a command that shall run there."""

    def serve(self, node: str, port: int) -> str:
        """Where others reach what a node serves at a port."""

    def joined(self, node: str, process: int) -> None:
        """This process is one of the node's."""

    def cut(self, source: str, target: str) -> None:
        """Let nothing of what `source` sends come to `target` from now on."""

    def cut_both(self, one: str, other: str) -> None:
        """Cut both directions."""

    def slow(self, node: str, kilobits_per_second: int) -> None:
        """Let no more than so many bits a second come to a node."""

    def heal(self) -> None:
        """Undo all that was done."""

    def close(self) -> None:
        """Leave nothing behind."""


class Namespaces:
    """One for each of `nodes`; the caller is at the bridge and reaches all. Raises NoNetworkError."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = list(nodes)
        self._tag = f"s{os.getpid() % 1_000_000}"
        self._net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._hardware: dict[str, str] = {}
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as problem:
            self.close()
            reported = getattr(problem, "stderr", "") or str(problem)
            raise NoNetworkError(f"`ip netns` does not do here: {reported.strip()}") from problem

    def address(self, node: str) -> str:
        return f"{self._net}.{self._nodes.index(node) + 1}"

    def enter(self, node: str) -> list[str]:
        """Words before a command that shall run there."""
        return ["ip", "netns", "exec", self._space(node)]

    def serve(self, node: str, port: int) -> str:
        """Where others reach what a node serves at a port."""
        return f"{self.address(node)}:{port}"

    def joined(self, node: str, process: int) -> None:
        """Whoever was started there is there."""

    def cut(self, source: str, target: str) -> None:
        """Lose what `source` sends to `target` from now on."""
        self._point(source, target, UNUSED_MAC)

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def slow(self, node: str, kilobits_per_second: int) -> None:
        """Queue what is sent to a node behind so many bits a second, and lose what waits for more than 150 ms."""
        limit = f"rate {kilobits_per_second}kbit burst 8k latency 150ms".split()
        _run("tc", "qdisc", "replace", "dev", self._port(node), "root", "tbf", *limit)

    def heal(self) -> None:
        """Undo all that was done to links."""
        for source in self._nodes:
            for target in self._nodes:
                if source != target:
                    self._point(source, target, self._hardware[target])
        for node in self._nodes:
            subprocess.run(["tc", "qdisc", "del", "dev", self._port(node), "root"], check=False, capture_output=True)

    def close(self) -> None:
        for node in self._nodes:
            subprocess.run(["ip", "netns", "del", self._space(node)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._tag], check=False, capture_output=True)

    def _make(self) -> None:
        _run("ip", "link", "add", self._tag, "type", "bridge")
        _run("ip", "addr", "add", f"{self._net}.254/24", "dev", self._tag)
        _run("ip", "link", "set", self._tag, "up")
        for node in self._nodes:
            space, port = self._space(node), self._port(node)
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", port, "type", "veth", "peer", "name", _DEVICE, "netns", space)
            _run("ip", "link", "set", port, "master", self._tag, "up")
            _run("ip", "-n", space, "addr", "add", f"{self.address(node)}/24", "dev", _DEVICE)
            _run("ip", "-n", space, "link", "set", _DEVICE, "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            (found,) = json.loads(_run("ip", "-j", "-n", space, "link", "show", _DEVICE))
            self._hardware[node] = found["address"]
        self.heal()

    def _point(self, source: str, target: str, hardware: str) -> None:
        entry: list[Any] = [self.address(target), "lladdr", hardware, "dev", _DEVICE, "nud", "permanent"]
        _run("ip", "-n", self._space(source), "neigh", "replace", *entry)

    def _space(self, node: str) -> str:
        return f"{self._tag}-{node}"

    def _port(self, node: str) -> str:
        """The bridge's end of the node's cable; names of devices have 15 letters at most."""
        return f"{self._tag}p{self._nodes.index(node)}"


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
