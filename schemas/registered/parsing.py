"""From the text of a schema to a parsed one: the only way in. Its time is bounded, its error is `InvalidSchema`."""

from __future__ import annotations

from sordini.schemas.registered.references import check_texts
from sordini.schemas.registered.types import InvalidSchema, ParsedSchema, SchemaSource, SchemaType


def parse(source: SchemaSource) -> ParsedSchema:
    """A schema with its references. The library of its kind is imported here.

    Raises InvalidSchema, whose text says why and where; MissingLibrary where a kind's library is not installed. A
    schema of Protobuf is compiled by a process of its own, for which this waits.
    """
    check_texts(source)
    try:
        return _parse_kind(source)
    except RecursionError:
        raise InvalidSchema("nested too deeply") from None


def formatted(schema: ParsedSchema, wanted: str) -> str:
    """The text in another format, as `?format=` names it; canonical for one that is unknown.

    `resolved` is Avro with the types of references in it, `serialized` a file descriptor of Protobuf in Base64.
    """
    if wanted == "resolved" and schema.type is SchemaType.AVRO:
        from sordini.schemas.registered.avro.parsed import ParsedAvro

        assert isinstance(schema, ParsedAvro)
        return schema.resolved
    if wanted == "serialized" and schema.type is SchemaType.PROTOBUF:
        from sordini.schemas.registered.protobuf.parsed import ParsedProtobuf

        assert isinstance(schema, ParsedProtobuf)
        return schema.serialized
    return schema.canonical


def _parse_kind(source: SchemaSource) -> ParsedSchema:
    if source.type is SchemaType.AVRO:
        from sordini.schemas.registered.avro.parsed import parse_avro

        return parse_avro(source)
    if source.type is SchemaType.JSON:
        from sordini.schemas.registered.json.parsed import parse_json_schema

        return parse_json_schema(source)
    from sordini.schemas.registered.protobuf.parsed import parse_protobuf

    return parse_protobuf(source)
