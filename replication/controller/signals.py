"""What makes the controller look: the signals its watches raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sordini.replication.ports import WatchEvent


class Look(NamedTuple):
    """A signal: something may have changed, look at it. Equal signals that wait are one."""

    at: str
    which: str = ""


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
