"""What the first bytes of records say."""

from __future__ import annotations

from sordini.protocol.records.batch import HEADER_SIZE, read_header
from sordini.protocol.records.peek import (
    SIZE_FIELD_BYTES,
    SIZE_POSITION,
    batch_bytes,
    first_header,
    is_transactional,
)
from tests.support.builders import a_batch, an_idempotent_batch


def test_the_transactional_bit_is_read_from_the_first_batch() -> None:
    plain = bytearray(a_batch())
    assert not is_transactional(memoryview(plain))
    plain[22] |= 0x10
    assert is_transactional(memoryview(plain))
    assert not is_transactional(memoryview(plain)[:22]), "too short to have attributes"
    plain[16] = 1
    assert not is_transactional(memoryview(plain)), "a message of format 1 has no such bit"


def test_the_first_header_is_that_of_a_whole_batch_in_the_current_format() -> None:
    batch = bytearray(an_idempotent_batch())
    assert first_header(memoryview(batch)) == read_header(batch)
    assert first_header(None) is None
    assert first_header(memoryview(batch)[: HEADER_SIZE - 1]) is None
    batch[16] = 1
    assert first_header(memoryview(batch)) is None


def test_the_size_of_a_batch_follows_from_its_size_field() -> None:
    batch = a_batch()
    assert batch_bytes(batch[SIZE_POSITION : SIZE_POSITION + SIZE_FIELD_BYTES]) == len(batch)
