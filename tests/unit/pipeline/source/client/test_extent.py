"""How far records reach, measured from the heads of their batches."""

from __future__ import annotations

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sordini.pipeline.source.client.extent import extent
from tests.support.builders import a_batch

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def a_log(lengths: list[int]) -> tuple[list[tuple[int, int]], bytes]:
    """(base offset, offset behind) of each batch, with a hole behind every other, and all of their bytes."""
    batches, data, base = [], b"", 0
    for index, count in enumerate(lengths):
        data += a_batch(count, base_offset=base, leader_epoch=index)
        batches.append((base, base + count))
        base += count + index % 2
    return batches, data


@given(LENGTHS, st.integers(0, 90), st.integers(0, 4_000))
def test_whole_batches_before_the_end_are_counted_and_no_other(lengths: list[int], end: int, cut: int) -> None:
    batches, data = a_log(lengths)
    found = extent(memoryview(data[:cut]), 0, end)
    whole = [
        batch for index, batch in enumerate(batches) if batch[0] < end and len(a_log(lengths[: index + 1])[1]) <= cut
    ]
    assert found.size == len(a_log(lengths[: len(whole)])[1])
    assert found.last_epoch == len(whole) - 1
    behind = whole[-1][1] if whole else 0
    assert found.next_offset in {behind, max(behind, end)}
    if found.next_offset > behind:  # Only a batch from the end on shows that there is nothing before it.
        assert any(base >= end for base, _ in batches)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_reach_as_far_as_their_own_offset(magic: int) -> None:
    body = struct.pack(">IbbIi", 0, magic, 0, 0, -1)  # CRC, magic, attributes, (a part of) key and value.
    data = b"".join(struct.pack(">qi", offset, len(body)) + body for offset in (5, 6, 7))
    found = extent(memoryview(data), 5, 100)
    assert (found.size, found.next_offset, found.last_epoch) == (len(data), 8, -1)


@given(st.binary(max_size=200), st.integers(0, 2**62), st.integers(0, 2**62))
def test_any_bytes_are_measured(data: bytes, start: int, end: int) -> None:
    found = extent(memoryview(data), start, end)
    assert 0 <= found.size <= len(data)
    assert found.next_offset >= start
