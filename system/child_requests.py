"""The child's side of `child_processes.py`: requests that have JSON and data, one at a time over standard input.

    both directions    JSON size int32 | data size int32 | JSON | data

Ends the process when the input ends: its parent has ended, or needs it no more.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from io import BufferedReader
from typing import Any, NoReturn

SIZES = struct.Struct(">II")
"""Sizes of JSON and data, in front of a request or response."""

Answer = Callable[[Any, bytearray], tuple[Any, bytes | bytearray | memoryview]]
"""From the JSON and the data of a request to those of its response."""


def serve_requests(answer: Answer) -> NoReturn:
    """Answer requests until the input ends."""
    # Ctrl-C at the terminal reaches this process, too; its parent handles it and ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    # What libraries print must not be between the responses.
    sys.stdout = sys.stderr
    assert isinstance(source, BufferedReader)
    while True:
        about_bytes, data_bytes = SIZES.unpack(_read(source, SIZES.size))
        about = json.loads(_read(source, about_bytes))
        about, data = answer(about, _read(source, data_bytes))
        text = json.dumps(about).encode()
        target.write(SIZES.pack(len(text), len(data)))
        target.write(text)
        target.write(data)
        target.flush()


def _read(stream: BufferedReader, size: int) -> bytearray:
    """Exactly `size` bytes; ends the process at the end of the input."""
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = stream.readinto(view[done:])
        if not count:
            os._exit(0)
        done += count
    return data
