"""The index of keys, against a dictionary; and the fingerprints by which it knows keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.tables import key_index
from sordini.pipeline.tables.key_fingerprints import Fingerprints, fingerprints
from sordini.pipeline.tables.key_index import DELETED, NOWHERE, Entries, KeyIndex

FILES = 4
PLACES = st.tuples(st.integers(0, FILES - 1) | st.just(DELETED), st.integers(0, 9), st.integers(0, 99))
ADDED = st.dictionaries(st.integers(0, 40), PLACES, min_size=1, max_size=30)
STEPS = st.lists(
    st.tuples(st.just("add"), ADDED)
    | st.tuples(st.just("remove file"), st.integers(0, FILES - 1))
    | st.tuples(st.just("remove row"), st.tuples(st.integers(0, FILES - 1), st.integers(0, 9))),
    max_size=25,
)


def of_keys(keys: list[int]) -> Fingerprints:
    return fingerprints(pa.table({"key": pa.array(keys, pa.int64())}), ["key"])


def alike(keys: list[int]) -> Fingerprints:
    """Fingerprints whose first halves are those of others, too: a third of them each."""
    return Fingerprints(np.array([key % 3 for key in keys], dtype=np.uint64), of_keys(keys).second)


def entries_of(
    added: dict[int, tuple[int, int, int]], of_keys: Callable[[list[int]], Fingerprints] = of_keys
) -> Entries:
    file, position, sequence = zip(*added.values(), strict=True)
    return Entries(
        of_keys(list(added)),
        np.array(file, dtype=np.int32),
        np.array(position, dtype=np.int64),
        pa.table({"at": pa.array(sequence, pa.int64())}),
    )


@given(steps=STEPS, of=st.sampled_from([of_keys, alike]))
def test_a_key_is_where_it_was_put_last(steps: list[tuple[str, Any]], of: Callable[[list[int]], Fingerprints]) -> None:
    index, expected = KeyIndex(), dict[int, tuple[int, int, int]]()
    for number, (what, of_what) in enumerate(steps):
        match what:
            case "add":
                # A file has rows from one step only.
                added = {
                    key: (place[0] + number * FILES if place[0] >= 0 else DELETED, *place[1:])
                    for key, place in of_what.items()
                }
                index.add(entries_of(added, of))
                expected |= added
            case "remove file":
                gone = [each * FILES + of_what for each in range(number)]
                index.remove_files(gone)
                expected = {key: place for key, place in expected.items() if place[0] not in gone}
            case _:
                gone = {(each * FILES + of_what[0], of_what[1]) for each in range(number)}
                file, position = (
                    (np.array(part) for part in zip(*gone, strict=True)) if gone else (np.zeros(0), np.zeros(0))
                )
                index.remove_rows(file, position)
                expected = {key: place for key, place in expected.items() if place[:2] not in gone}
        keys = list(range(45))
        found_file, found_position, sequence = index.lookup(of(keys))
        for at, key in enumerate(keys):
            if key in expected:
                assert sequence is not None
                assert (found_file[at], found_position[at], sequence["at"][at].as_py()) == expected[key]
            else:
                assert found_file[at] == NOWHERE
                assert sequence is None or sequence["at"][at].as_py() is None


def test_a_newer_run_prevails_over_a_longer_one() -> None:
    index = KeyIndex()
    index.add(entries_of({key: (0, key, 0) for key in range(40)}))
    index.add(entries_of({7: (1, 5, 1)}))
    file, position, _ = index.lookup(of_keys([7, 8]))
    assert (file.tolist(), position.tolist()) == ([1, 0], [5, 8])


def test_runs_stay_few_and_what_prevails_over_nothing_is_dropped() -> None:
    index = KeyIndex()
    for number in range(200):
        index.add(entries_of({key: (number, key, number) for key in range(number % 7, 200, 7)}))
    # A few former places of the 200 keys wait for the next merge.
    assert len(index) < 200 * key_index.RATIO
    index.add(entries_of(dict.fromkeys(range(200), (DELETED, 10, 0))))
    index.add(entries_of({1000: (1, 0, 0)}), deletions_since=11)
    index.add(entries_of(dict.fromkeys(range(1000, 1300), (1, 0, 0))), deletions_since=11)
    assert len(index) == 300


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [0, 1, -1, 2**62]),
        (pa.int8(), [0, 1, -1, 127]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)]),
        (pa.string(), ["", "a", "A", "ä", "a\u0308", "a" * 1000]),
        (pa.binary(), [b"", b"\x00", b"\x00\x00", b"\xff"]),
        (pa.decimal128(12, 2), [Decimal("1.00"), Decimal("10.00"), Decimal("-1.00")]),
    ],
)
def test_equal_keys_have_equal_fingerprints_and_others_have_others(kind: pa.DataType, values: list[Any]) -> None:
    rows = pa.table({"key": pa.array(values * 2, kind)})
    found = list(zip(*(half.tolist() for half in fingerprints(rows, ["key"])), strict=True))
    assert found[: len(values)] == found[len(values) :]
    assert len(set(found)) == len(values)


def test_the_columns_of_a_key_are_not_one_text() -> None:
    rows = pa.table({"a": ["x", "xy", "y", "x"], "b": ["yz", "z", "x", "y"]})
    assert len(set(fingerprints(rows, ["a", "b"]).first.tolist())) == 4
    assert fingerprints(rows, ["a", "b"]).first[3] != fingerprints(rows, ["b", "a"]).first[3]
