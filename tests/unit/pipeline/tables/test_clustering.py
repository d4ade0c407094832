from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.tables.clustering import clustered, interleaved, order

PAIRS = st.lists(st.tuples(st.sampled_from([None, *range(20)]), st.sampled_from([None, "a", "b", "ü"])), max_size=25)


def rows_of(pairs: list[tuple[Any, Any]]) -> pa.RecordBatch:
    numbers, texts = [number for number, _ in pairs], [text for _, text in pairs]
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64()), "text": pa.array(texts, pa.string())})


def sorted_rows(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(map(str, (row for batch in batches for row in batch.to_pylist())))


@given(PAIRS, st.sampled_from([(), ("n",), ("text", "n")]), st.integers(0, 25))
def test_clustering_keeps_every_row_once(pairs: list[tuple[Any, Any]], columns: tuple[str, ...], half: int) -> None:
    batches = [rows_of(pairs[:half]), rows_of(pairs[half:])]
    assert sorted_rows(list(clustered(batches, columns))) == sorted_rows(batches)


@given(PAIRS)
def test_rows_are_sorted_by_one_column_with_null_last(pairs: list[tuple[Any, Any]]) -> None:
    found = [row["n"] for batch in clustered([rows_of(pairs)], ["n"]) for row in batch.to_pylist()]
    assert found == sorted((number for number, _ in pairs), key=lambda number: 99 if number is None else number)


@given(PAIRS)
def test_a_row_that_is_less_in_every_column_comes_first_on_the_curve(pairs: list[tuple[Any, Any]]) -> None:
    table = pa.Table.from_batches([rows_of(pairs)])
    places = {row: place for place, row in enumerate(order(table, ["n", "text"]).to_pylist())}
    keys = [(99 if number is None else number, text or chr(0x10FFFF)) for number, text in pairs]
    for one, (number, text) in enumerate(keys):
        for other, (more, later) in enumerate(keys):
            if number < more and text < later:
                assert places[one] < places[other]


def test_bits_of_the_columns_take_turns() -> None:
    places = interleaved([np.array([0b11, 0b00, 0b10], np.uint64), np.array([0b00, 0b11, 0b10], np.uint64)], 2)
    assert [f"{place:04b}" for place in places] == ["1010", "0101", "1100"]


def test_a_reader_skips_most_of_a_file_by_any_of_the_columns() -> None:
    numbers = np.random.default_rng(7).permutation(64 * 64)
    table = pa.table({"x": numbers // 64, "y": numbers % 64})
    rows = table.take(order(table, ["x", "y"]))
    pieces = [rows.slice(at, 256) for at in range(0, len(rows), 256)]
    for name in ("x", "y"):
        columns = [piece[name].to_numpy() for piece in pieces]
        assert sum(column.min() <= 10 <= column.max() for column in columns) == 4, "of sixteen pieces"
