"""What must hold of transactions: I6, I16 and I17. Pure, as `laws`.

The copying program reads one topic and writes another, each record in the partition of the same number. What it writes
names its source: the value that was read, its offset and the transaction, joined by `@`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from math import inf
from typing import Final, NamedTuple

from tests.cluster.chaos.events import ABORTED, COMMITTED, UNKNOWN, Began, History, Transaction

COPY_SOURCE: Final = "x0"
COPY_TARGET: Final = "y0"
COPY_GROUP: Final = "copy"


def copy_of(value: str, offset: int, transaction: str) -> str:
    """The value that a copy has."""
    return f"{value}@{offset}@{transaction}"


def source_of(copied: str) -> tuple[int, str]:
    """Offset and value of what was copied; offset -1 when it is no copy."""
    value, _, place = copied.partition("@")
    offset, _, _ = place.partition("@")
    return (int(offset), value) if offset.isdigit() else (-1, copied)


def torn_transactions(history: History) -> Iterator[str]:
    """I6: a committed transaction is there as a whole, an aborted one not at all, an unknown one either way."""
    there = {(tp, value) for tp, recs in history.last.items() for _, value in recs}
    for one in history.transactions:
        records = {(tp, value) for tp, _, value in one.recs}
        found = records & there
        if one.outcome == COMMITTED and found != records:
            yield f"I6 {one.id} was committed and lacks {sorted(records - found)[:3]}"
        elif one.outcome == ABORTED and found:
            yield f"I6 {one.id} was aborted and shows {sorted(found)[:3]}"
        elif found and found != records:
            yield f"I6 {one.id} is torn: it lacks {sorted(records - found)[:3]}"
    yield from _unfenced(history)
    yield from (f"I6 a late EndTxn was granted while {one.open} was open" for one in history.lates if one.code == 0)


def _unfenced(history: History) -> Iterator[str]:
    """Transactions that were committed on request of a producer whose transactional id had a later life already."""
    lives: dict[str, list[Began]] = defaultdict(list)
    for life in history.begans:
        lives[life.producer].append(life)
    for one in history.transactions:
        if one.outcome != COMMITTED:
            continue
        own = next((life.t1 for life in lives[one.producer] if life.pid == one.pid), inf)
        for life in lives[one.producer]:
            if own < life.t0 and life.t1 < one.asked:
                yield f"I6 {one.id} was committed at {one.asked:.1f} s, after {life.pid} had begun at {life.t1:.1f} s"


class Copy(NamedTuple):
    """One partition of the copied topic, what there is of it in the other topic, and where the group stands."""

    tp: str
    source: list[tuple[int, str]]
    target: list[tuple[int, str]]
    committed: int


def copies(history: History) -> list[Copy]:
    """Every partition that is copied."""
    ends = {one.tp: one.off for one in history.committeds if one.group == COPY_GROUP}
    found = []
    for tp, recs in sorted(history.last.items()):
        topic, _, number = tp.rpartition("-")
        if topic == COPY_SOURCE:
            target = [source_of(value) for _, value in history.last.get(f"{COPY_TARGET}-{number}", [])]
            found.append(Copy(tp, recs, target, ends.get(tp, -1)))
    return found


def unequal_copies(history: History) -> Iterator[str]:
    """I16: each record of the copied topic is in the other once, in its order; the group's offset says how many are."""
    for one in copies(history):
        for index, (wanted, found) in enumerate(zip_longest(one.source, one.target)):
            if wanted != found:
                yield f"I16 {one.tp}: copy {index} is of {found}, not of {wanted}"
                break
        done = bisect_left([offset for offset, _ in one.source], one.committed)
        if done != len(one.target):
            yield f"I16 {one.tp}: {len(one.target)} records are copied, {done} are below the offset {one.committed}"


def hanging_transactions(history: History) -> Iterator[str]:
    """I17: when all transactions have ended or timed out, the last stable offset is the end of each partition."""
    for one in history.stables:
        if one.lso != one.end:
            yield f"I17 {one.tp} is stable up to {one.lso} and ends at {one.end}"


def idle_producers(history: History) -> Iterator[str]:
    """I14: every transactional id commits a transaction after the last fault."""
    healed = max((one.t1 for one in history.faults), default=0.0)
    latest: dict[str, float] = {one.producer: 0.0 for one in history.begans}
    for one in history.transactions:
        if one.outcome == COMMITTED:
            latest[one.producer] = max(latest.get(one.producer, 0.0), one.ended)
    for producer, ended in sorted(latest.items()):
        if ended < healed:
            yield f"I14 {producer} commits no transaction after {healed:.1f} s"


class Tally(NamedTuple):
    """Transactions and their records; `wait` is the longest time between two commits of one id, in seconds."""

    committed: int
    aborted: int
    unknown: int
    records: int
    """Of committed transactions."""
    copied: int
    initialised: int
    """How often a transactional id was initialised."""
    late: int
    """EndTxn requests that arrived in the transaction after theirs."""
    wait: float


def tally(history: History) -> Tally:
    outcomes = Counter(one.outcome for one in history.transactions)
    return Tally(
        outcomes[COMMITTED],
        outcomes[ABORTED],
        outcomes[UNKNOWN],
        sum(len(one.recs) for one in history.transactions if one.outcome == COMMITTED),
        sum(len(one.target) for one in copies(history)),
        len(history.begans),
        len(history.lates),
        _longest_wait(history.transactions),
    )


def _longest_wait(transactions: list[Transaction]) -> float:
    newest: dict[str, float] = {}
    longest = 0.0
    for one in sorted(transactions, key=lambda one: one.ended):
        if one.outcome == COMMITTED:
            longest = max(longest, one.ended - newest.get(one.producer, one.ended))
            newest[one.producer] = one.ended
    return longest
