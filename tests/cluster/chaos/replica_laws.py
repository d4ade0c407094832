"""What must hold of replicas, epochs, groups and recovery: I8 to I10 and I12 to I14. Pure, as `laws`."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from tests.cluster.chaos.events import OK, Commit, Dump, Files, History, State

FIRST_ACK_SECONDS_MAX: Final = 20.0
"""From a heal to the first acknowledged record of each partition: a session, a restart, and a shared machine."""
FULL_SECONDS_MAX: Final = 30.0
"""From the last heal until every replica is in sync."""
Head = tuple[int, int, int, int]


def high_watermarks(history: History) -> Iterator[str]:
    """I8: a leader's high watermark never falls, not from term to term either, and is never beyond its log's end.

    Its last stable offset does not fall within an epoch, and is never beyond the high watermark.
    """
    yield from _last_stable_offsets(history)
    newest: dict[tuple[int, str, int], int] = {}
    by_epoch: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for one in history.hws:
        if one.hw > one.leo:
            yield f"I8 broker {one.node} shows {one.tp} up to {one.hw} and ends at {one.leo}"
        key = (one.node, one.tp, one.epoch)
        if one.hw < newest.get(key, 0):
            yield f"I8 broker {one.node} in epoch {one.epoch} of {one.tp} fell from {newest[key]} to {one.hw}"
        newest[key] = max(one.hw, newest.get(key, 0))
        low, high = by_epoch[one.tp].get(one.epoch, (one.hw, one.hw))
        by_epoch[one.tp][one.epoch] = (min(low, one.hw), max(high, one.hw))
    for tp, epochs in by_epoch.items():
        shown = 0
        for epoch, (low, high) in sorted(epochs.items()):
            if low < shown:
                yield f"I8 {tp} showed {shown}, and {low} in the later epoch {epoch}"
            shown = max(shown, high)


def _last_stable_offsets(history: History) -> Iterator[str]:
    newest: dict[tuple[int, str, int], int] = {}
    for one in history.hws:
        key = (one.node, one.tp, one.epoch)
        if one.lso > one.hw:
            yield f"I8 broker {one.node} shows {one.tp} stable up to {one.lso}, committed up to {one.hw}"
        if one.lso < newest.get(key, 0):
            yield f"I8 broker {one.node} in epoch {one.epoch} of {one.tp}: stable up to {newest[key]}, then {one.lso}"
        newest[key] = max(one.lso, newest.get(key, 0))


def divergence(history: History) -> Iterator[str]:
    """I9: all replicas have the same batches below what each knows to be committed; members of the set all of it."""
    logs = _logs(history)
    in_sync = {one.tp: set(one.isr) for one in _in_order(history.states)}
    marks: dict[str, dict[int, int]] = defaultdict(dict)
    for one in history.filess:
        marks[one.tp][one.node] = one.hw
    for tp, known in marks.items():
        members = in_sync.get(tp, set()) & set(known)
        end = max(known.values())
        if not members:
            yield f"I9 no replica is in sync with {tp}"
            continue
        reference = logs.get((min(members), tp), [])
        for node in known:
            bound = end if node in members else known[node]
            log = logs.get((node, tp), [])
            ours, theirs = heads(log, bound), heads(reference, bound)
            if ours != theirs:
                at = next((a for a, b in zip(ours, theirs, strict=False) if a != b), None)
                where = f"at {at}" if at else f"{len(ours)} batches beside {len(theirs)}"
                yield f"I9 {tp} below {bound}: broker {node} differs from {min(members)} {where}"
            if node in members and (log[-1].end if log else 0) < end:
                yield f"I9 {tp}: broker {node} is in sync and ends before {end}"


def _logs(history: History) -> dict[tuple[int, str], list[Dump]]:
    logs: dict[tuple[int, str], list[Dump]] = defaultdict(list)
    for one in history.dumps:
        logs[one.node, one.tp].append(one)
    return logs


def heads(log: Iterable[Dump], bound: int) -> list[Head]:
    """What distinguishes the batches that end at or below an offset."""
    return [(one.base, one.end, one.epoch, one.crc) for one in log if one.end <= bound]


def digest(rows: Iterable[Head]) -> str:
    """A digest of batches, in their order."""
    whole = hashlib.sha256()
    for base, end, epoch, crc in rows:
        whole.update(b"%d %d %d %d;" % (base, end, epoch, crc))
    return whole.hexdigest()


def epochs(history: History) -> Iterator[str]:
    """I10: epochs in a log never fall and are those of its cache; each has one leader."""
    for (node, tp), log in _logs(history).items():
        newest = -1
        for one in log:
            if one.epoch < newest:
                yield f"I10 broker {node} has {tp} {one.base} of epoch {one.epoch} after epoch {newest}"
            newest = max(newest, one.epoch)
    yield from _leaders(history)
    yield from _caches(history)


def _leaders(history: History) -> Iterator[str]:
    leaders: dict[tuple[str, int], set[int]] = defaultdict(set)
    for state in history.states:
        if state.leader >= 0:
            leaders[state.tp, state.epoch].add(state.leader)
    for one in history.hws:
        leaders[one.tp, one.epoch].add(one.node)
    for (tp, epoch), nodes in leaders.items():
        if len(nodes) > 1:
            yield f"I10 brokers {sorted(nodes)} led {tp} in epoch {epoch}"
    newest: dict[str, State] = {}
    for state in _in_order(history.states):
        before = newest.get(state.tp)
        if before is not None and (state.epoch < before.epoch or state.version < before.version):
            yield f"I10 the state of {state.tp} fell from {before} to {state}"
        newest[state.tp] = state


def _in_order(states: Iterable[State]) -> list[State]:
    """As they were seen: several looked at them, each with a file of his own."""
    return sorted(states, key=lambda one: one.t)


def _caches(history: History) -> Iterator[str]:
    logs = _logs(history)
    for files in history.filess:
        starts = [start for _, start in files.epochs]
        for one in logs.get((files.node, files.tp), []):
            entry = bisect_right(starts, one.base) - 1
            if entry < 0 or files.epochs[entry][0] != one.epoch:
                yield f"I10 broker {files.node} has {files.tp} {one.base} of epoch {one.epoch} not in {files.epochs}"
                break


def groups(history: History) -> Iterator[str]:
    """I12: one owner per partition and generation; no commit of a former generation; none that was accepted is lost."""
    owners: dict[tuple[str, int, str], set[str]] = defaultdict(set)
    for own in history.owns:
        for tp in own.tps:
            owners[own.group, own.gen, tp].add(own.member)
    for (group, gen, tp), members in owners.items():
        if len(members) > 1:
            yield f"I12 {tp} was given to {sorted(members)} in generation {gen} of {group}"
    by_partition: dict[tuple[str, str], list[Commit]] = defaultdict(list)
    for one in history.commits:
        by_partition[one.group, one.tp].append(one)
    ends = {(one.group, one.tp): one.off for one in history.committeds}
    for key, commits in by_partition.items():
        yield from _superseded(commits)
        if key in ends:
            yield from _lost_commits(commits, ends[key])


def _superseded(commits: list[Commit]) -> Iterator[str]:
    accepted = sorted((one for one in commits if one.result == OK), key=lambda one: one.t1)
    done, newest = 0, None
    for one in sorted(accepted, key=lambda one: one.t0):
        while done < len(accepted) and accepted[done].t1 < one.t0:
            newest = max(newest or accepted[done], accepted[done], key=lambda other: other.gen)
            done += 1
        if newest is not None and newest.gen > one.gen:
            yield f"I12 {one} was accepted after {newest}"


def _lost_commits(commits: list[Commit], end: int) -> Iterator[str]:
    """The last accepted commit stands, unless one that was not answered came after it was sent."""
    accepted = [one for one in commits if one.result == OK]
    if not accepted:
        return
    last = max(accepted, key=lambda one: one.t1)
    possible = {one.off for one in commits if one.t1 >= last.t0}
    if end not in possible:
        yield f"I12 {last} was accepted, and the group's offset is {end}"


def recovery(history: History) -> Iterator[str]:
    """I13: what a killed broker knew to be committed is still in its files, to the batch."""
    logs = _logs(history)
    for one in history.stoppeds:
        rows = heads(logs.get((one.node, one.tp), []), one.hw)
        if digest(rows) != one.digest:
            yield f"I13 broker {one.node} had {one.tp} up to {one.hw} at {one.t:.1f} s and has something else now"


def cache_bounds(files: Files) -> bool:
    """Whether an epoch cache rises in both of its columns."""
    rows = files.epochs
    return all(a < b and x <= y for (a, x), (b, y) in pairwise(rows))


def first_acknowledgements(history: History) -> list[float]:
    """Seconds without a fault from each heal to the first record acknowledged after it in each partition, sorted."""
    return sorted(seconds for _, _, seconds in _waits(history))


def _waits(history: History) -> Iterator[tuple[str, float, float]]:
    """Partition, heal, and seconds from one to the other; infinite when nothing came, though there was time.

    The time of further faults is not counted: on a slow machine the next one may begin with the heal.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for one in history.acknowledged:
        times[one.tp].append(one.t1)
    end = max((one.t1 for one in history.sends), default=0.0)
    for tp, answered in times.items():
        answered.sort()
        for fault in history.faults:
            at = bisect_left(answered, fault.t1)
            if at < len(answered):
                yield tp, fault.t1, _calm(history, fault.t1, answered[at])
            elif _calm(history, fault.t1, end) > FIRST_ACK_SECONDS_MAX:
                yield tp, fault.t1, float("inf")


