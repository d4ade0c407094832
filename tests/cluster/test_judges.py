"""What judges the clusters finds what is planted for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.history import Fate, History, Sent, Transaction, broken_transactions, violations
from tests.cluster.replicas import differences
from tests.support.builders import a_batch

AT = ("t", 0)
FINAL = {AT: [(0, b"a"), (1, b"b"), (2, b"c")]}


def a_history() -> History:
    """Three records, of which all but the last are acknowledged."""
    sent = [Sent(AT, b"a", 0, Fate.DONE, 0), Sent(AT, b"b", 1, Fate.DONE, 1), Sent(AT, b"c", 2)]
    return History(sent)


def test_a_history_that_keeps_every_law_is_praised() -> None:
    assert violations(a_history(), FINAL, [{AT: [(0, b"a")]}]) == []
    assert violations(a_history(), {AT: FINAL[AT][:2]}) == [], "what was not acknowledged may be missing"


@pytest.mark.parametrize(
    ("law", "final"),
    [
        ("I1", [(0, b"a")]),
        ("I2", [(0, b"a"), (1, b"b"), (2, b"a")]),
        ("I3", [(0, b"a"), (5, b"b")]),
        ("I4", [(1, b"b"), (2, b"c"), (3, b"a")]),
        ("I11", [(0, b"a"), (1, b"b"), (2, b"z")]),
    ],
)
def test_each_broken_law_is_reported(law: str, final: list[tuple[int, bytes]]) -> None:
    assert law in {line.split()[0] for line in violations(a_history(), {AT: final})}


def test_a_reader_that_read_other_records_meanwhile_is_reported() -> None:
    (line,) = violations(a_history(), FINAL, [{AT: [(1, b"c")]}])
    assert line.startswith("I3")


@pytest.mark.parametrize(
    ("law", "fate", "there"),
    [("I6", Fate.DONE, [b"a"]), ("I5", Fate.UNDONE, [b"a"]), ("I6", Fate.UNKNOWN, [b"b"])],
)
def test_each_broken_law_of_transactions_is_reported(law: str, fate: Fate, there: list[bytes]) -> None:
    history = History(transactions=[Transaction(frozenset({b"a", b"b"}), fate)])
    (line,) = broken_transactions(history, {AT: list(enumerate(there))})
    assert line.startswith(law)


def test_an_aborted_record_that_a_reader_saw_once_is_reported() -> None:
    history = History(transactions=[Transaction(frozenset({b"a"}), Fate.UNDONE)])
    assert broken_transactions(history, {AT: []}) == []
    assert broken_transactions(history, {AT: []}, [{AT: [(0, b"a")]}]) != []


def a_replica(home: Path, *batches: bytes, high_watermark: int) -> Path:
    """A log directory with one partition."""
    (home / "t-0").mkdir(parents=True)
    (home / "t-0" / f"{0:020d}.log").write_bytes(b"".join(batches))
    (home / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {high_watermark}\n")
    return home


FIRST, SECOND, THIRD = (a_batch(2, base_offset=base, leader_epoch=1) for base in (0, 2, 4))
OTHER = a_batch(2, base_offset=2, leader_epoch=2)


@pytest.mark.parametrize(
    ("theirs", "watermark", "in_sync", "is_found"),
    [
        ((FIRST, SECOND, THIRD), 6, {1, 2}, False),
        ((FIRST, SECOND), 4, {1, 2}, True),  # In sync without what its leader knows to be committed.
        ((FIRST, SECOND), 4, {1}, False),
        ((FIRST, OTHER), 4, {1}, True),
        ((FIRST, OTHER), 2, {1}, False),
        ((FIRST, OTHER, THIRD), 6, {1, 2}, True),
    ],
)
def test_replicas_that_differ_below_the_committed_offset_are_reported(
    tmp_path: Path, theirs: tuple[bytes, ...], watermark: int, in_sync: set[int], *, is_found: bool
) -> None:
    homes = {
        1: a_replica(tmp_path / "1", FIRST, SECOND, THIRD, high_watermark=6),
        2: a_replica(tmp_path / "2", *theirs, high_watermark=watermark),
    }
    problems, end = differences("t", 0, homes, in_sync)
    assert bool(problems) is is_found, problems
    assert end == 6


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data[:-1] + b"\x7f"], ids=["torn", "corrupt"])
def test_a_torn_or_corrupt_batch_is_reported(tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    homes = {1: a_replica(tmp_path / "1", FIRST, harm(SECOND), high_watermark=4)}
    with pytest.raises(AssertionError, match=r"torn|corrupt"):
        differences("t", 0, homes, {1})
