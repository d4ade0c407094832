"""Frames out of a stream of bytes."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import WireError
from sordini.protocol.framing import (
    COPIED_REST_BYTES_MAX,
    POOLED_BYTES_MAX,
    RECEIVE_BYTES,
    BufferPool,
    FrameReader,
)
from tests.support.parts import examples

MAX = 104_857_600


def framed(body):
    return struct.pack(">i", len(body)) + body


def receive(reader, data, *, settle=True):
    """Bring bytes in as a socket would, and return the frames that became whole."""
    frames = []
    while data:
        space = reader.space()
        count = min(len(data), len(space))
        space[:count] = data[:count]
        del space
        reader.received(count)
        data = data[count:]
        while (frame := reader.next_frame()) is not None:
            frames.append(bytes(frame))
            frame = None
        if settle:
            reader.settle()
    return frames


sizes = st.one_of(st.integers(1, 40), st.integers(COPIED_REST_BYTES_MAX - 8, COPIED_REST_BYTES_MAX + 8))
bodies = st.lists(sizes, min_size=1, max_size=8).map(
    lambda lengths: [bytes([index + 1]) * length for index, length in enumerate(lengths)]
)


@settings(max_examples=examples(60))
@given(bodies, st.data())
def test_chunking_does_not_matter(expected, data):
    stream = b"".join(framed(body) for body in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader(MAX, BufferPool())
    frames = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += receive(reader, stream[start:stop], settle=data.draw(st.booleans()))
    reader.settle()
    assert frames == expected
    assert reader.held_bytes == 0
    assert reader.unread_bytes == 0


steps = st.lists(st.tuples(st.integers(1, 20_000), st.booleans(), st.booleans()), max_size=20)


@settings(max_examples=examples(60))
@given(bodies, steps)
def test_frames_that_must_wait_are_found_again_in_order(expected, script):
    reader = FrameReader(MAX, BufferPool())
    stream = memoryview(b"".join(framed(body) for body in expected))
    frames = []
    for chunk_bytes, must_wait, settles in [*script, *[(200_000, False, True)] * 3]:
        if stream:
            space = reader.space()
            count = min(len(stream), len(space), chunk_bytes)
            space[:count] = stream[:count]
            del space
            reader.received(count)
            stream = stream[count:]
        while reader.has_frame():
            frame = reader.next_frame()
            if must_wait:
                reader.put_back(frame)
                break
            frames.append(bytes(frame))
        frame = None
        if settles:
            reader.settle()
    assert frames == expected


def test_a_frame_of_many_megabytes_arrives_whole():
    body = bytes(range(256)) * (12 * 1024 * 4)
    pool = BufferPool()
    reader = FrameReader(MAX, pool)
    assert receive(reader, framed(body) + framed(b"next")) == [body, b"next"]
    assert reader.held_bytes == 0


def test_memory_follows_the_bytes_received_and_not_the_declared_length():
    reader = FrameReader(MAX, BufferPool())
    assert receive(reader, struct.pack(">i", MAX) + b"0123456789") == []
    assert reader.held_bytes == 14
    received = 14
    for _ in range(40):
        receive(reader, bytes(30_000))
        received += 30_000
        assert reader.held_bytes <= received + RECEIVE_BYTES
    assert reader.unread_bytes == received


def test_a_reader_at_a_frame_border_holds_nothing():
    reader = FrameReader(MAX, BufferPool())
    receive(reader, framed(b"a" * 50_000))
    assert reader.held_bytes == 0


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (struct.pack(">i", -1), ["-1"]),
        (struct.pack(">i", 0), ["0 bytes"]),
        (struct.pack(">i", 1001), ["1001", "1000", "socket.request.max.bytes"]),
        (struct.pack(">i", 2**31 - 1), ["2147483647"]),
        (b"GET / HTTP/1.1\r\n", ["HTTP"]),
        (b"\x16\x03\x01\x02\x00\x01", ["TLS"]),
        (b"SSH-2.0-x", ["SSH"]),
    ],
)
def test_a_wrong_length_is_refused_before_the_frame_arrives(first, words):
    reader = FrameReader(1000, BufferPool())
    with pytest.raises(WireError) as refusal:
        receive(reader, first)
    for word in words:
        assert word in str(refusal.value)
    assert reader.has_frame(), "the error stays until the connection is closed"


def test_a_frame_of_exactly_the_largest_size_is_taken():
    reader = FrameReader(1000, BufferPool())
    assert receive(reader, framed(b"x" * 1000)) == [b"x" * 1000]


def test_whole_frames_are_returned_in_place_and_writable():
    pool = BufferPool()
    buffer = pool.take()
    pool.give(buffer)
    reader = FrameReader(MAX, pool)
    space = reader.space()
    assert space is buffer
    space[:7] = framed(b"abc")
    reader.received(7)
    frame = reader.next_frame()
    frame[0] = ord("X")
    assert buffer[4:7] == b"Xbc"


def test_a_long_frame_is_received_behind_its_beginning_without_a_copy():
    reader = FrameReader(MAX, BufferPool())
    stream = framed(b"x" * (RECEIVE_BYTES * 3))
    receive(reader, stream[:RECEIVE_BYTES])
    first = reader._buffer
    receive(reader, stream[RECEIVE_BYTES : RECEIVE_BYTES * 2], settle=True)
    assert reader._buffer is first


def test_a_buffer_is_not_reused_while_a_view_of_a_frame_exists():
    pool = BufferPool()
    reader = FrameReader(MAX, pool)
    space = reader.space()
    space[:7] = framed(b"abc")
    del space
    reader.received(7)
    kept = reader.next_frame()[1:]
    reader.settle()
    assert pool.abandoned == 1
    receive(reader, framed(b"zzz"))
    assert bytes(kept) == b"bc"


def test_a_view_that_is_kept_of_an_earlier_frame_survives_the_growth_of_a_later_one():
    pool = BufferPool()
    reader = FrameReader(MAX, pool)
    stream = framed(b"first") + framed(b"y" * (2 * RECEIVE_BYTES))
    space = reader.space()
    space[:] = stream[: len(space)]
    reader.received(len(space))
    del space
    kept = reader.next_frame()
    assert reader.next_frame() is None
    reader.settle()
    assert receive(reader, stream[RECEIVE_BYTES:]) == [b"y" * (2 * RECEIVE_BYTES)]
    assert bytes(kept) == b"first"
    assert pool.abandoned == 1


def test_the_pool_keeps_few_buffers_and_none_that_grew_too_large():
    pool = BufferPool(kept_max=2)
    buffers = [pool.take() for _ in range(3)]
    for buffer in buffers:
        pool.give(buffer)
    assert [pool.take() is buffer for buffer in (buffers[1], buffers[0])] == [True, True]
    large = bytearray(POOLED_BYTES_MAX + 1)
    pool.give(large)
    assert pool.take() is not large


def test_a_closed_reader_holds_nothing():
    reader = FrameReader(MAX, BufferPool())
    receive(reader, struct.pack(">i", MAX) + bytes(100_000))
    reader.close()
    assert reader.held_bytes == 0
    reader = FrameReader(MAX, BufferPool())
    receive(reader, b"\0\0")
    reader.close()
    assert reader.held_bytes == 0


def test_before_the_login_a_frame_may_be_smaller_only_and_the_refusal_names_the_key():
    reader = FrameReader(1000, BufferPool())
    assert reader.limit_before_login(2000) == 1000, "the login's own bound never widens the other"
    assert reader.limit_before_login(100) == 100
    assert receive(reader, framed(b"x" * 100)) == [b"x" * 100]
    with pytest.raises(WireError, match=r"101 bytes, sasl\.server\.max\.receive\.size is 100"):
        receive(reader, struct.pack(">i", 101))
