"""Where records begin: whatever is guessed for speed is what the chain of lengths says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.source.decode import framing
from sordini.pipeline.source.decode.framing import Body, find_starts
from sordini.protocol.records.batch import HEADER_SIZE, Record, build_batch
from sordini.protocol.records.varint import read_varint
from tests.support.decoded_logs import TIME, decoded, judged
from tests.support.parts import examples


def laid_out(batches: list[bytes]) -> tuple[np.ndarray, list[Body]]:
    bodies, position = [], 0
    for batch in batches:
        count = int.from_bytes(batch[57:61])
        bodies.append(Body(position + HEADER_SIZE, position + len(batch), count))
        position += len(batch)
    return np.frombuffer(b"".join(batches), np.uint8), bodies


def chained(batches: list[bytes]) -> list[int]:
    """The chain itself, record by record."""
    buffer, bodies = laid_out(batches)
    starts = []
    for body in bodies:
        position = body.start
        for _ in range(body.records):
            starts.append(position)
            length, after = read_varint(buffer.tobytes(), position)
            position = after + length
        assert position == body.end
    return starts


def a_batch(sizes: list[int], base: int = 0) -> bytes:
    records = [Record(base + number, TIME, None, bytes(size)) for number, size in enumerate(sizes)]
    return build_batch(records, base_offset=base)


SIZES = st.lists(st.sampled_from([0, 1, 50, 55, 56, 57, 100, 8180]), min_size=1, max_size=5)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(SIZES, st.integers(1, 30)), min_size=1, max_size=70))
def test_lanes_and_runs_lead_where_the_chain_leads(drawn: list[tuple[list[int], int]]) -> None:
    batches = [a_batch([size for size in sizes for _ in range(times)]) for sizes, times in drawn]
    assert find_starts(*laid_out(batches)).tolist() == chained(batches)


def test_batches_of_every_length_are_followed_side_by_side() -> None:
    batches = [a_batch([50 + number] * (1 + number * 7 % 200)) for number in range(framing.LANES_MIN * 2)]
    assert find_starts(*laid_out(batches)).tolist() == chained(batches)


def test_lengths_of_three_bytes_are_followed_too() -> None:
    batches = [a_batch([10, 9000, 10])] * (framing.LANES_MIN + 1)
    log = b"".join(a_batch([10, 9000, 10], base) for base in range(0, 3 * (framing.LANES_MIN + 1), 3))
    assert decoded(log) == judged(log)
    assert find_starts(*laid_out(batches)).tolist() == chained(batches)


def test_long_runs_are_found_with_their_beginning_and_end() -> None:
    sizes = [70] * 50 + [20] * 5000 + [300] * 4097 + [1, 2, 3] * 40 + [20] * 33
    assert find_starts(*laid_out([a_batch(sizes)])).tolist() == chained([a_batch(sizes)])


def test_content_that_looks_like_a_length_misleads_no_reader() -> None:
    """Values filled with the very byte that records begin with, and records of which only the second byte differs."""
    alike = [Record(number, TIME, None, b"\x54" * 36) for number in range(60)]
    longer = [Record(number, TIME, None, b"\x54" * 79) for number in range(60, 120)]
    batch = build_batch(alike + longer)
    assert batch[HEADER_SIZE] == 0x54
    assert find_starts(*laid_out([batch])).tolist() == chained([batch])
    batch = a_batch([100] * 50 + [164] * 50)
    assert find_starts(*laid_out([batch])).tolist() == chained([batch])


@pytest.mark.parametrize("body", [b"\x01", b"\x80", b"\xff\xff", b"\x80\x80\x80\x80\x80\x80", b"\x7e", b""])
def test_a_chain_that_leads_nowhere_has_no_starts(body: bytes) -> None:
    buffer = np.frombuffer(body, np.uint8)
    assert find_starts(buffer, [Body(0, len(body), 2)]) is None
    many = np.frombuffer((body or b"\x01") * framing.LANES_MIN, np.uint8)
    assert find_starts(many, [Body(len(many) - 1, len(many), 2)] * framing.LANES_MIN) is None
