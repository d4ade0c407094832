"""Deletion vectors: encoding and decoding, and the form that Delta's protocol shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from sordini.pipeline.tables import TableError
from sordini.pipeline.tables.delta.deletion_vectors import decode, encode, vector_path

ROWS = st.sets(st.integers(0, 300_000), min_size=1)


@given(st.dictionaries(st.text("abc", min_size=1), ROWS, min_size=1, max_size=4))
def test_vectors_of_one_file_come_back(vectors: dict[str, set[int]]) -> None:
    name, contents, descriptors = encode({path: BitMap64(sorted(rows)) for path, rows in vectors.items()})
    for path, rows in vectors.items():
        assert vector_path(descriptors[path]) == name
        assert set(decode(descriptors[path], {name: contents}.__getitem__)) == rows
        assert descriptors[path]["cardinality"] == len(rows)


def test_vectors_of_other_writers_are_read() -> None:
    """In the log, with the rows of the protocol's example; and the protocol's example of a file's name."""
    inline = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    assert list(decode(inline, lambda _: b"")) == [3, 4, 7, 11, 18, 29]
    beside = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    assert vector_path(beside) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_a_damaged_vector_and_one_elsewhere_are_reported() -> None:
    name, contents, descriptors = encode({"a": BitMap64([1, 2])})
    damaged = bytearray(contents)
    damaged[-6] ^= 1
    with pytest.raises(TableError, match=r"the deletion vector at byte 1 of .* is damaged"):
        decode(descriptors["a"], {name: bytes(damaged)}.__getitem__)
    with pytest.raises(TableError, match="outside the table's folder"):
        vector_path({"storageType": "p", "pathOrInlineDv": "s3://bucket/v.bin"})
