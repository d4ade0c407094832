"""The port between a test and its brokers: what `Kafka` needs of them, wherever they run.

    Kafka ── Cluster ──┬── brokers/site.py          brokers on a loop in a thread of this process
                       └── control/remote_site.py   brokers in another process, by its control over HTTP

Everything else that `Kafka` does are requests of the Kafka protocol, the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.testing.faults.script import RuleBook
    from sordini.testing.faults.seen import SeenRequest

Address = tuple[str, int]


class BrokerState(NamedTuple):
    """One broker at a time."""

    id: int
    is_running: bool
    """Whether there is a process, paused or not."""
    is_paused: bool
    cut_from: tuple[int, ...]
    """The brokers that it cannot reach."""
    listeners: Mapping[str, Address]
    """The advertised addresses for clients, by listener. They stay, as does the next."""
    brokers: Address
    """The address for brokers and for the kit, whose requests no fault touches."""


class Cluster(Protocol):
    """Brokers. Every method may block, and is called from outside of the brokers' loop."""

    @property
    def script(self) -> RuleBook:
        """The faults of requests."""

    def start(self) -> None:
        """Start all, and wait until they serve. Raises SiteFailed, ConfigError."""

    def close(self) -> None:
        """End all at once. May be called again."""

    def states(self) -> list[BrokerState]:
        """Of all brokers, in the order of their ids."""

    def start_broker(self, number: int) -> None:
        """Start one that does not run, and wait until the others know it."""

    def kill(self, number: int) -> None:
        """End it at once, as SIGKILL does, and let the coordination store notice."""

    def stop(self, number: int) -> None:
        """Stop it as an operator does."""

    def pause(self, number: int, *, detected: bool) -> None:
        """Let nothing of it run; with `detected` its session expires."""

    def resume(self, number: int) -> None:
        """Let it continue. No error when it was not paused."""

    def cut(self, number: int, others: set[int]) -> None:
        """Let it and others reach each other no more."""

    def heal(self, number: int) -> None:
        """Let it and all others reach each other again."""

    def set_disk(self, number: int, *, full: bool | None = None, slow_ms: float | None = None) -> None:
        """Whether what needs room on its disk fails, and how long a synchronisation takes; None leaves it."""

    def load(self, path: str, names: Mapping[str, str], *, keeps_offsets: bool) -> None:
        """Append the records of a pack to topics that exist: `names` are theirs by the pack's, and only these.

        With `keeps_offsets` each record gets the offset that it had. Raises PackError, KitError.
        """

    def elapsed_s(self) -> float:
        """Seconds since the cluster was made."""

    def now_ms(self) -> int:
        """The brokers' time of day, in milliseconds since 1970."""

    def advance(self, seconds: float) -> None:
        """Move the brokers' clock forward."""

    def requests(self) -> list[SeenRequest]:
        """What clients have sent, oldest first."""

    def forget_requests(self) -> None:
        """Begin that list again."""

    def log_lines(self, count: int, since_s: float = 0.0) -> list[str]:
        """The last lines that brokers have logged since a time, as `elapsed_s` has it, oldest first."""
