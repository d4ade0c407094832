"""Whether data of one schema can be read with another (Avro 1.12, "Schema Resolution"). Pure.

The kinds of faults, their messages and locations are those of Avro's own check for Java (`SchemaCompatibility`), which
clients of registries read; a test compares both over random pairs. The check of Avro's Python package is not used: see
docs/evidence/schema-compatibility.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.schemas.registered.avro.model import (
    Array,
    AvroSchema,
    Definition,
    Field,
    Map,
    Node,
    Union,
)
from sordini.system.named_tuple import NamedTuple

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
"""What each type is read from beside itself ("Schema Resolution", promotable types)."""
FAULTS_MAX: Final = 1_000
"""Faults of one comparison that are reported."""
COMPARISONS_MAX: Final = 100_000
"""Pairs of types that one comparison visits."""


class Fault(NamedTuple):
    """Why data cannot be read: `kind` is TYPE_MISMATCH and so on, `location` a JSON pointer into the reader."""

    kind: str
    message: str
    location: str


class TooManyComparisons(Exception):
    """The schemas are too large to be compared."""


class AmbiguousAliases(Exception):
    """The aliases of a field of the reader name several fields of the writer; the text says which."""


def avro_faults(reader: AvroSchema, writer: AvroSchema) -> list[Fault]:
    """Empty: all data of the writer can be read. Raises TooManyComparisons and AmbiguousAliases."""
    return _Resolution(reader, writer).faults(reader.root, writer.root, ("",))[:FAULTS_MAX]


_Path = tuple[str, ...]


class _Resolution:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader, self._writer = reader, writer
        self._found: dict[tuple[int, int], list[Fault]] = {}
        self._comparisons = 0

    def faults(self, reader: Node, writer: Node, path: _Path) -> list[Fault]:
        """Of one pair. A pair inside itself has no fault of its own."""
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        pair = id(reader), id(writer)
        if pair not in self._found:
            self._comparisons += 1
            if self._comparisons > COMPARISONS_MAX:
                raise TooManyComparisons
            self._found[pair] = []
            self._found[pair] = self._of_pair(reader, writer, path)
        return self._found[pair]

    def _of_pair(self, reader: Node, writer: Node, path: _Path) -> list[Fault]:
        if isinstance(writer, Union):
            return self._of_writer_union(reader, writer, path)
        if isinstance(reader, Union):
            return self._of_reader_union(reader, writer, path)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.faults(reader.items, writer.items, (*path, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.faults(reader.values, writer.values, (*path, "values"))
        if isinstance(reader, Definition) and isinstance(writer, Definition) and reader.kind == writer.kind:
            return [*_of_names(reader, writer, path), *self._of_definitions(reader, writer, path)]
        if reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        message = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return [_fault("TYPE_MISMATCH", message, path)]

    def _of_writer_union(self, reader: Node, writer: Union, path: _Path) -> list[Fault]:
        """Each branch may have been written."""
        if not isinstance(reader, Union):
            pairs = enumerate(writer.branches)
            return [fault for at, branch in pairs for fault in self.faults(reader, branch, (*path, str(at)))]
        found = []
        for at, branch in enumerate(writer.branches):
            if self.faults(reader, branch, ("",)):
                kind = self._writer.resolved(branch).kind.upper()
                message = f"reader union lacking writer type: {kind}"
                found.append(_fault("MISSING_UNION_BRANCH", message, (*path, str(at))))
        return found

    def _of_reader_union(self, reader: Union, writer: Node, path: _Path) -> list[Fault]:
        if any(not self.faults(branch, writer, ("",)) for branch in reader.branches):
            return []
        return [_fault("MISSING_UNION_BRANCH", f"reader union lacking writer type: {writer.kind.upper()}", path)]

    def _of_definitions(self, reader: Definition, writer: Definition, path: _Path) -> list[Fault]:
        if reader.kind == "fixed":
            if reader.size == writer.size:
                return []
            message = f"expected: {writer.size}, found: {reader.size}"
            return [_fault("FIXED_SIZE_MISMATCH", message, (*path, "size"))]
        if reader.kind == "enum":
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            if not missing or reader.enum_default is not None:
                return []
            return [_fault("MISSING_ENUM_SYMBOLS", f"[{', '.join(missing)}]", (*path, "symbols"))]
        written = {field.name: field for field in writer.fields}
        return [
            fault
            for at, field in enumerate(reader.fields)
            for fault in self._of_field(field, written, writer, (*path, "fields", str(at)))
        ]

    def _of_field(self, field: Field, written: dict[str, Field], record: Definition, path: _Path) -> Iterable[Fault]:
        other = _written_field(field, written, record)
        if other is not None:
            return self.faults(field.schema, other.schema, (*path, "type"))
        return [] if field.has_default else [_fault("READER_FIELD_MISSING_DEFAULT_VALUE", field.name, path)]


def _of_names(reader: Definition, writer: Definition, path: _Path) -> list[Fault]:
    """Unqualified names match, or an alias of the reader is the writer's full name."""
    if reader.name.name == writer.name.name or writer.name in reader.aliases:
        return []
    return [_fault("NAME_MISMATCH", f"expected: {writer.name.full}", (*path, "name"))]


def _written_field(field: Field, written: dict[str, Field], record: Definition) -> Field | None:
    found = [written[name] for name in (field.name, *field.aliases) if name in written]
    if len(found) > 1:
        text = f"Reader record field {field.name} matches multiple fields in writer record schema {record.name.full}"
        raise AmbiguousAliases(text)
    return found[0] if found else None


def _fault(kind: str, message: str, path: _Path) -> Fault:
    return Fault(kind, message, "/".join(path) or "/")
