"""The batch of records that one call of `Kafka.produce` appends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sordini.packs.packed_records import Value, encoded
from sordini.protocol.records.batch import Record
from sordini.testing.arguments import ArgumentRefused, header_pairs, many

Headers = Mapping[str, Value] | Iterable[tuple[str, Value]] | None


def batch_of(values: Value | Iterable[Value], key: Value, headers: Headers, timestamp_ms: int) -> list[Record]:
    """A record for each value, all with this key, these headers and this time (ms). Raises ValueError."""
    listed = many(values)
    if not listed:
        raise ArgumentRefused("values", values, "one value, or several")
    pairs = tuple((name, encoded(value)) for name, value in header_pairs("headers", headers))
    return [Record(index, timestamp_ms, encoded(key), encoded(value), pairs) for index, value in enumerate(listed)]
