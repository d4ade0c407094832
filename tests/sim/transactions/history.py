"""What transactional producers and readers of committed records saw. The checkers read this, and the logs.

An offset that a transaction commits for a group counts as a value in the partition of `__consumer_offsets`: its metadata
is a note that occurs nowhere else.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Literal, NamedTuple

from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.cluster.clients import Mark
from tests.sim.history import Seen

OFFSETS = TopicPartition("__consumer_offsets", 0)
STATE_TOPIC = "__transaction_state"
NOTE = re.compile(r"note:[\w-]+")
NEVER = float("inf")

Outcome = Literal["committed", "aborted", "unknown"]
"""What EndTxn was answered; unknown when it was not sent, not answered, or refused by a fence."""


class ProducerEpoch(NamedTuple):
    """An InitProducerId was answered: producers of this transactional id with a lower epoch are fenced from then on."""

    transactional_id: str
    producer_id: int
    epoch: int
    at: float


@dataclasses.dataclass(slots=True)
class Transaction:
    """One transaction of one producer, from its first request to its end."""

    transactional_id: str
    number: int
    producer_id: int
    epoch: int
    began: float
    sent: dict[TopicPartition, dict[str, float]] = dataclasses.field(default_factory=dict)
    """The values of each partition, and when each was sent for the first time."""
    acknowledged: set[str] = dataclasses.field(default_factory=set)
    commits: bool | None = None
    """The end that was requested; None: none was."""
    end_sent: float = NEVER
    """When the end was requested for the first time."""
    outcome: Outcome = "unknown"
    ended: float = NEVER

    @property
    def name(self) -> str:
        return f"{self.transactional_id}-{self.number}"


class CommittedPoll(NamedTuple):
    """What one Fetch of a read_committed reader returned, aborted records left out as clients leave them out."""

    reader: str
    partition: TopicPartition
    began: float
    at: float
    asked: int
    next_offset: int
    """Behind the last batch: where the reader fetches next."""
    seen: tuple[Seen, ...]
    last_stable_offset: int
    high_watermark: int


class CommittedOffset(NamedTuple):
    """What OffsetFetch returned for a group, stable offsets required."""

    group_id: str
    note: str
    began: float
    at: float
    coordinator: Address = ("", 0)
    """The broker that answered."""


class CoordinatorState(NamedTuple):
    """A transactional id as its coordinator described it in the end."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int


class UnknownId(NamedTuple):
    """A request was answered that its transactional id has no producer id, or another one."""

    what: str
    transactional_id: str
    at: float


@dataclasses.dataclass(slots=True)
class TransactionHistory:
    """Everything of one run, each list in the order of time."""

    transactions: list[Transaction] = dataclasses.field(default_factory=list)
    epochs: list[ProducerEpoch] = dataclasses.field(default_factory=list)
    polls: list[CommittedPoll] = dataclasses.field(default_factory=list)
    final: list[CommittedPoll] = dataclasses.field(default_factory=list)
    """The last read, from the beginning of each partition."""
    marks: list[Mark] = dataclasses.field(default_factory=list)
    """Last stable offsets that leaders returned."""
    offsets: list[CommittedOffset] = dataclasses.field(default_factory=list)
    states: list[CoordinatorState] = dataclasses.field(default_factory=list)
    strange: list[str] = dataclasses.field(default_factory=list)
    """Answers that no fault explains."""
    unknown_ids: list[UnknownId] = dataclasses.field(default_factory=list)
    fenced: int = 0
    """How often a producer learned that it has a successor, or timed out."""
    abandoned: int = 0
    """How many requests were given up in flight."""
    last_late: float = 0.0
    """When the last of them arrives."""
