"""Hashes of many keys at once are those of each key alone, as another client computes them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.source.key_hashes import key_hashes
from sordini.pipeline.source.outgoing_rows import PartitionChooser, outgoing_rows

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=30)


@given(KEYS, st.integers(1, 4), st.integers(0, 5))
def test_hashes_are_those_of_the_default_partitioner(keys: list[bytes | None], times: int, skipped: int) -> None:
    keys = keys * times  # Few are hashed alone, many together.
    hashes = key_hashes(pa.array(keys, pa.binary()).slice(skipped)).tolist()
    expected = [key is None or int(murmur2(key)) & 0x7FFFFFFF for key in keys[skipped:]]
    assert [known is True or found for found, known in zip(hashes, expected, strict=True)] == expected


def test_keys_of_all_sizes_have_their_hashes_and_few_long_ones_among_them() -> None:
    sizes = [*range(100), 5003, *range(100), 70_001, 6000]
    keys = [bytes(number * 7 % 251 for number in range(size)) for size in sizes]
    assert key_hashes(pa.array(keys, pa.binary())).tolist() == [int(murmur2(key)) & 0x7FFFFFFF for key in keys]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_rows_with_keys_go_where_the_default_partitioner_puts_them(kind: pa.DataType) -> None:
    keys = [b"a", b"order-1", None, b"", b"key of sixteen b", b"order-1"]
    texts = [key.decode() if key is not None and pa.types.is_string(kind) else key for key in keys]
    batch = pa.RecordBatch.from_pydict({"key": pa.array(texts, kind), "value": pa.array(keys, pa.binary())})
    chooser = PartitionChooser("orders", range(7))
    rows = list(outgoing_rows(batch, "orders"))
    assert [row.key for row in rows] == keys
    found = [chooser.partition_of(row) for row in rows if row.key is not None]
    assert found == [(int(murmur2(key)) & 0x7FFFFFFF) % 7 for key in keys if key is not None]
