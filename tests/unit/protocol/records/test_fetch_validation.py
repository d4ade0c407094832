"""What a leader sent is checked before it is stored as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy_writing
from sordini.protocol.records.batch import stamp
from sordini.protocol.records.fetch_validation import check_fetched
from tests.support.builders import a_batch, some_records, writable


def three_batches() -> bytes:
    return a_batch(3, base_offset=5) + a_batch(2, base_offset=8, leader_epoch=1) + a_batch(1, base_offset=20)


def is_corrupt(records: bytes) -> bool:
    with pytest.raises(BrokerError) as refusal:
        check_fetched(writable(records))
    return refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_batches_keep_their_offsets_and_epochs_gaps_included() -> None:
    fetched = check_fetched(writable(three_batches()))
    rows = [(header.base_offset, header.next_offset, header.partition_leader_epoch) for _, header in fetched.batches]
    assert rows == [(5, 8, -1), (8, 10, 1), (20, 21, -1)]
    assert bytes(fetched.buffer) == three_batches()


@given(st.integers(0, len(three_batches())))
def test_a_last_batch_that_was_cut_off_is_left_out_and_nothing_else(size: int) -> None:
    ends = [0]
    for batch in (a_batch(3, base_offset=5), a_batch(2, base_offset=8), a_batch(1, base_offset=20)):
        ends.append(ends[-1] + len(batch))
    fetched = check_fetched(writable(three_batches()[:size]))
    whole = max(end for end in ends if end <= size)
    assert bytes(fetched.buffer) == three_batches()[:whole]
    assert len(fetched.batches) == ends.index(whole)


def test_a_flipped_bit_anywhere_under_the_crc_is_found() -> None:
    batch = a_batch(3, base_offset=5)
    for at in range(21, len(batch)):
        wrong = bytearray(batch)
        wrong[at] ^= 0x10
        assert is_corrupt(bytes(wrong)), f"byte {at}"


def test_offsets_that_do_not_rise_are_refused() -> None:
    assert is_corrupt(a_batch(3, base_offset=5) + a_batch(3, base_offset=7))
    backwards = writable(a_batch(1))
    stamp(backwards, 0, -4, 0)
    assert is_corrupt(bytes(backwards))


def test_an_offset_beyond_sixty_four_bits_is_refused() -> None:
    last = writable(a_batch(2))
    stamp(last, 0, 2**63 - 3, 0)
    assert check_fetched(last).batches[0][1].base_offset == 2**63 - 3
    stamp(last, 0, 2**63 - 2, 0)
    assert is_corrupt(bytes(last))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_taken_one_by_one(magic: int) -> None:
    messages = legacy_writing.write_messages(some_records(3, base_offset=4), magic=magic)
    fetched = check_fetched(writable(messages + a_batch(2, base_offset=7)))
    assert [(header.magic, header.base_offset) for _, header in fetched.batches] == [
        (magic, 4), (magic, 5), (magic, 6), (2, 7),
    ]  # fmt: skip
    assert is_corrupt(messages[:17] + bytes([messages[17] ^ 1]) + messages[18:])


def test_what_is_neither_batch_nor_message_is_refused() -> None:
    assert is_corrupt(bytes(100))
    assert is_corrupt(b"\xff" * 100), "no length is negative"
