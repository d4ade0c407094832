"""A `.kafka` file of Kafka 0.7, or fetch results that were captured from it, message by message.

A fetch result has no name of its own: a captured one is recognised by an ending that its file was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sordini.cli.commands.log.dump.items import Item, damage
from sordini.cli.commands.log.files.oldest_messages import (
    Fault,
    Message,
    base_of,
    fetch_results,
    inner_messages,
    messages,
)
from sordini.protocol.records.compression import NO_CODEC
from sordini.storage.disk import File

MESSAGE_SET_SEND: Final = ".messagesetsend"
MULTI_MESSAGE_SET_SEND: Final = ".multimessagesetsend"


def is_oldest(name: str) -> bool:
    """Whether a file is one of these, by its name."""
    return base_of(name) is not None or name.endswith((MESSAGE_SET_SEND, MULTI_MESSAGE_SET_SEND))


def read_oldest(file: File, name: str, *, with_payloads: bool) -> Iterator[Item]:
    """The items of a file for which `is_oldest` is true. Those of fetch results have no offsets, only positions."""
    base = base_of(name)
    if base is None:
        levels = 2 if name.endswith(MULTI_MESSAGE_SET_SEND) else 1
        yield from _results(file, 0, file.size(), levels, with_payloads=with_payloads)
        return
    for found in messages(file.read_at, 0, file.size()):
        if isinstance(found, Fault):
            yield damage(found.position, found.reason)
        else:
            yield from _message({"offset": base + found.position}, found, with_payloads=with_payloads)


def _results(file: File, start: int, end: int, levels: int, *, with_payloads: bool) -> Iterator[Item]:
    kind = "multi-fetch result" if levels > 1 else "fetch result"
    for found in fetch_results(file.read_at, start, end):
        if isinstance(found, Fault):
            yield damage(found.position, found.reason)
            continue
        yield Item(kind, {"position": found.position, "length": found.length, "error_code": found.error_code})
        if levels > 1:
            yield from _results(file, found.start, found.end, levels - 1, with_payloads=with_payloads)
        else:
            yield from _fetched(file, found.start, found.end, with_payloads=with_payloads)


def _fetched(file: File, start: int, end: int, *, with_payloads: bool) -> Iterator[Item]:
    """The messages of one result, of which the last may be a part: its reader fetches that one again."""
    for found in messages(file.read_at, start, end):
        if not isinstance(found, Fault):
            yield from _message({}, found, with_payloads=with_payloads)
        elif found.is_cut:
            yield Item("part of a message", {"position": found.position, "bytes": end - found.position})
        else:
            yield damage(found.position, found.reason)


def _message(place: dict[str, Any], message: Message, *, with_payloads: bool) -> Iterator[Item]:
    fields = place | {"position": message.position, "size": message.size, "format": message.magic}
    fields["compression"] = message.compression
    is_plain = message.codec == NO_CODEC
    yield Item("message", fields | ({"payload": message.payload} if is_plain and with_payloads else {}))
    if not message.is_valid:
        yield damage(message.position, "the CRC is wrong")
        return
    for inner in () if is_plain else inner_messages(message):
        if isinstance(inner, Fault):
            yield damage(message.position, inner.reason)
        elif with_payloads:
            yield Item("inner message", place | {"format": inner.magic, "payload": inner.payload})
