"""A task (`wire.py`) as a line, written in pieces: all versions of a subject may be in it, and all references."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

SCHEMAS_AT_ONCE: Final = 20
"""Written in one piece."""
LARGE_CHARACTERS: Final = 100_000
"""Of a schema that is written in a piece of its own."""


async def digest_of(task: Mapping[str, Any]) -> bytes:
    """What tells a task from others."""
    made = hashlib.sha256()
    async for part in _parts(task):
        made.update(part)
    return made.digest()


async def line_of(task: Mapping[str, Any]) -> bytes:
    """A task as a line of JSON."""
    return b"".join([part async for part in _parts(task)])


async def _parts(task: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """A line in parts, between which the loop runs other tasks: all versions of a subject may be in it."""
    yield json.dumps({name: value for name, value in task.items() if name != "schemas"}).encode()[:-1]
    between = b', "schemas": ['
    for first in range(0, len(task["schemas"]), SCHEMAS_AT_ONCE):
        await asyncio.sleep(0)
        for schema in task["schemas"][first : first + SCHEMAS_AT_ONCE]:
            if len(schema["text"]) >= LARGE_CHARACTERS:
                await asyncio.sleep(0)
            yield between + json.dumps(schema).encode()
            between = b", "
    yield b"]}\n"
