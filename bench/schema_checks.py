"""`python -m bench.schema_checks`: what a broker's child spends on a value where `sordini.schema.validate=full`.

Printed for each kind of schema: the time to check a small value, and the first time with parsing and importing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.registered_codecs import codec_of_parsed
from sordini.schemas.registered.types import SchemaSource, SchemaType

VALUES = 20_000
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
    ],
}
JSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}, "price": {"type": "number"}},
    "required": ["id"],
}
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; double price = 3; }'
ORDER: Mapping[str, Any] = {"id": 7, "note": "by hand", "price": 1.5}
CASES: tuple[tuple[SchemaType, str, Mapping[str, Any]], ...] = (
    (SchemaType.AVRO, json.dumps(AVRO), {**ORDER, "note": {"string": "by hand"}}),
    (SchemaType.JSON, json.dumps(JSON), ORDER),
    (SchemaType.PROTOBUF, PROTOBUF, ORDER),
)


def main() -> None:
    for kind, text, value in CASES:
        began = time.perf_counter()
        codec = codec_of_parsed(parse(SchemaSource(kind, text, (), {})), (0,))
        first_ms = (time.perf_counter() - began) * 1e3
        data = codec.encode(value)
        began = time.perf_counter()
        for _ in range(VALUES):
            codec.check(data)
        each_us = (time.perf_counter() - began) / VALUES * 1e6
        print(f"{kind.value}: a value of {len(data)} bytes {each_us:.1f} µs; before the first {first_ms:.0f} ms")


if __name__ == "__main__":
    main()
