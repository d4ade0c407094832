"""Frames cut out of a stream: whatever its bytes and however they are cut, the frames are those of the plain reading.

input = uint16 choice of pieces | the stream
"""

from __future__ import annotations

import random
import struct
from typing import Final

from sordini.protocol.errors import WireError
from sordini.protocol.framing import RECEIVE_BYTES, BufferPool, FrameReader
from tests.fuzz.target import Broken

FRAME_BYTES_MAX: Final = 200_000


class _Never(random.Random):
    """Puts nothing back."""

    def random(self) -> float:
        return 1.0


NEVER: Final = _Never()


def plain_reading(stream: bytes) -> tuple[list[bytes], bool]:
    """The whole frames before the first wrong length, and whether there is one."""
    frames, position = [], 0
    while len(stream) - position >= 4:
        (size,) = struct.unpack_from(">i", stream, position)
        if not 0 < size <= FRAME_BYTES_MAX:
            return frames, True
        if len(stream) - position - 4 < size:
            break
        frames.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return frames, False


class Framing:
    name = "framing"
    share = 0.15
    instrumented = ("sordini.protocol.framing",)

    def __init__(self) -> None:
        self._pool = BufferPool()

    def draw(self, chance: random.Random) -> bytes:
        stream = bytearray()
        for _ in range(chance.randint(1, 6)):
            size = (
                chance.choice((1, 2, 7, 100, 1_000, 17_000, 70_000)) if chance.random() < 0.1 else chance.randint(1, 60)
            )
            stream += struct.pack(">i", size) + bytes([chance.randrange(256)]) * size
        return chance.randbytes(2) + bytes(stream)

    def close(self) -> None:
        """Nothing is kept open."""

    def run(self, data: bytes) -> int:
        stream = data[2:]
        expected, is_wrong = plain_reading(stream)
        found, refused = self._received(stream, random.Random(data[:2]))
        if found != expected or refused != is_wrong:
            raise Broken(f"{len(found)} frames, refused: {refused}; expected are {len(expected)}, refused: {is_wrong}")
        return max(len(found), 1)

    def _received(self, stream: bytes, chance: random.Random) -> tuple[list[bytes], bool]:
        reader = FrameReader(FRAME_BYTES_MAX, self._pool)
        found: list[bytes] = []
        position = 0
        try:
            while position < len(stream):
                space = reader.space()
                size = min(len(space), len(stream) - position, 1 + int(chance.random() ** 3 * RECEIVE_BYTES))
                space[:size] = stream[position : position + size]
                reader.received(size)
                position += size
                self._take(reader, chance, found)
                reader.settle()
                if reader.held_bytes > max(position, 1) + 2 * RECEIVE_BYTES + RECEIVE_BYTES // 4:
                    raise Broken(f"{reader.held_bytes} bytes are held of {position} that came")
            self._take(reader, NEVER, found)
        except WireError:
            return found, True
        finally:
            reader.close()
        return found, False

    def _take(self, reader: FrameReader, chance: random.Random, found: list[bytes]) -> None:
        """The frames at the front; now and then one is put back, and the slice ends."""
        while (frame := reader.next_frame()) is not None:
            if chance.random() < 0.05:
                reader.put_back(frame)
                if not reader.has_frame():
                    raise Broken("a frame that was put back is not there")
                if chance.random() < 0.5:
                    return
                continue
            found.append(bytes(frame))
