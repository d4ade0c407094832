"""Every anomaly that is planted in a cluster's evidence is found, and clean evidence is clean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from tests.sim.cluster.checkers import Evidence, check
from tests.sim.cluster.clients import Mark
from tests.sim.cluster.images import Batch, Image, images_of
from tests.sim.history import History, Poll, Reset, Seen, Send

TP = TopicPartition("t", 0)
ONE, TWO = ("node1", 9092), ("node2", 9092)


def _batch(values: str, base_offset: int, epoch: int) -> Batch:
    records = [Record(base_offset + index, 0, None, value.encode()) for index, value in enumerate(values)]
    data = build_batch(records, base_offset=base_offset, leader_epoch=epoch)
    return Batch(base_offset, base_offset + len(values) - 1, epoch, data)


GOOD = (_batch("ab", 0, 0), _batch("cd", 2, 0), _batch("ef", 4, 3))


def _image(node: int, batches: tuple[Batch, ...] = GOOD, **changes: object) -> Image:
    image = Image(node, 100.0, TP, batches, ((0, 0), (3, 4)), 6)
    return image._replace(**changes)  # type: ignore[arg-type]


def _send(values: str, base_offset: int, at: float, **changes: object) -> Send:
    send = Send("p", TP, tuple(values), at, at + 0.5, "ok", base_offset, 7, 0, base_offset)
    return dataclasses.replace(send, **changes)  # type: ignore[arg-type]


def _poll(values: str, start: int = 0, **changes: object) -> Poll:
    seen = tuple(Seen(start + index, value) for index, value in enumerate(values))
    poll = Poll("c", 1, 5.0, 5.0, TP, start, seen, start + len(values))
    return dataclasses.replace(poll, **changes)  # type: ignore[arg-type]


def _mark(high_watermark: int, epoch: int = 0, at: float = 2.0, *, is_latest: bool = False) -> Mark:
    return Mark(TP, ONE, epoch, is_latest, high_watermark, at, at)


def _evidence() -> Evidence:
    history = History(attempted=set("abcdefgh"))
    history.sends = [_send("ab", 0, 1.0), _send("cd", 2, 2.0), _send("ef", 4, 3.0)]
    history.polls = [_poll("abc"), _poll("def", 3)]
    history.final = {TP: _poll("abcdef", consumer="final", at=100.0)}
    marks = [_mark(2), _mark(4, is_latest=True), _mark(4, 3), _mark(6, 3, is_latest=True)]
    final = [_image(1), _image(2), _image(3)]
    elected = {(TP, epoch) for epoch in (0, 1, 3)}
    return Evidence(history, frozenset({"p"}), marks, [_image(1, GOOD[:2], high_watermark=4)], final, elected)


def _codes(evidence: Evidence) -> set[str]:
    return {finding.split()[0] for finding in check(evidence)}


def test_clean_evidence_is_clean():
    assert check(_evidence()) == []


def test_a_record_acknowledged_with_acks_1_may_be_lost_with_its_leader():
    evidence = _evidence()
    evidence.history.sends.append(_send("gh", 4, 2.5, producer="weak", producer_id=-1))
    evidence.images.append(_image(2, (*GOOD[:2], _batch("gh", 4, 1)), high_watermark=4))  # type: ignore[attr-defined]
    assert check(evidence) == []


def test_a_leader_of_the_past_may_tell_an_older_watermark():
    evidence = _evidence()
    evidence.marks.append(_mark(5, 0, is_latest=True))  # type: ignore[attr-defined]
    assert check(evidence) == []


def _lost(evidence: Evidence) -> Evidence:
    evidence.history.sends.append(_send("g", 6, 4.0, producer_id=-1))
    return evidence


def _twice(evidence: Evidence) -> Evidence:
    evidence.history.final[TP] = _poll("abcdefa")
    return evidence._replace(final=[_image(1, (*GOOD, _batch("a", 6, 3)))])


def _forgotten(evidence: Evidence) -> Evidence:
    evidence.history.forgotten_producers.append((4.0, "t", "p"))
    return evidence


def _other_value(evidence: Evidence) -> Evidence:
    evidence.history.sends.append(_send("g", 5, 4.0, producer_id=-1))
    evidence.history.final[TP] = _poll("abcdefg")
    return evidence


def _other_value_below_a_written_watermark(evidence: Evidence) -> Evidence:
    batches = (*GOOD[:2], _batch("gh", 4, 1))
    return evidence._replace(images=[_image(2, batches, epochs=((0, 0), (1, 4)))])


def _out_of_order(evidence: Evidence) -> Evidence:
    evidence.history.sends[1] = _send("cd", 2, 2.0, sequence=9)
    return evidence


def _read_and_gone(evidence: Evidence) -> Evidence:
    evidence.history.polls.append(_poll("g", 6))
    return evidence


def _skipped(evidence: Evidence) -> Evidence:
    evidence.history.polls[1] = _poll("ef", 4, asked=3)
    return evidence


def _sent_away(evidence: Evidence) -> Evidence:
    evidence.history.resets.append(Reset("c", TP, 5.0, 3, 0))
    return evidence


def _read_too_far(evidence: Evidence) -> Evidence:
    evidence.history.polls[1] = _poll("def", 3, high_watermark=5)
    return evidence


def _watermark_falls(evidence: Evidence) -> Evidence:
    return evidence._replace(marks=[_mark(4), _mark(3)])


def _latest_falls(evidence: Evidence) -> Evidence:
    return evidence._replace(marks=[_mark(4), _mark(3, 1, is_latest=True)])


def _watermark_beyond_the_log(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, high_watermark=7)])


def _other_bytes(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, (*GOOD[:2], _batch("gf", 4, 3)))])


def _behind(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, GOOD[:2], epochs=((0, 0),), high_watermark=4)])


def _epoch_falls(evidence: Evidence) -> Evidence:
    batches = (GOOD[0], _batch("cd", 2, 4), GOOD[2])
    return evidence._replace(images=[_image(2, batches, high_watermark=0)])


def _two_writers(evidence: Evidence) -> Evidence:
    return evidence._replace(images=[_image(2, (*GOOD[:2], _batch("gh", 4, 3)), high_watermark=4)])


def _unelected(evidence: Evidence) -> Evidence:
    return evidence._replace(images=[_image(2, (*GOOD[:2], _batch("gh", 4, 2)), high_watermark=4)])


def _wrong_cache(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, epochs=((0, 0), (3, 3)))])


def _missing_cache(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, epochs=((0, 0),))])


def _cache_beyond(evidence: Evidence) -> Evidence:
    return evidence._replace(final=[_image(1), _image(2, epochs=((0, 0), (3, 4), (5, 9)))])


def _phantom(evidence: Evidence) -> Evidence:
    evidence.history.attempted.remove("c")
    return evidence


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_lost, "I1"),
        (_twice, "I2"),
        (_forgotten, "I2"),
        (_other_value, "I3"),
        (_other_value_below_a_written_watermark, "I3"),
        (_out_of_order, "I4"),
        (_read_and_gone, "I5"),
        (_skipped, "I7"),
        (_sent_away, "I7"),
        (_read_too_far, "I8"),
        (_watermark_falls, "I8"),
        (_latest_falls, "I8"),
        (_watermark_beyond_the_log, "I8"),
        (_other_bytes, "I9"),
        (_behind, "I14"),
        (_epoch_falls, "I10"),
        (_two_writers, "I10"),
        (_unelected, "I10"),
        (_wrong_cache, "I10"),
        (_missing_cache, "I10"),
        (_cache_beyond, "I10"),
        (_phantom, "I11"),
    ],
)
def test_every_planted_anomaly_is_found(plant: Callable[[Evidence], Evidence], code: str):
    assert code in _codes(plant(_evidence()))


def test_an_image_is_read_from_the_files_up_to_the_first_damage():
    log = b"".join(batch.data for batch in GOOD)
    tree = {
        "/data/t-0/00000000000000000000.log": log[:-1],
        "/data/t-0/leader-epoch-checkpoint": b"0\n2\n0 0\n3 4\n",
        "/data/replication-offset-checkpoint": b"0\n1\nt 0 4\n",
        "/data/t-0.0123-delete/00000000000000000000.log": log,
    }
    image = Image(1, 9.0, TP, GOOD[:2], ((0, 0), (3, 4)), 4)
    assert images_of(1, 9.0, "/data", tree) == {TP: image}
    assert image.end == 4
    assert [seen.value for batch in image.batches for seen in batch.seen()] == list("abcd")
