"""Extracts request frames from a stream of bytes: int32 length, big-endian, then that many bytes.

Pure: the owner receives the bytes. One slice of a connection uses a `FrameReader` like this:

    buffer = reader.space()                    # where to receive
    reader.received(count)                     # bytes written to its front
    while (frame := reader.next_frame()):      # a writable view; no copy was made
        ...
    reader.settle()                            # return what is not needed until more bytes arrive

Invariants:
  - memory follows the bytes that arrived: nothing is ever sized from a declared length, and a reader allocates at
    most 64 KiB more than it holds (a pooled buffer that has already grown may be larger; the pool keeps a few). A
    reader between two frames holds nothing;
  - a declared length is checked as soon as its four bytes have arrived, before the frame's own bytes;
  - a buffer is reused only when no view of it exists. `memoryview` slices cannot be counted, but a bytearray refuses
    to change its size while one exists: that is the test. A buffer that fails it is abandoned to its views (reusing it
    would change bytes that are still read, the class of bug of CVE-2026-35554).

Incomplete frames:

    whole frames in the receive buffer     returned in place
    a short rest (< 16 KiB)                kept as bytes, put in front of the next receive
    a long rest                            the reader keeps the buffer and continues to receive into it
"""

from __future__ import annotations

import struct

from sordini.protocol.errors import WireError

RECEIVE_BYTES = 64 * 1024
"""Size of a fresh receive buffer, and the step in which a long frame's buffer grows."""

COPIED_REST_BYTES_MAX = 16 * 1024
"""A rest below this size is copied out, so that a slow peer holds no more than it sent."""

POOLED_BYTES_MAX = 2 * 1024 * 1024 + RECEIVE_BYTES
"""A buffer that grew beyond this is not kept."""

LENGTH_BYTES = 4
LENGTH = struct.Struct(">i")
_GROWTH = bytes(RECEIVE_BYTES)

_OTHER_PROTOCOLS = {
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"HEAD": "HTTP",
    b"PUT ": "HTTP",
    b"OPTI": "HTTP",
    b"PRI ": "HTTP/2",
    b"SSH-": "SSH",
}


