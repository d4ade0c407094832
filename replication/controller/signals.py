"""What makes the controller look or decide: the signals that its watches raise, and wishes submitted to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sordini.replication.cluster_model import Cluster
from sordini.replication.controller.machine.events import Event, Reply
from sordini.replication.ports import WatchEvent


class Look(NamedTuple):
    """A signal: something may have changed, look at it. Equal signals that wait are one."""

    at: str
    which: str = ""


class Taken(NamedTuple):
    """What became of a wish: the cluster after all that followed, and the machine's replies to it."""

    cluster: Cluster
    replies: tuple[Reply, ...]


class Submitted(NamedTuple):
    """A signal: somebody wishes this of the machine, and waits for what becomes of it; None without a reign."""

    event: Event
    taken: asyncio.Future[Taken | None]


@dataclass(frozen=True, slots=True)
class Watcher:
    """The watch that raises a signal. Equal for equal signals, so none is ever set twice on one path."""

    raise_signal: Callable[[Look], None]
    look: Look

    def __call__(self, _: WatchEvent) -> None:
        self.raise_signal(self.look)


ELECTION = Look("election")
BROKERS = Look("brokers")
TOPICS = Look("topics")
DELETIONS = Look("deletions")
ISR_CHANGES = Look("isr changes")
LOG_DIR_EVENTS = Look("log dir events")
LEADERLESS = Look("leaderless")
NOTED_ELECTIONS = Look("noted elections")
BALANCE = Look("balance")
"""Nothing has changed: it is time to see who leads what."""
NOTED_MOVES = Look("noted moves")
