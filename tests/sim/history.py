"""What happened in a run, as the clients and the disks saw it. The checkers read this and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from sordini.protocol.types import TopicPartition
from tests.sim.group_history import GroupHistory, Key

Outcome = Literal["ok", "info"]
"""Acknowledged, or not known: a timeout, a lost connection and a refusal after a retry are never a plain `fail`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Send:
    """One batch from the first attempt to its last answer. `base_offset` is -1 where none was learned."""

    producer: str
    partition: TopicPartition
    values: tuple[str, ...]
    began: float
    ended: float
    outcome: Outcome
    base_offset: int
    producer_id: int
    producer_epoch: int
    sequence: int


class Seen(NamedTuple):
    """One record at its offset."""

    offset: int
    value: str


@dataclasses.dataclass(frozen=True, slots=True)
class Poll:
    """What one fetch brought from one partition. Positions rise within one `session` of one consumer."""

    consumer: str
    session: int
    began: float
    at: float
    partition: TopicPartition
    asked: int
    seen: tuple[Seen, ...]
    high_watermark: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dump:
    """A partition's log, read from the disk's files without the broker's help."""

    at: float
    partition: TopicPartition
    seen: tuple[Seen, ...]
    synced_end: int = 0
    """The first offset that is not flushed."""
    base: int = 0
    """The first segment's name: where an empty log begins and ends."""
    is_compacted: bool = False

    @property
    def end(self) -> int:
        return self.seen[-1].offset + 1 if self.seen else self.base


class Reset(NamedTuple):
    """A consumer got OFFSET_OUT_OF_RANGE, and then the log start offset."""

    consumer: str
    partition: TopicPartition
    at: float
    position: int
    earliest: int


@dataclasses.dataclass(frozen=True, slots=True)
class Restart:
    """The broker stopped and started again; the logs as they were visible before and after."""

    kind: Literal["stop", "kill", "power"]
    at: float
    before: dict[TopicPartition, Dump]
    after: dict[TopicPartition, Dump]
    offsets: dict[Key, tuple[str, int]] = dataclasses.field(default_factory=dict)
    """What is committed by the files of __consumer_offsets after it: notes and offsets."""
    back: float = 0.0
    """When the next process served; it accepts no connection before."""


@dataclasses.dataclass(slots=True)
class History:
    """Everything of one run, each list in the order of time."""

    attempted: set[str] = dataclasses.field(default_factory=set)
    sends: list[Send] = dataclasses.field(default_factory=list)
    polls: list[Poll] = dataclasses.field(default_factory=list)
    restarts: list[Restart] = dataclasses.field(default_factory=list)
    resets: list[Reset] = dataclasses.field(default_factory=list)
    durable_topics: frozenset[str] = frozenset()
    """Topics with flush.messages=1: what they acknowledge survives a power loss."""
    final: dict[TopicPartition, Poll] = dataclasses.field(default_factory=dict)
    dumps: dict[TopicPartition, Dump] = dataclasses.field(default_factory=dict)
    retained_topics: frozenset[str] = frozenset()
    """Topics from whose logs retention takes records, and with them what a restart could know of their producers."""
    forgotten_producers: list[tuple[float, str, str]] = dataclasses.field(default_factory=list)
    """When, and in which topic, a producer got UNKNOWN_PRODUCER_ID without batches in flight."""
    offline: list[tuple[TopicPartition, float, float]] = dataclasses.field(default_factory=list)
    """Partitions whose log directory gave an I/O error, from when until when it is known to have been offline."""
    fenced: int = 0
    """How often a batch of an epoch of the past was refused, as it must be."""
    fenced_in: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    """When a batch of an epoch of the past was taken."""
    groups: GroupHistory = dataclasses.field(default_factory=GroupHistory)
