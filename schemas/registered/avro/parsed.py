"""A registered schema of Avro. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sordini.schemas.registered.avro.model import AvroSchema
from sordini.schemas.registered.avro.reading import read_avro_schema
from sordini.schemas.registered.avro.resolution import AmbiguousAliases, Fault, TooManyComparisons, avro_faults
from sordini.schemas.registered.avro.writing import canonical_avro, normalized_avro, resolved_avro
from sordini.schemas.registered.references import referenced
from sordini.schemas.registered.types import ParsedSchema, Roles, SchemaSource, SchemaType


class ParsedAvro:
    """One schema; see `ParsedSchema`."""

    type = SchemaType.AVRO

    def __init__(self, source: SchemaSource, schema: AvroSchema) -> None:
        self.source = source
        self.schema = schema
        self.canonical = canonical_avro(schema)

    @cached_property
    def normalized(self) -> str:
        return normalized_avro(self.schema)

    @cached_property
    def resolved(self) -> str:
        """With the types of references inside."""
        return resolved_avro(self.schema)

    @property
    def names(self) -> Sequence[str]:
        return self.schema.own

    def unreadable(self, written: ParsedSchema, roles: Roles) -> list[str]:
        assert isinstance(written, ParsedAvro)
        try:
            return [_message(fault, roles) for fault in avro_faults(self.schema, written.schema)]
        except (TooManyComparisons, RecursionError):
            return ["The schemas are too large to be compared"]
        except AmbiguousAliases as error:
            return [f"Unexpected exception during compatibility check: {error}"]


def parse_avro(source: SchemaSource) -> ParsedAvro:
    """Raises InvalidSchema."""
    return ParsedAvro(source, read_avro_schema(source.text, referenced(source).values()))


def _message(fault: Fault, roles: Roles) -> str:
    """As Confluent's registry has it: its tools show the parts by name."""
    reader, writer, at = roles.reader, roles.writer, f"'{fault.location}'"
    description = {
        "FIXED_SIZE_MISMATCH": f"The size of FIXED type field at path {at} in the {reader} schema does not match "
        f"with the {writer} schema",
        "TYPE_MISMATCH": f"The type (path {at}) of a field in the {reader} schema does not match "
        f"with the {writer} schema",
        "NAME_MISMATCH": f"The name of the schema has changed (path {at})",
        "MISSING_ENUM_SYMBOLS": f"The {reader} schema is missing enum symbols '{fault.message}' at path {at} "
        f"in the {writer} schema",
        "MISSING_UNION_BRANCH": f"The {reader} schema is missing a type inside a union field at path {at} "
        f"in the {writer} schema",
        "READER_FIELD_MISSING_DEFAULT_VALUE": f"The field '{fault.message}' at path {at} in the {reader} schema "
        f"has no default value and is missing in the {writer} schema",
    }[fault.kind]
    return f"{{errorType:'{fault.kind}', description:'{description}', additionalInfo:'{fault.message}'}}"
