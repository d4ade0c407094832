"""Events as the bytes of records, some of them broken on the way as real ones are.

The key is the visit's, so one visit's events of one kind stay in one partition and in order. A broken record is one
that a producer with a fault would send; what it was before is lost, as in life: it counts as broken, not as a view.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

from examples.activity.generator.visits import CLICK, SEARCH, VIEW, Event

TOPICS = {VIEW: "page-views", SEARCH: "searches", CLICK: "clicks"}


class Sent(NamedTuple):
    """One record, and what it is."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int
    """When it arrives at the producer, as the record's own time: later than the event's by the way it took."""
    event: Event
    broken: str | None
    """In which way, a name of BROKEN; None for most."""


def _cut_short(value: bytes, _fields: dict[str, object], random: Random) -> bytes:
    return value[: random.randrange(1, len(value) - 1)]


def _error_page(_value: bytes, _fields: dict[str, object], _random: Random) -> bytes:
    return b"<html><head><title>502 Bad Gateway</title></head></html>"


def _bad_bytes(value: bytes, _fields: dict[str, object], random: Random) -> bytes:
    place = random.randrange(10, len(value) - 10)
    return value[:place] + b"\xff\xfe\x00" + value[place + 3 :]


def _wrong_type(_value: bytes, fields: dict[str, object], _random: Random) -> bytes:
    return encode({**fields, "event_time": "yesterday, at noon"})


def _missing_field(_value: bytes, fields: dict[str, object], _random: Random) -> bytes:
    return encode({name: value for name, value in fields.items() if name != "event_id"})


def _empty(_value: bytes, _fields: dict[str, object], _random: Random) -> bytes:
    return b""


BROKEN: dict[str, Callable[[bytes, dict[str, object], Random], bytes]] = {
    "cut short": _cut_short,
    "an error page": _error_page,
    "bad bytes": _bad_bytes,
    "a wrong type": _wrong_type,
    "a field missing": _missing_field,
    "empty": _empty,
}


def encode(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def records(happened: Iterable[Event], *, seed: int, broken_share: float) -> Iterator[Sent]:
    """The records to send, in the same order. `broken_share` is between 0 and 1."""
    # A generator of its own: how many records break does not change what visitors do.
    random = Random(f"broken {seed}")
    ways = tuple(BROKEN)
    for event in happened:
        value = encode(event.fields)
        broken = random.choice(ways) if random.random() < broken_share else None
        if broken is not None:
            value = BROKEN[broken](value, event.fields, random)
        key = str(event.fields["session_id"]).encode()
        yield Sent(TOPICS[event.kind], key, value, event.arrives_ms, event, broken)
