"""One broker of a test's cluster: `kafka.brokers[0].kill()`."""

from __future__ import annotations

from collections import deque
from typing import Final

from sordini.system.named_tuple import NamedTuple
from sordini.testing.arguments import ArgumentRefused, flag, number
from sordini.testing.cluster import BrokerState, Cluster

NOTES_MAX: Final = 1_000
SLOW_MS_MAX: Final = 86_400_000


class Note(NamedTuple):
    """Something that was done to a broker."""

    time_s: float
    """Since the cluster was made."""
    text: str

    def __str__(self) -> str:
        return f"{self.time_s:9.3f} {self.text}"


class NodeHandle:
    """What a test does to a broker."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self.id = number
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)
        """What was done to it, for the report of a failure."""

    @property
    def bootstrap_server(self) -> str:
        """`host:port`."""
        host, port = next(iter(self._state.listeners.values()))
        return f"{host}:{port}"

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._state.is_running

    def kill(self) -> None:
        """End it at once, as SIGKILL does; its files stay as they are, and the others notice."""
        self._note("killed")
        self._cluster.kill(self.id)

    def stop(self) -> None:
        """Stop it as an operator does: leaderships are handed over first."""
        self._note("stopped")
        self._cluster.stop(self.id)

    def start(self) -> None:
        """Start it again, on the same address and with the same files. No error when it runs."""
        if not self.is_running:
            self._note("started again")
            self._cluster.start_broker(self.id)

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def pause(self, *, detected: bool = False) -> None:
        """Let nothing of it run, as SIGSTOP does. With `detected` its session expires, and others take over."""
        flag("detected", detected)
        self._note("paused")
        self._cluster.pause(self.id, detected=detected)

    def resume(self) -> None:
        """Let it continue. No error when it was not paused."""
        self._cluster.resume(self.id)

    def partition_from(self, *others: NodeHandle | int) -> None:
        """Let it and others, or all, reach each other no more, until `heal`. Clients and the store reach it.

        Raises ValueError for a broker that there is not.
        """
        known = {state.id for state in self._cluster.states()} - {self.id}
        given: list[object] = [other.id if isinstance(other, NodeHandle) else other for other in others]
        numbers = {one for one in given if isinstance(one, int) and one in known} if given else known
        if not numbers or len(numbers) < len(given):
            listed = ", ".join(map(str, sorted(known))) or "none, as there is no other broker"
            raise ArgumentRefused("others", others, f"each of these once: {listed}")
        self._note(f"cut off from broker {', '.join(map(str, sorted(numbers)))}")
        self._cluster.cut(self.id, numbers)

    def heal(self) -> None:
        """Let it and all others reach each other again."""
        self._cluster.heal(self.id)

    def disk_full(self) -> None:
        """Let everything that needs room on its disk fail, until `heal_disk`."""
        self._note("its disk is full")
        self._cluster.set_disk(self.id, full=True)

    def slow_disk(self, ms: float) -> None:
        """Let each synchronisation of its disk take so long, until `heal_disk`."""
        number("ms", ms, 0, SLOW_MS_MAX)
        self._note(f"each synchronisation of its disk takes {ms:g} ms")
        self._cluster.set_disk(self.id, slow_ms=ms)

    def heal_disk(self) -> None:
        """Let its disk be as it was."""
        self._cluster.set_disk(self.id, full=False, slow_ms=0)

    @property
    def _state(self) -> BrokerState:
        return next(state for state in self._cluster.states() if state.id == self.id)

    def _note(self, action: str) -> None:
        self.notes.append(Note(self._cluster.elapsed_s(), f"broker {self.id}: {action}"))

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.bootstrap_server}>"
