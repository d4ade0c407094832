"""What makes the controller look or decide: the signals that its watches raise, and wishes submitted to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sordini.replication.cluster_model import ClusterState
from sordini.replication.controller.machine.events import Event, Reply
from sordini.replication.ports import WatchEvent


class StoreSignal(NamedTuple):
    """A signal: something may have changed, look at it. Equal signals that wait are one."""

    at: str
    which: str = ""


class SubmitResult(NamedTuple):
    """What became of a wish: the cluster after all that followed, and the machine's replies to it."""

    cluster: ClusterState
    replies: tuple[Reply, ...]


class SubmittedEvent(NamedTuple):
    """A signal: somebody wishes this of the machine, and waits for what becomes of it; None without a reign."""

    event: Event
    taken: asyncio.Future[SubmitResult | None]


@dataclass(frozen=True, slots=True)
class SignalWatch:
    """The watch that raises a signal. Equal for equal signals, so none is ever set twice on one path."""

    raise_signal: Callable[[StoreSignal], None]
    look: StoreSignal

    def __call__(self, _: WatchEvent) -> None:
        self.raise_signal(self.look)


ELECTION = StoreSignal("election")
BROKERS = StoreSignal("brokers")
TOPICS = StoreSignal("topics")
DELETIONS = StoreSignal("deletions")
ISR_CHANGES = StoreSignal("isr changes")
LOG_DIR_EVENTS = StoreSignal("log dir events")
LEADERLESS = StoreSignal("leaderless")
ZK_ELECTIONS = StoreSignal("noted elections")
BALANCE = StoreSignal("balance")
"""Nothing has changed: it is time to see who leads what."""
ZK_REASSIGNMENTS = StoreSignal("noted moves")