def _calm(history: History, begin: float, end: float) -> float:
    """Seconds between two moments in which there was no fault."""
    return end - begin - sum(max(0.0, min(fault.t1, end) - max(fault.t0, begin)) for fault in history.faults)


def silences(history: History) -> list[float]:
    """For each fault, in the order of the faults, the longest time without an acknowledged record of some partition.

    It may begin with the last record before the fault, and end with the first after the heal.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for one in history.acknowledged:
        times[one.tp].append(one.t1)
    longest = []
    for answered in times.values():
        answered.sort()
    for fault in sorted(history.faults, key=lambda one: one.t0):
        gaps = [0.0]
        for answered in times.values():
            first, last = max(bisect_left(answered, fault.t0) - 1, 0), bisect_left(answered, fault.t1) + 1
            gaps += [after - before for before, after in pairwise(answered[first:last])]
        longest.append(max(gaps))
    return longest


def liveness(history: History) -> Iterator[str]:
    """I14: after a heal each partition is written again soon; in the end everything is in sync."""
    for tp, heal, seconds in _waits(history):
        if seconds > FIRST_ACK_SECONDS_MAX:
            yield f"I14 {tp} was first written {seconds:.1f} s after the heal at {heal:.1f} s"
    for full in history.fulls:
        if not 0 <= full.seconds <= FULL_SECONDS_MAX:
            yield f"I14 not every replica was in sync {FULL_SECONDS_MAX:g} s after the last heal"


def seen_wrong(history: History) -> Iterator[str]:
    """What was noted on the spot, whatever law it breaks."""
    for files in history.filess:
        if not cache_bounds(files):
            yield f"I10 broker {files.node} has the epoch cache {files.epochs} of {files.tp}"
    yield from (f"{one.law} {one.detail}" for one in history.founds)
