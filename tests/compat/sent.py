"""The records that every client test sends and expects back unchanged."""

from __future__ import annotations

from typing import NamedTuple

# A Tuesday in 2024: records carry the times their producer gave them, not the time of the test.
START_MS = 1_710_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]


def records(count: int) -> list[Sent]:
    """Records of every kind: with and without keys, tombstones, headers, empty and large values."""
    return [
        Sent(
            key=None if number % 5 == 0 else b"key-%d" % (number % 7),
            value=_value(number),
            timestamp_ms=START_MS + 1_000 * number,
            headers=[("number", b"%d" % number), ("number", b"again")] if number % 3 == 0 else [],
        )
        for number in range(count)
    ]


def _value(number: int) -> bytes | None:
    if number % 5 == 1:
        return None  # A tombstone; these records have keys.
    if number % 5 == 2:
        return b""
    return b"value-%d " % number * (1 + number % 40)
