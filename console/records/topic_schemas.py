"""The schemas of keys and values that the console was started with: `TOPIC=KIND:FILE[:MESSAGE]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sordini.schemas.codecs import Codec
from sordini.schemas.schema_files import KINDS, read_schema
from sordini.system.named_tuple import NamedTuple

NONE: Final[Mapping[str, Codec]] = MappingProxyType({})


class TopicSchemas(NamedTuple):
    """By topic; a topic without one is shown as its bytes are."""

    keys: Mapping[str, Codec] = NONE
    values: Mapping[str, Codec] = NONE


def read_schemas(written: Iterable[str], option: str) -> dict[str, Codec]:
    """The schemas of an option. Raises ValueError; SchemaError for one that cannot be used."""
    found: dict[str, Codec] = {}
    for text in written:
        topic, has_topic, rest = text.partition("=")
        name, has_kind, file = rest.partition(":")
        kind = next((one for one in KINDS if one == name), None)
        if not (topic and has_topic and has_kind and file) or kind is None:
            raise ValueError(
                f"{option} {text!r}: allowed is TOPIC=KIND:FILE with the kind {', '.join(KINDS[:-1])} or {KINDS[-1]}, "
                "as orders=avro:order.avsc or orders=protobuf:shop.proto:Order"
            )
        if topic in found:
            raise ValueError(f"{option}: topic {topic!r} is there twice, and it has one schema")
        found[topic] = read_schema(kind, file)
    return found
