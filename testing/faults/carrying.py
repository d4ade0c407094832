"""A response that leaves later, changed, or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse, Parts, release_parts

FRAME_HEAD: Final = 8
"""Length and correlation id."""


class Release:
    """Opens when a test says so. Futures of the brokers' loop wait for it."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Any] = []

    def open(self) -> None:
        """Let all that wait continue; called on the loop."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        """Return when it is open."""
        if not self.is_open:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


async def completed(inner: DelayedResponse, unblock: Callable[[], None]) -> Parts | None:
    """What a delayed response is resolved with; `unblock` is called when requests behind it may start.

    Cancelled: it is abandoned.
    """
    if not inner.blocks_pipeline:
        unblock()
    if not inner.is_answered:
        done = asyncio.get_running_loop().create_future()

        def progressed() -> None:
            if not inner.blocks_pipeline:
                unblock()
            if inner.is_answered and not done.done():
                done.set_result(None)

        inner.attach(progressed)
        try:
            await done
        except asyncio.CancelledError:
            if not inner.abandoned:
                inner.abandon()
            raise
    return inner.parts


def flattened(parts: Parts) -> bytes:
    """A whole frame as bytes; slices of files are read and released."""
    whole = bytearray()
    try:
        for part in parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                whole += part
            else:
                whole += part.file.read_at(part.position, part.size)
    finally:
        release_parts(parts)
    return bytes(whole)


def corrupted(parts: Parts | None) -> Parts | None:
    """The frame with one bit of its last byte flipped: its length and its correlation id stay right.

    The last byte of a Fetch response is one of a record, or of the tags behind the records; so in a frame with records
    a byte in the middle is flipped, too.
    """
    if parts is None:
        return None
    whole = bytearray(flattened(parts))
    for position in {len(whole) - 1, len(whole) // 2}:
        if position >= FRAME_HEAD:
            whole[position] ^= 0x10
    return [whole]
