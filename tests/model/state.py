"""What a world of the model is: three copies of one partition, what the coordination store says, what was sent.

Everything is a tuple of small numbers, so that worlds can be compared, counted and reported. Sets of replicas are bit
masks. A record is known by its epoch and its offset: an epoch has one leader, which writes each offset once, so two
records of one epoch at one offset are the same record, and its value would say nothing more.

Renaming the replicas makes no difference to what can happen: the deciders compare the ids of brokers with each other
and never by size, the controller may elect any member, and every replica starts alike. So of the worlds that differ
by a renaming only, one is explored. `test_renaming_the_replicas_renames_what_can_happen` holds this up.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

REPLICAS = (0, 1, 2)
NO_LEADER = -1
ALL_REPLICAS = 0b111
NONE = -1
"""Of an epoch or an end offset: unknown."""

RENAMINGS = tuple(permutations(REPLICAS))
"""Renaming r calls replica i `r[i]`."""


class Leading(NamedTuple):
    """What a leader's decider holds, without the times: the model chooses those at every step."""

    isr: int
    proposed: int
    """The proposed in-sync set; 0 when no proposal is pending."""
    is_granted: bool
    """The proposal is granted; the leader has not received that yet."""
    partition_epoch: int
    """The version of the in-sync set that it knows, counted from the last one that this leader received."""
    ends: tuple[int, int, int]
    """The log end offsets of the followers, by their fetches; NONE before the first fetch, and for itself."""
    holders: int
    """Replicas that hold the high watermark back without being in sync or proposed."""
    epoch_start: int


class Following(NamedTuple):
    leader: int
    """NO_LEADER also when the leader's term is over: it does not answer any more."""
    needs_epoch_end: bool


class Ask(NamedTuple):
    """A request on its way to a leader, or in its queue."""

    leader: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    is_fetch: bool
    """Else an OffsetForLeaderEpoch for `last_fetched_epoch`."""


class Answer(NamedTuple):
    """A leader's response on its way to the follower."""

    leader_epoch: int
    """Of the request."""
    fetch_offset: int
    records: tuple[int, ...]
    high_watermark: int
    diverging: tuple[int, int] | None
    """(epoch, end offset) for a follower that must truncate first, and as the answer to OffsetForLeaderEpoch."""


class Copy(NamedTuple):
    """One replica."""

    log: tuple[int, ...]
    """The epoch of every record."""
    entries: tuple[tuple[int, int], ...]
    """Its epoch cache: (epoch, start offset); the last entry may start at the log end offset."""
    high_watermark: int
    epoch: int
    """Of its term; NONE before the first LeaderAndIsr."""
    role: Leading | Following
    under_way: Ask | Answer | None
    """Its fetch; always None where an exchange is one step."""


class Command(NamedTuple):
    """A LeaderAndIsr, as the controller sent it for one epoch. It may arrive at any time, again, or never."""

    leader: int
    isr: int


class Shared(NamedTuple):
    """The partition's state node, and all LeaderAndIsr that a replica may still accept."""

    leader: int
    epoch: int
    isr: int
    version: int
    """Counted from what the leader of this epoch knows: 1 when a grant is on its way to it, else 0."""
    sent: tuple[Command | None, ...]
    """By epoch; None for one that every replica is past."""
    cut: int = 0
    """The leader that is cut off from the coordination store, as a mask; 0 for none. At most one at a time."""


class World(NamedTuple):
    copies: tuple[Copy, Copy, Copy]
    shared: Shared


def members(mask: int) -> list[int]:
    return [replica for replica in REPLICAS if mask >> replica & 1]


def mask_of(replicas: object) -> int:
    return sum(1 << replica for replica in replicas)  # type: ignore[attr-defined]


def start() -> World:
    """A new partition: the first leader is named and all replicas are in sync; no LeaderAndIsr has arrived yet."""
    empty = Copy((), (), 0, NONE, Following(NO_LEADER, needs_epoch_end=False), None)
    return World((empty, empty, empty), Shared(0, 0, ALL_REPLICAS, 0, (Command(0, ALL_REPLICAS),)))


def _renamed_mask(mask: int, renaming: tuple[int, ...]) -> int:
    return sum(1 << renaming[replica] for replica in REPLICAS if mask >> replica & 1)


def _renamed_id(replica: int, renaming: tuple[int, ...]) -> int:
    return NO_LEADER if replica == NO_LEADER else renaming[replica]


def renamed_copy(copy: Copy, renaming: tuple[int, ...]) -> Copy:
    role, under_way = copy.role, copy.under_way
    if isinstance(role, Leading):
        ends = [NONE, NONE, NONE]
        for replica, end in enumerate(role.ends):
            ends[renaming[replica]] = end
        role = role._replace(
            isr=_renamed_mask(role.isr, renaming),
            proposed=_renamed_mask(role.proposed, renaming),
            holders=_renamed_mask(role.holders, renaming),
            ends=(ends[0], ends[1], ends[2]),
        )
    else:
        role = role._replace(leader=_renamed_id(role.leader, renaming))
    if isinstance(under_way, Ask):
        under_way = under_way._replace(leader=renaming[under_way.leader])
    return copy._replace(role=role, under_way=under_way)


def renamed_shared(shared: Shared, renaming: tuple[int, ...]) -> Shared:
    sent = tuple(
        None if command is None else Command(renaming[command.leader], _renamed_mask(command.isr, renaming))
        for command in shared.sent
    )
    isr = _renamed_mask(shared.isr, renaming)
    cut = _renamed_mask(shared.cut, renaming)
    return shared._replace(leader=renaming[shared.leader], isr=isr, sent=sent, cut=cut)


def looks(copy: Copy) -> object:
    """The part of a copy that does not change when replicas are renamed; states are sorted by it."""
    role, under_way = copy.role, copy.under_way
    if isinstance(role, Leading):
        known: object = (
            role.isr.bit_count(),
            role.proposed.bit_count(),
            role.is_granted,
            role.partition_epoch,
            tuple(sorted(role.ends)),
            role.holders.bit_count(),
            role.epoch_start,
        )
    else:
        known = (role.leader == NO_LEADER, role.needs_epoch_end)
    if isinstance(under_way, Ask):
        under_way = under_way._replace(leader=0)
    return (copy[:4], known, under_way)
