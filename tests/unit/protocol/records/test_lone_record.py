"""The check of a batch of one record accepts nothing that the exact scan refuses, and reads the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE
from sordini.protocol.records.lone_record import lone_record_has_key
from sordini.protocol.records.record_scan import scan
from tests.support.builders import a_batch

strings = st.one_of(st.none(), st.binary(max_size=70), st.binary(min_size=120, max_size=140))


@given(strings, strings, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3), st.integers(0, 3))
def test_what_it_accepts_the_scan_accepts_with_the_same_key(
    key: bytes | None, value: bytes | None, changes: list[tuple[int, int]], cut: int
) -> None:
    body = bytearray(a_batch(1, key=key, value=value)[HEADER_SIZE:])
    for position, byte in changes:
        body[position % len(body)] = byte
    del body[len(body) - cut :]
    check_same(bytes(body))


@given(st.binary(max_size=12))
def test_short_bytes_are_no_record_unless_the_scan_says_so(body: bytes) -> None:
    check_same(body)


def check_same(body: bytes) -> None:
    has_key = lone_record_has_key(body)
    if has_key is not None:
        assert scan(body, 1, want_keys=True) == (0, 0, not has_key)


@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("size", [0, 1, 50, 63, 64, 100, 8000])
def test_the_usual_record_is_accepted(key: bytes | None, size: int) -> None:
    assert lone_record_has_key(a_batch(1, key=key, value=bytes(size))[HEADER_SIZE:]) is (key is not None)


def test_a_longer_record_is_left_to_the_scan() -> None:
    body = a_batch(1, value=bytes(9000))[HEADER_SIZE:]
    assert lone_record_has_key(body) is None
    with pytest.raises(BrokerError):
        scan(body[:-1], 1)
