"""The lines of a file or of standard input, as they arrive, without blocking the event loop.

Standard input may be a terminal or a pipe with pauses between lines: it is read when the loop reports it readable. A
regular file is always readable and is read directly.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from sordini.admin.failure import Failure
from sordini.cli.common.input_files import open_file

CHUNK_BYTES = 256 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024


async def read_lines(path: str | None) -> AsyncIterator[bytes]:
    """Each line without its end (LF or CRLF), the last one even without an end; None is standard input."""
    parts: list[bytes] = []  # The beginning of a line whose end has not arrived yet.
    size = 0
    async for chunk in _standard_input() if path is None else _file(path):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > LINE_BYTES_MAX:
            raise Failure(f"a line of more than {LINE_BYTES_MAX} bytes")
        if others:
            yield b"".join(parts).removesuffix(b"\r")
            for line in others[:-1]:
                yield line.removesuffix(b"\r")
            parts, size = [others[-1]], len(others[-1])
    if size:
        yield b"".join(parts)


async def _file(path: str) -> AsyncIterator[bytes]:
    file = open_file(path)
    position = 0
    try:
        while chunk := file.read_at(position, CHUNK_BYTES):
            yield chunk
            position += len(chunk)
            await asyncio.sleep(0)
    finally:
        file.close()


async def _standard_input() -> AsyncIterator[bytes]:
    if sys.stdin is None:
        raise Failure("there is no standard input to read records from")
    descriptor = sys.stdin.fileno()
    while True:
        await _readable(descriptor)
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> None:
    """Wait until the descriptor is readable, or at its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # epoll refuses regular files, which are always readable.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
