"""What a member may say of records that it holds (KIP-932). Pure.

All acknowledgements of one request for one share partition are in force together, or none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import AFTER, AckType, DeathReason, RecordState
from sordini.broker.shares.machine.share_partition import Change, SharePartition
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.system.named_tuple import NamedTuple


class Acknowledgement(NamedTuple):
    """Offsets, half-open, and their types, numbers of `AckType`: one for all, or one for each."""

    first: int
    end: int
    types: Sequence[int]


def acknowledge(
    partition: SharePartition, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
) -> Change | None:
    """The change to write; None if nothing changes that is stored.

    Raises BrokerError INVALID_RECORD_STATE for records that the member does not hold, INVALID_REQUEST beyond those in
    flight. Records below the start offset are done, whatever is said of them.
    """
    marked: list[Part] = []
    renewed: list[Part] = []
    try:
        for acknowledgement in acknowledgements:
            for part, kind in _held(partition, member, acknowledgement):
                if kind is AckType.RENEW:
                    renewed.append(part)
                else:
                    marked.append(_marked(partition, part, kind))
    except BrokerError:
        partition.roll_back(Change(partition.start, tuple(marked)))
        raise
    for part in renewed:
        partition.renew(part, now_ms)
    return Change(partition.start, tuple(marked)) if marked else None


def _marked(partition: SharePartition, part: Part, kind: AckType) -> Part:
    if kind is AckType.RELEASE:
        return partition.begin_release(part)
    if kind is AckType.REJECT:
        return partition.begin_end(part, DeathReason.REJECTED)
    return partition.begin(part, AFTER[kind])


def _held(partition: SharePartition, member: str, said: Acknowledgement) -> Iterator[tuple[Part, AckType]]:
    """The parts of an acknowledgement, each with its type."""
    if said.end <= partition.start:
        return
    if not len(partition.batches):
        raise BrokerError(ErrorCode.INVALID_RECORD_STATE, "no records are in flight")
    if said.end > partition.end:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"offset {said.end - 1} is beyond the records in flight")
    for begin, end, kind in _ranges(said, partition.start):
        first = max(begin, partition.start)
        if first >= end:
            continue
        batches = partition.batches.overlapping(first, end)
        if not batches:
            raise BrokerError(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is not in flight")
        for batch in batches:
            for part in list(batch.within(first, end)):
                _check_held(part, member)
                yield part, kind


def _ranges(said: Acknowledgement, start: int) -> Iterator[tuple[int, int, AckType]]:
    """Runs of one type; of those before `start` perhaps none."""
    if len(said.types) == 1:
        yield said.first, said.end, AckType(said.types[0])
        return
    done = max(start - said.first, 0)
    first = said.first + done
    for kind, group in groupby(said.types[done:]):
        end = first + sum(1 for _ in group)
        yield first, end, AckType(kind)
        first = end


def _check_held(part: Part, member: str) -> None:
    if part.state is not RecordState.ACQUIRED or part.after is not None:
        raise BrokerError(ErrorCode.INVALID_RECORD_STATE, f"offset {part.first} is not acquired")
    if part.member != member:
        raise BrokerError(ErrorCode.INVALID_RECORD_STATE, f"offset {part.first} is held by another member")
