"""How share groups reach the stored state of their share partitions, on whichever broker coordinates it.

Each call is about one share partition. It returns at once, and calls `on_done` once: perhaps before it returns, at the
latest when its time is up. Errors are those of the coordinator; that it moved, is loading or cannot be reached is
retried until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset, TopicId
from sordini.system.named_tuple import NamedTuple

OnStored = Callable[[ErrorCode], None]


class SharePartitionKey(NamedTuple):
    """A partition as a share group reads it."""

    group_id: str
    topic_id: TopicId
    partition: int


class ReadState(NamedTuple):
    """What is stored of a share partition, for the leader of its partition."""

    error: ErrorCode
    state_epoch: int = 0
    start: Offset | None = None
    """None: share.auto.offset.reset decides."""
    runs: tuple[StateRun, ...] = ()


class StateSummary(NamedTuple):
    """What is stored of a share partition, for a description."""

    error: ErrorCode
    state_epoch: int = 0
    leader_epoch: int = 0
    start: Offset | None = None
    """None: not decided yet, or no such share partition."""
    done: int | None = None
    """Records that are acknowledged or archived from the start offset on; None: not known."""


class StateWrite(NamedTuple):
    """What a leader has changed."""

    state_epoch: int
    leader_epoch: int
    start: Offset | None
    """None: unchanged, and so is `done`."""
    done: int | None
    """As in a summary, after this change."""
    runs: tuple[StateRun, ...]


class LeaderStates(Protocol):
    """How the leader of a partition reads and writes the state of a share partition."""

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Callable[[ReadState], None]) -> None:
        """A leader begins with a share partition; leaders of older epochs are refused from then on."""

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: OnStored) -> None:
        """Store a change; what is answered with NONE is committed."""


class GroupStates(Protocol):
    """How a group coordinator begins and ends states, and describes them."""

    def initialize(self, key: SharePartitionKey, state_epoch: int, start: Offset | None, on_done: OnStored) -> None:
        """A group begins to read a partition, or its start offset is set."""

    def delete(self, key: SharePartitionKey, on_done: OnStored) -> None:
        """Delete the state; that there is none is no error."""

    def summarize(self, key: SharePartitionKey, on_done: Callable[[StateSummary], None]) -> None:
        """Read the state for a description."""
