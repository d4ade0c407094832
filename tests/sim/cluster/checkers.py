"""Verdicts over a cluster's history. Each checker returns its findings as sentences; no finding is a clean run.

Elections here are clean, and what loses its power flushes every message, so that nothing committed may ever be lost.

  I1  a value acknowledged to acks=all is in the final read;
  I2  one value, one offset, and idempotent producers are not forgotten;
  I3  one offset, one value: in acknowledgements of acks=all, polls, logs below a written watermark, and the final read;
  I4  order of sequences is order of offsets, and what was acknowledged before another was sent lies before it;
  I5  what a consumer was given is there in the end;
  I7  in one session positions rise and leave nothing out, and no position inside the log is out of range;
  I8  no consumer reads at or above the high watermark; a leader's high watermark never falls; the latest offset that
      clients receive never falls from one leader to the next (KIP-207); no checkpoint of it is beyond its log;
  I9  in the end all replicas are equal, byte for byte, up to the high watermark;
  I10 epochs rise in every log; records of one epoch at one offset are equal in all logs, because one leader wrote them;
      the epoch cache matches the batches;
  I11 no value that was never sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from sordini.protocol.types import TopicPartition
from tests.sim.checkers import Incarnations, disorder, duplicates, false_resets, skips
from tests.sim.cluster.clients import Mark
from tests.sim.cluster.images import Image
from tests.sim.history import History, Seen
from tests.sim.records import MARKER


class Evidence(NamedTuple):
    """What is judged."""

    history: History
    strong: frozenset[str]
    """The producers with acks=all."""
    marks: Sequence[Mark]
    images: Sequence[Image]
    """Of nodes that ended while others ran."""
    final: Sequence[Image]
    """Of all nodes at the end of the run."""
    elected: Collection[tuple[TopicPartition, int]]
    """The leader epochs that a controller has begun."""


def check(evidence: Evidence) -> list[str]:
    """All findings of all checkers."""
    history = evidence.history
    strong = dataclasses.replace(history, sends=[send for send in history.sends if send.producer in evidence.strong])
    return [
        *lost_writes(strong),
        *duplicates(history),
        *(f"I2 the cluster forgot {who} at {at:.3f}" for at, _, who in history.forgotten_producers),
        *(f"I2 a batch of a past epoch of {who} was taken at {at:.3f}" for at, who in history.fenced_in),
        *inconsistent_offsets(strong, [*evidence.images, *evidence.final]),
        *disorder(strong, Incarnations(strong)),
        *dirty_reads(history),
        *skips(history),
        *false_resets(history),
        *read_too_far(history),
        *fallen_watermarks(evidence.marks),
        *fallen_ends(evidence.marks),
        *written_too_far([*evidence.images, *evidence.final]),
        *divergence(evidence.final),
        *epochs_fall([*evidence.images, *evidence.final]),
        *two_leaders([*evidence.images, *evidence.final]),
        *epochs_without_leader([*evidence.images, *evidence.final], evidence.elected),
        *epoch_caches(evidence.final),
        *phantoms(history, evidence.final),
    ]


def lost_writes(history: History) -> Iterator[str]:
    kept = {(partition, seen.value) for partition, poll in history.final.items() for seen in poll.seen}
    for send in history.sends:
        if send.outcome == "ok":
            for value in send.values:
                if (send.partition, value) not in kept:
                    where = f"{send.partition}@{send.base_offset}"
                    yield f"I1 {value} was acknowledged at {where} at {send.ended:.3f} and is gone"


def inconsistent_offsets(history: History, images: Iterable[Image]) -> Iterator[str]:
    held: dict[tuple[TopicPartition, int], tuple[str, str]] = {}
    for partition, seen, where in _committed(history, images):
        known = held.setdefault((partition, seen.offset), (seen.value, where))
        if known[0] != seen.value:
            yield f"I3 {partition}@{seen.offset} held {known[0]} ({known[1]}) and {seen.value} ({where})"


def _committed(history: History, images: Iterable[Image]) -> Iterator[tuple[TopicPartition, Seen, str]]:
    for partition, poll in history.final.items():
        yield from ((partition, seen, "final read") for seen in poll.seen)
    for send in history.sends:
        if send.outcome == "ok" and send.base_offset >= 0:
            for index, value in enumerate(send.values):
                yield send.partition, Seen(send.base_offset + index, value), f"acknowledged at {send.ended:.3f}"
    for poll in history.polls:
        yield from ((poll.partition, seen, f"read at {poll.at:.3f}") for seen in poll.seen)
    for image in images:
        for batch in image.batches:
            if batch.last_offset < image.high_watermark:
                where = f"in node {image.node}'s log at {image.at:.3f}"
                yield from ((image.partition, seen, where) for seen in batch.seen())


def dirty_reads(history: History) -> Iterator[str]:
    kept = {(partition, *seen) for partition, poll in history.final.items() for seen in poll.seen}
    for poll in history.polls:
        for offset, value in poll.seen:
            if (poll.partition, offset, value) not in kept:
                yield f"I5 {poll.consumer} read {value} at {poll.partition}@{offset} at {poll.at:.3f}, and it is not there"


def read_too_far(history: History) -> Iterator[str]:
    for poll in history.polls:
        if poll.seen and poll.seen[-1].offset >= poll.high_watermark:
            last = poll.seen[-1].offset
            yield f"I8 {poll.partition}@{last} was served below a watermark of {poll.high_watermark}"


def fallen_watermarks(marks: Sequence[Mark]) -> Iterator[str]:
    highest: dict[tuple[TopicPartition, int], Mark] = {}
    for mark in marks:
        key = (mark.partition, mark.leader_epoch)
        known = highest.setdefault(key, mark)
        if known.high_watermark > mark.high_watermark:
            yield (
                f"I8 the watermark of {mark.partition} in epoch {mark.leader_epoch} fell from {known.high_watermark} "
                f"to {mark.high_watermark} at {mark.ended:.3f}"
            )
        else:
            highest[key] = mark


def fallen_ends(marks: Sequence[Mark]) -> Iterator[str]:
    """The observer has one request in flight, so all earlier marks were answered before."""
    exposed: dict[TopicPartition, Mark] = {}
    for mark in marks:
        known = exposed.get(mark.partition)
        if known is not None and known.leader_epoch > mark.leader_epoch:
            continue  # A deposed leader may still answer.
        if mark.is_latest and known is not None and mark.high_watermark < known.high_watermark:
            yield (
                f"I8 the latest offset of {mark.partition} was {mark.high_watermark} in epoch {mark.leader_epoch}, "
                f"after a watermark of {known.high_watermark} in epoch {known.leader_epoch}"
            )
        if known is None or mark.high_watermark > known.high_watermark:
            exposed[mark.partition] = mark


def written_too_far(images: Iterable[Image]) -> Iterator[str]:
    for image in images:
        if image.high_watermark > image.end:
            yield f"I8 node {image.node} wrote a watermark of {image.high_watermark} for {image.partition}@{image.end}"


def divergence(images: Iterable[Image]) -> Iterator[str]:
    for partition, copies in _by_partition(images).items():
        lowest = min(copy.high_watermark for copy in copies)
        first = copies[0]
        committed = [batch for batch in first.batches if batch.last_offset < lowest]
        for copy in copies[1:]:
            for one, other in zip(committed, copy.batches, strict=False):
                if one != other:
                    yield (
                        f"I9 {partition}@{one.base_offset} is of epoch {one.leader_epoch} on node {first.node}, and on "
                        f"node {copy.node} @{other.base_offset} of epoch {other.leader_epoch}"
                    )
                    break
        if len({copy.end for copy in copies}) > 1:
            yield f"I14 {partition} ends at {', '.join(f'@{copy.end} on {copy.node}' for copy in copies)}"


def epochs_fall(images: Iterable[Image]) -> Iterator[str]:
    for image in images:
        last = -1
        for batch in image.batches:
            if batch.leader_epoch < last:
                where = f"{image.partition}@{batch.base_offset} on node {image.node}"
                yield f"I10 {where} is of epoch {batch.leader_epoch}, after {last}"
            last = batch.leader_epoch


def two_leaders(images: Iterable[Image]) -> Iterator[str]:
    written: dict[tuple[TopicPartition, int, int], tuple[bytes, int]] = {}
    for image in images:
        for batch in image.batches:
            place = (image.partition, batch.leader_epoch, batch.base_offset)
            data, node = written.setdefault(place, (batch.data, image.node))
            if data != batch.data:
                yield (
                    f"I10 {image.partition}@{batch.base_offset} of epoch {batch.leader_epoch} is one batch on node "
                    f"{node} and another on node {image.node}"
                )


def epochs_without_leader(images: Iterable[Image], elected: Collection[tuple[TopicPartition, int]]) -> Iterator[str]:
    for image in images:
        for batch in image.batches:
            if (image.partition, batch.leader_epoch) not in elected:
                where = f"{image.partition}@{batch.base_offset} on node {image.node}"
                yield f"I10 {where} is of epoch {batch.leader_epoch}, in which no leader was elected"


def epoch_caches(images: Iterable[Image]) -> Iterator[str]:
    for image in images:
        starts: dict[int, int] = {}
        for batch in image.batches:
            starts.setdefault(batch.leader_epoch, batch.base_offset)
        cached = dict(image.epochs)
        where = f"{image.partition} on node {image.node}"
        for epoch, start in starts.items():
            if cached.get(epoch) != start:
                yield f"I10 {where}: epoch {epoch} begins at @{start}, its epoch cache says {cached.get(epoch)}"
        if list(image.epochs) != sorted(image.epochs) or sorted(cached.values()) != list(cached.values()):
            yield f"I10 {where}: the epoch cache is not in order: {image.epochs}"
        for epoch, start in cached.items():
            if epoch not in starts and start > image.end:
                yield f"I10 {where}: the epoch cache begins {epoch} at @{start}, beyond @{image.end}"


def phantoms(history: History, images: Iterable[Image]) -> Iterator[str]:
    for poll in history.polls:
        yield from _unsent(history, poll.partition, poll.seen)
    for image in images:
        if image.partition.topic.startswith("__"):
            continue  # The brokers' own records: those of transactions are judged in tests/sim/transactions.
        for batch in image.batches:
            yield from _unsent(history, image.partition, batch.seen())


def _unsent(history: History, partition: TopicPartition, seen: Iterable[Seen]) -> Iterator[str]:
    for offset, value in seen:
        if value not in history.attempted and not value.startswith(MARKER):
            yield f"I11 {partition}@{offset} holds {value!r}, which was never sent"


def _by_partition(images: Iterable[Image]) -> dict[TopicPartition, list[Image]]:
    found: dict[TopicPartition, list[Image]] = {}
    for image in images:
        found.setdefault(image.partition, []).append(image)
    return found
