"""Verdicts over a history. Each checker returns its findings as sentences; an empty list is a clean run.

A power loss may truncate the unsynced end of a log; its offsets are then assigned again. So an offset is always
named together with its *incarnation*: the number of power losses that have truncated it. `Incarnations` counts them.

Retention deletes from the start of a log: a value counts as kept when its offset lies before the final read.

The promises that are judged here (names as in the reliability notes):
  I1  an acknowledged value is in the final read, unless a power loss took it from the unsynced end, which it may
      not where every message is flushed;
  I2  one value, one offset, and producers are not forgotten;
  I3  one offset, one value, in every log, acknowledgement and poll;
  I4  order of sequences is order of offsets, and what was acknowledged before another was sent lies before it;
  I7  in one session positions rise and leave nothing out, and a session ends only when the log left its position;
  I8  no consumer reads at or above the high watermark, and it does not fall within one incarnation;
  I11 no value that was never sent;
  I13 a log after a restart is a prefix of what it was, whole but for what a power loss may take; a log directory
      that gave an I/O error acknowledges nothing any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from sordini.protocol.types import TopicPartition
from tests.sim.group_checkers import check_groups
from tests.sim.history import Dump, History, Restart, Seen, Send
from tests.sim.records import MARKER

Place = tuple[TopicPartition, int, int]
END_OF_TIME = float("inf")


class Incarnations:
    """The incarnation of an offset at a time."""

    def __init__(self, history: History) -> None:
        self._restarts = [restart.at for restart in history.restarts]
        self._cuts: dict[TopicPartition, list[tuple[float, int]]] = {}
        for restart in history.restarts:
            for partition, before in restart.before.items():
                after = restart.after.get(partition)
                end = after.end if after is not None else 0
                if end < before.end:
                    self._cuts.setdefault(partition, []).append((restart.at, end))

    def place(self, partition: TopicPartition, offset: int, at: float) -> Place:
        """The offset with the number of truncations that had removed it by `at`."""
        cuts = self._cuts.get(partition, ())
        return partition, offset, sum(1 for when, end in cuts if when <= at and offset >= end)

    def count(self, partition: TopicPartition, at: float) -> int:
        """How often a log had been truncated by `at`."""
        return sum(1 for when, _ in self._cuts.get(partition, ()) if when <= at)

    def spans_restart(self, began: float, ended: float) -> bool:
        """Whether the incarnation that served a call is unknown: an answer may be read after its process ended."""
        return any(began <= at <= ended for at in self._restarts)

    def is_lost(self, partition: TopicPartition, offset: int, at: float) -> bool:
        """Whether a later power loss removed the record that was at this offset at `at`."""
        return any(when > at and offset >= end for when, end in self._cuts.get(partition, ()))


def check(history: History) -> list[str]:
    """All findings of all checkers."""
    incarnations = Incarnations(history)
    return [
        *lost_writes(history),
        *duplicates(history),
        *inconsistent_offsets(history, incarnations),
        *disorder(history, incarnations),
        *skips(history),
        *false_resets(history),
        *watermarks(history, incarnations),
        *phantoms(history, incarnations),
        *recoveries(history),
        *dumps(history),
        *forgotten(history),
        *offline_answers(history),
        *(f"I2 a batch of a past epoch of {who} was taken at {at:.3f}" for at, who in history.fenced_in),
        *check_groups(history),
    ]


def lost_writes(history: History) -> Iterator[str]:
    kept = {(partition, seen.value) for partition, poll in history.final.items() for seen in poll.seen}
    starts = {partition: poll.asked for partition, poll in history.final.items()}
    kept.update(_retained_away(history, starts))
    taken: dict[tuple[TopicPartition, str], float] = {}
    for restart in history.restarts:
        for place in _taken(restart):
            taken.setdefault(place, restart.at)
    for send in history.sends:
        if send.outcome != "ok":
            continue
        for index, value in enumerate(send.values):
            lost_at = taken.get((send.partition, value))
            if lost_at is not None:
                if send.partition.topic in history.durable_topics and send.ended <= lost_at:
                    yield f"I1 {value} at {_at(send, index)} was flushed, acknowledged, and lost with the power"
            elif (send.partition, value) not in kept and not 0 <= send.base_offset < starts.get(send.partition, 0):
                yield f"I1 {value} was acknowledged at {_at(send, index)} and is gone"


def _retained_away(history: History, starts: dict[TopicPartition, int]) -> Iterator[tuple[TopicPartition, str]]:
    """Values seen at offsets that now lie before the log start offset."""
    for poll in history.polls:
        yield from ((poll.partition, value) for offset, value in poll.seen if offset < starts.get(poll.partition, 0))
    for restart in history.restarts:
        for partition, dump in restart.before.items():
            yield from ((partition, value) for offset, value in dump.seen if offset < starts.get(partition, 0))


def duplicates(history: History) -> Iterator[str]:
    for partition, poll in history.final.items():
        first: dict[str, int] = {}
        for offset, value in poll.seen:
            if value in first:
                yield f"I2 {value} is at {partition}@{first[value]} and at @{offset}"
            first.setdefault(value, offset)


def inconsistent_offsets(history: History, incarnations: Incarnations) -> Iterator[str]:
    held: dict[Place, str] = {}
    for partition, seen, at in _observations(history, incarnations):
        place = incarnations.place(partition, seen.offset, at)
        if held.setdefault(place, seen.value) != seen.value:
            yield f"I3 {partition}@{seen.offset} held {held[place]} and then {seen.value}"


def disorder(history: History, incarnations: Incarnations) -> Iterator[str]:
    by_sequence: dict[tuple[int, int, TopicPartition], list[Send]] = {}
    known = [send for send in history.sends if send.outcome == "ok" and send.base_offset >= 0]
    standing = [s for s in known if not incarnations.is_lost(s.partition, s.base_offset, s.began)]
    for send in standing:
        if send.producer_id >= 0:
            key = (send.producer_id, send.producer_epoch, send.partition)
            by_sequence.setdefault(key, []).append(send)
    for sends in by_sequence.values():
        sends.sort(key=lambda send: send.sequence)
        for earlier, later in itertools.pairwise(sends):
            if earlier.base_offset >= later.base_offset:
                yield (
                    f"I4 {later.partition}: sequence {earlier.sequence} is at @{earlier.base_offset}, "
                    f"sequence {later.sequence} at @{later.base_offset}"
                )
    yield from _real_time_disorder(standing)


def _real_time_disorder(sends: list[Send]) -> Iterator[str]:
    partitions: dict[TopicPartition, list[Send]] = {}
    for send in sends:
        partitions.setdefault(send.partition, []).append(send)
    for partition, of_one in partitions.items():
        ended = sorted(of_one, key=lambda send: send.ended)
        highest, next_ended = None, 0
        for send in sorted(of_one, key=lambda send: send.began):
            while next_ended < len(ended) and ended[next_ended].ended < send.began:
                candidate = ended[next_ended]
                if highest is None or candidate.base_offset > highest.base_offset:
                    highest = candidate
                next_ended += 1
            if highest is not None and send.base_offset < highest.base_offset:
                yield (
                    f"I4 {partition}: {send.values[0]} was sent after {highest.values[0]} was acknowledged "
                    f"at @{highest.base_offset}, and lies at @{send.base_offset}"
                )


def skips(history: History) -> Iterator[str]:
    next_offset: dict[tuple[str, int, TopicPartition], int] = {}
    for poll in [*history.polls, *history.final.values()]:
        key = (poll.consumer, poll.session, poll.partition)
        for offset, _ in poll.seen:
            expected = next_offset.get(key, poll.asked)
            if offset != expected:
                yield f"I7 {poll.consumer} read {poll.partition}@{offset} where @{expected} was due"
            next_offset[key] = offset + 1


def false_resets(history: History) -> Iterator[str]:
    losses = [restart.at for restart in history.restarts if restart.kind == "power"]
    for reset in history.resets:
        if reset.earliest <= reset.position and not any(at <= reset.at for at in losses):
            yield (
                f"I7 {reset.consumer} was sent away from {reset.partition}@{reset.position} at {reset.at:.3f}, "
                f"and the log begins at @{reset.earliest}"
            )


def watermarks(history: History, incarnations: Incarnations) -> Iterator[str]:
    # Compared within one consumer: answers to two of them may overtake each other on their ways.
    highest: dict[tuple[str, TopicPartition, int], int] = {}
    for poll in [*history.polls, *history.final.values()]:
        if poll.seen and poll.seen[-1].offset >= poll.high_watermark:
            last = poll.seen[-1].offset
            yield f"I8 {poll.partition}@{last} was served below a watermark of {poll.high_watermark}"
        if incarnations.spans_restart(poll.began, poll.at):
            continue
        key = (poll.consumer, poll.partition, incarnations.count(poll.partition, poll.at))
        so_far = highest.get(key, 0)
        if poll.high_watermark < so_far or poll.high_watermark < 0:
            yield f"I8 the watermark of {poll.partition} fell from {so_far} to {poll.high_watermark}"
        highest[key] = max(so_far, poll.high_watermark)


def phantoms(history: History, incarnations: Incarnations) -> Iterator[str]:
    for partition, seen, _ in _observations(history, incarnations):
        # What the broker itself writes down is judged with the groups.
        is_own = partition.topic.startswith("__") or seen.value.startswith(MARKER)
        if seen.value not in history.attempted and not is_own:
            yield f"I11 {partition}@{seen.offset} holds {seen.value!r}, which was never sent"


def recoveries(history: History) -> Iterator[str]:
    for restart in history.restarts:
        for partition, before in restart.before.items():
            after = restart.after.get(partition)
            if after is None:
                if before.seen and (restart.kind != "power" or before.synced_end > before.base):
                    yield f"I13 {partition} did not come back after a {restart.kind}"
                continue
            if before.is_compacted or after.is_compacted:
                continue  # Not dense: what is left of the broker's own records is judged with the groups.
            end, old_end = after.end, before.end
            if not _agree(before.seen, _without_the_next_process(partition, before, after)):
                yield f"I13 {partition} is no prefix of what it was before the {restart.kind} at {restart.at:.3f}"
            if restart.kind != "power" and end < old_end:
                yield f"I13 {partition} came back from a {restart.kind} with @{end} of @{old_end}"
            if restart.kind != "power" and after.base < before.base:
                yield f"I13 {partition} began at @{before.base} and came back with @{after.base}"
            if end < before.synced_end:
                yield f"I13 {partition} was synced to @{before.synced_end} and came back with @{end}"


def dumps(history: History) -> Iterator[str]:
    """The final read of the clients equals the files."""
    for partition, dump in history.dumps.items():
        final = history.final.get(partition)
        # Retention may have run between the two.
        if final is not None and tuple(seen for seen in final.seen if seen.offset >= dump.base) != dump.seen:
            yield f"I3 {partition}: the final read has {len(final.seen)} records, the files {len(dump.seen)}, or others"


def forgotten(history: History) -> Iterator[str]:
    """Producer state survives everything but a power loss; after a restart it reaches as far back as the log."""
    losses = [(restart.at, restart.kind == "power") for restart in history.restarts]
    for at, topic, who in history.forgotten_producers:
        is_retained = topic in history.retained_topics
        if not any(loss <= at and (is_power or is_retained) for loss, is_power in losses):
            yield f"I2 the broker forgot {who} at {at:.3f}, and the power was never lost"


def offline_answers(history: History) -> Iterator[str]:
    """An I/O error takes the log directory offline, until the process ends."""
    for partition, start, end in history.offline:
        for send in history.sends:
            if send.partition == partition and send.outcome == "ok" and start < send.began and send.ended <= end:
                yield f"I13 {send.values[0]} of {partition} was acknowledged at {send.ended:.3f}, offline since {start:.3f}"


def _observations(history: History, incarnations: Incarnations) -> Iterator[tuple[TopicPartition, Seen, float]]:
    for send in history.sends:
        if send.outcome == "ok" and send.base_offset >= 0:
            for index, value in enumerate(send.values):
                if not incarnations.spans_restart(send.began, send.ended):
                    yield send.partition, Seen(send.base_offset + index, value), send.ended
    for poll in history.polls:
        if not incarnations.spans_restart(poll.began, poll.at):
            yield from _each(poll.partition, poll.seen, poll.at)
    for restart in history.restarts:
        for partition, dump in restart.after.items():
            yield from _each(partition, dump.seen, restart.at)
    for partition, poll in history.final.items():
        yield from _each(partition, poll.seen, END_OF_TIME)
    for partition, dump in history.dumps.items():
        yield from _each(partition, dump.seen, END_OF_TIME)


def _each(partition: TopicPartition, seen: Iterable[Seen], at: float) -> Iterator[tuple[TopicPartition, Seen, float]]:
    for record in seen:
        yield partition, record, at


def _taken(restart: Restart) -> Iterator[tuple[TopicPartition, str]]:
    """The values that a power loss took from the end of a log."""
    if restart.kind != "power":
        return
    for partition, before in restart.before.items():
        after = restart.after.get(partition)
        end = after.end if after is not None else 0
        for offset, value in before.seen:
            if offset >= end:
                yield partition, value


def _agree(before: tuple[Seen, ...], after: tuple[Seen, ...]) -> bool:
    """Whether two dumps hold the same where both hold something; a power loss may undo a deletion at the start."""
    known = dict(before)
    return all(known.get(offset, value) == value for offset, value in after) and (
        not after or not before or after[-1].offset <= before[-1].offset
    )


def _without_the_next_process(partition: TopicPartition, before: Dump, after: Dump) -> tuple[Seen, ...]:
    """What a restart left: the next transaction coordinator may have sent markers, and written so, meanwhile."""
    known = dict(before.seen)
    last = before.seen[-1].offset if before.seen else -1
    for index, (offset, value) in enumerate(after.seen):
        is_own = value.startswith(MARKER) or partition.topic == "__transaction_state"
        if is_own and (offset > last or known.get(offset, value) != value):
            return after.seen[:index]
    return after.seen


def _at(send: Send, index: int) -> str:
    return f"{send.partition}@{send.base_offset + index if send.base_offset >= 0 else '?'}"