class BufferPool:
    """Reusable receive buffers, shared by the readers of one loop."""

    __slots__ = ("_free", "_kept_max", "abandoned")

    def __init__(self, kept_max: int = 4) -> None:
        self._free: list[bytearray] = []
        self._kept_max = kept_max
        self.abandoned = 0
        """Buffers that could not be reused because a view of them existed."""

    def take(self) -> bytearray:
        """A buffer of at least RECEIVE_BYTES with arbitrary content."""
        return self._free.pop() if self._free else bytearray(RECEIVE_BYTES)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer; it is kept unless a view of it exists."""
        try:
            buffer.append(0)
        except BufferError:
            self.abandoned += 1
            return
        buffer.pop()
        if len(self._free) < self._kept_max and RECEIVE_BYTES <= len(buffer) <= POOLED_BYTES_MAX:
            self._free.append(buffer)


class FrameReader:
    """The receiving side of one connection."""

    __slots__ = ("_buffer", "_end", "_pool", "_rest", "_setting", "_start", "_view", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int, pool: BufferPool) -> None:
        self.limit(frame_bytes_max)
        self._pool = pool
        self._buffer: bytearray | None = None  # During a slice, or while a long rest is kept.
        self._view: memoryview | None = None
        self._start = 0  # The bytes [start, end) of the buffer are unread.
        self._end = 0
        self._rest = b""  # A short rest between slices.

    def limit(self, frame_bytes_max: int, setting: str = "socket.request.max.bytes") -> int:
        """Take frames of at most so many bytes, as that setting says. Returns the number."""
        self._setting = setting
        self.frame_bytes_max = frame_bytes_max
        return frame_bytes_max

    def limit_before_login(self, frame_bytes_max: int) -> int:
        """Take smaller frames, where the peer has not logged in yet. Returns the number that counts."""
        if frame_bytes_max >= self.frame_bytes_max:
            return self.frame_bytes_max
        return self.limit(frame_bytes_max, "sasl.server.max.receive.size")

    @property
    def held_bytes(self) -> int:
        """Memory this reader holds between slices."""
        return len(self._rest) if self._buffer is None else len(self._buffer)

    @property
    def unread_bytes(self) -> int:
        """Received bytes that were not returned as frames yet."""
        return len(self._rest) if self._buffer is None else self._end - self._start

    @property
    def declared_bytes(self) -> int:
        """The declared length of the frame at the front; 0 until its four bytes have arrived."""
        if self.unread_bytes < LENGTH_BYTES:
            return 0
        buffer, start = (self._rest, 0) if self._buffer is None else (self._buffer, self._start)
        size: int = LENGTH.unpack_from(buffer, start)[0]
        return size

    def space(self) -> bytearray | memoryview:
        """Where to receive the next bytes; never empty."""
        buffer = self._buffer
        if buffer is None:
            self._buffer = buffer = self._pool.take()
            self._start = 0
            self._end = end = len(self._rest)
            if not end:
                return buffer
            buffer[:end] = self._rest
            self._rest = b""
        elif self._end == len(buffer):
            buffer = self._grow(buffer)
        self._view = view = memoryview(buffer)
        return view[self._end :]

    def adopt(self, buffer: bytearray) -> None:
        """Receive into a buffer of the pool whose front was written already; nothing is held. `received` follows."""
        assert self._buffer is None, "a reader that holds bytes continues in its own buffer"
        assert not self._rest, "a reader that holds bytes continues in its own buffer"
        self._buffer = buffer
        self._start = self._end = 0

    def received(self, count: int) -> None:
        """`count` bytes were written to the front of `space()`."""
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes arrive. Raises WireError."""
        buffer = self._buffer
        if buffer is None:
            if not self._rest:
                return None
            buffer = self._restore_rest()
        start = self._start
        body = start + LENGTH_BYTES
        if self._end < body:
            return None
        (size,) = LENGTH.unpack_from(buffer, start)
        if not 0 < size <= self.frame_bytes_max:
            raise WireError(self._refusal(size, bytes(buffer[start:body])))
        stop: int = body + size
        if self._end < stop:
            return None
        self._start = stop
        view = self._view
        if view is None:
            self._view = view = memoryview(buffer)
        return view[body:stop]

    def put_back(self, frame: memoryview) -> None:
        """Undo the last `next_frame`: its frame could not be started yet."""
        self._start -= LENGTH_BYTES + len(frame)
        assert self._start >= 0, "more was put back than was taken"

    def has_frame(self) -> bool:
        """Whether `next_frame` would return a frame or raise."""
        buffer, start = (self._rest, 0) if self._buffer is None else (self._buffer, self._start)
        unread = self.unread_bytes
        if unread < LENGTH_BYTES:
            return False
        (size,) = LENGTH.unpack_from(buffer, start)
        return not 0 < size <= self.frame_bytes_max or unread >= LENGTH_BYTES + size

    def settle(self) -> None:
        """End a slice: return the buffer, or keep what an unfinished frame needs."""
        buffer = self._buffer
        if buffer is None:
            return
        if self._view is not None:
            self._view.release()
            self._view = None
        unread = self._end - self._start
        if unread >= COPIED_REST_BYTES_MAX:
            return
        if unread:
            self._rest = bytes(memoryview(buffer)[self._start : self._end])
        self._buffer = None
        self._pool.give(buffer)

    def close(self) -> None:
        """Drop everything."""
        self._start = self._end = 0
        self._rest = b""
        self.settle()

    def _restore_rest(self) -> bytearray:
        """Read a short rest again, in a buffer of its size: the pool's are larger."""
        self._buffer = buffer = bytearray(self._rest)
        self._start, self._end = 0, len(buffer)
        self._rest = b""
        return buffer

    def _grow(self, buffer: bytearray) -> bytearray:
        """Extend a full buffer; returns the buffer to continue with.

        The steps are small, but copies are few: bytearray allocates an eighth more than it needs, and that eighth is
        not touched before bytes arrive in it.
        """
        if self._view is not None:
            self._view.release()
            self._view = None
        try:
            buffer += _GROWTH[: self._growth(buffer)]
        except BufferError:
            # A view of an earlier frame in the same buffer exists: continue in another one.
            buffer = bytearray(memoryview(buffer)[self._start : self._end])
            self._start, self._end = 0, len(buffer)
            buffer += _GROWTH[: self._growth(buffer)]
            self._buffer = buffer
            self._pool.abandoned += 1
        return buffer

    def _growth(self, buffer: bytearray) -> int:
        """How many bytes to add: the missing bytes of the frame, in small steps."""
        if self._end - self._start < LENGTH_BYTES:
            return RECEIVE_BYTES
        (size,) = LENGTH.unpack_from(buffer, self._start)
        lacking: int = self._start + LENGTH_BYTES + size - len(buffer)
        return min(lacking, RECEIVE_BYTES) if lacking > 0 else RECEIVE_BYTES

    def _refusal(self, size: int, first: bytes) -> str:
        if size <= 0:
            return f"a request declares {size} bytes"
        text = f"a request declares {size} bytes, {self._setting} is {self.frame_bytes_max}"
        other = "TLS" if first[:2] == b"\x16\x03" else _OTHER_PROTOCOLS.get(first)
        return f"{text} (its first bytes look like {other})" if other else text
