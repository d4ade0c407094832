"""What must hold of records whatever happened: I1 to I5, I7 and I11. Pure; each law gives a line for each breach."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from tests.cluster.chaos.events import ABORTED, FAIL, OK, History, Send


def lost_writes(history: History) -> Iterator[str]:
    """I1: what was acknowledged, or given to a consumer, is there in the end."""
    there = {tp: {value for _, value in recs} for tp, recs in history.last.items()}
    for one in history.acknowledged:
        if one.v not in there.get(one.tp, ()):
            yield f"I1 {one.v} was acknowledged at {one.tp} {one.off} and is not there"


def duplicates(history: History) -> Iterator[str]:
    """I2: a value of an idempotent producer is at one offset."""
    idempotent = {one.v for one in history.written if one.idempotent}
    for value, places in _places(history).items():
        if len(places) > 1 and value in idempotent:
            yield f"I2 {value} is at {places}"


def counted_duplicates(history: History) -> int:
    """How many values of other producers are there more than once, which they may be."""
    idempotent = {one.v for one in history.written if one.idempotent}
    return sum(len(places) > 1 for value, places in _places(history).items() if value not in idempotent)


def _places(history: History) -> dict[str, list[tuple[str, int]]]:
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for tp, recs in history.last.items():
        for offset, value in recs:
            places[value].append((tp, offset))
    return places


def inconsistent_offsets(history: History) -> Iterator[str]:
    """I3: one offset has one value: as acknowledged, as read at any time, and in the end.

    The broker's files have no part in this: above the high watermark a replica that is not in sync may differ. What
    they must agree on is I9's.
    """
    last = {tp: dict(recs) for tp, recs in history.last.items()}
    acknowledged = ((one.tp, one.off, one.v, "acknowledged") for one in _placed(history))
    polled = ((poll.tp, offset, value, "read") for poll in history.polls for offset, value in poll.recs)
    for tp, offset, value, how in chain(acknowledged, polled):
        now = last.get(tp, {}).get(offset)
        if now != value:
            yield f"I3 {tp} {offset} was {how} as {value} and is {now}"


def _placed(history: History) -> Iterator[Send]:
    """What was acknowledged with an offset."""
    return (one for one in history.written if one.result == OK and one.off >= 0)


def disorder(history: History) -> Iterator[str]:
    """I4: what one idempotent producer sent to a partition lies in that order; what was sent after, lies after."""
    sent = {one.v: one for one in history.written}
    for tp, recs in history.last.items():
        newest: dict[str, Send] = {}
        for _, value in recs:
            one = sent.get(value)
            if one is None or not one.idempotent:
                continue
            before = newest.get(one.pid)
            if before is not None and one.seq < before.seq:
                yield f"I4 {tp}: {one.v} comes after {before.v}"
            newest[one.pid] = one
    yield from _out_of_time(history)


def _out_of_time(history: History) -> Iterator[str]:
    """A was acknowledged before B was sent: A's offset is lower."""
    by_partition: dict[str, list[Send]] = defaultdict(list)
    for one in _placed(history):
        by_partition[one.tp].append(one)
    for tp, sends in by_partition.items():
        answered = sorted(sends, key=lambda one: one.t1)
        done, highest = 0, answered[0]
        for one in sorted(sends, key=lambda one: one.t0):
            while done < len(answered) and answered[done].t1 < one.t0:
                highest = max(highest, answered[done], key=lambda other: other.off)
                done += 1
            if done and highest.off >= one.off:
                yield f"I4 {tp}: {one.v} was sent after {highest.v} was acknowledged and lies before it"


def unwanted_reads(history: History) -> Iterator[str]:
    """I5: no consumer reads what was refused or aborted, what is not committed yet or above the high watermark."""
    unwanted = {one.v for one in history.sends if one.result == FAIL}
    unwanted |= {value for one in history.transactions if one.outcome == ABORTED for _, _, value in one.recs}
    for where, tp, recs in _reads(history):
        for offset, value in recs:
            if value in unwanted:
                yield f"I5 {where} shows {value} at {tp} {offset}, which was refused or aborted"
    ends = {tp: recs[-1][0] + 1 for tp, recs in history.last.items() if recs}
    for poll in history.polls:
        if poll.recs and poll.recs[-1][0] >= ends.get(poll.tp, 0):
            yield f"I5 {poll.session} read {poll.tp} {poll.recs[-1][0]}, beyond the end"
    yield from _dirty_reads(history)


def _dirty_reads(history: History) -> Iterator[str]:
    """Records that were read before the commit of their transaction was requested."""
    asked = {value: one.asked for one in history.transactions for _, _, value in one.recs}
    for poll in history.polls:
        for offset, value in poll.recs:
            if poll.t1 < asked.get(value, poll.t1):
                yield f"I5 {poll.session} read {value} at {poll.tp} {offset} in an open transaction"


def _reads(history: History) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    yield from (("the end", tp, recs) for tp, recs in history.last.items())
    yield from ((poll.session, poll.tp, poll.recs) for poll in history.polls)


def skipped_polls(history: History) -> Iterator[str]:
    """I7: a session begins with the first record, its offsets rise, and nothing that is there is left out."""
    offsets = {tp: [offset for offset, _ in recs] for tp, recs in history.last.items()}
    last: dict[tuple[str, str], int] = {}
    for poll in history.polls:
        there = offsets.get(poll.tp, [])
        for offset, _ in poll.recs:
            before = last.get((poll.session, poll.tp), -1)
            last[poll.session, poll.tp] = offset
            if offset <= before:
                yield f"I7 {poll.session} read {poll.tp} {offset} after {before}"
            elif offset != before + 1 and bisect_left(there, offset) - bisect_left(there, before + 1) > 0:
                yield f"I7 {poll.session} went from {poll.tp} {before} to {offset}"


def phantoms(history: History) -> Iterator[str]:
    """I11: every record in a log, and every record that was read, was sent."""
    known = {one.v for one in history.written}
    for where, tp, recs in _reads(history):
        for offset, value in recs:
            if value not in known:
                yield f"I11 {where} has {value!r} at {tp} {offset}, which was not sent"


def refused(history: History) -> int:
    """How many records were certainly not written."""
    return sum(one.result not in (OK, "info") for one in history.sends)
