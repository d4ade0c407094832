"""Avro by fastavro, with values in Avro's own JSON encoding.

A .avsc file is read, and records' bytes, without a header of a registry. `avro_json.py` has the encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, Final

from sordini.schemas.avro_json import BRANCH, BRANCH_FIELD, AvroJson, is_named
from sordini.schemas.codecs import Json, MissingLibrary, SchemaError, ValueRefused

try:
    import fastavro
    from fastavro import _read_py as in_python
    from fastavro.repository.base import SchemaRepositoryError
except ImportError:
    raise MissingLibrary("Avro", "fastavro") from None

_SCHEMA_FAULTS = (SchemaRepositoryError, fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError)
_TOO_DEEP: Final = "not Avro of this schema: its values are nested too deeply"


class AvroCodec:
    """One schema, as JSON or as fastavro has parsed it; `named` has the types that it refers to."""

    def __init__(self, schema: Any, named: dict[str, Any] | None = None) -> None:
        # The first parsing makes all names whole, which a record around them may not change.
        known = dict(named or {})
        parsed = fastavro.parse_schema(schema, named_schemas=known)
        self._named: dict[str, Any] = {}
        prepared = _Preparation(known).prepared(parsed)
        self._schema = fastavro.parse_schema(prepared, named_schemas=self._named, _force=True)
        self._json = AvroJson(self._named)
        self._reader = _reader_of(self._named)

    def decode(self, data: bytes) -> Json:
        value = self._read(data)
        try:
            return self._json.written(self._schema, value)
        except RecursionError:
            raise ValueRefused(_TOO_DEEP) from None

    def check(self, data: bytes) -> None:
        self._read(data)

    def _read(self, data: bytes) -> Any:
        # Values of unions come with the name of their type: else the branch would have to be guessed.
        return _read_whole(self._reader, self._schema, data, return_record_name=True, return_named_type=True)

    def encode(self, value: Json) -> bytes:
        made, target = self._json.read(self._schema, value), BytesIO()
        try:
            fastavro.schemaless_writer(target, self._schema, made)
        except Exception as error:  # noqa: BLE001 - as above.
            raise ValueRefused(f"does not fit the Avro schema: {str(error) or type(error).__name__}") from None
        return target.getvalue()


class BareAvro:
    """One schema, whose values are those of its base types, without names of branches, and as no logical type has them.

    `schema` is as fastavro has parsed it, with its logical types; `named` has the types that it refers to by name.
    """

    def __init__(self, schema: Any) -> None:
        """Raises SchemaError."""
        self.named: dict[str, Any] = {}
        bare: dict[str, Any] = {}
        try:
            self.schema = fastavro.parse_schema(schema, named_schemas=self.named)
            prepared = _Preparation(self.named, names_branches=False).prepared(self.schema)
            self._bare = fastavro.parse_schema(prepared, named_schemas=bare, _force=True)
        except (*_SCHEMA_FAULTS, fastavro.schema.UnknownType) as error:
            raise SchemaError(f"not a schema of Avro: {str(error).strip() or type(error).__name__}") from None
        self._reader = _reader_of(bare)

    def read(self, data: bytes) -> Any:
        """The value of some bytes. Raises ValueRefused."""
        return _read_whole(self._reader, self._bare, data)


def _reader_of(named: Mapping[str, Any]) -> Any:
    """The compiled reader of fastavro, or that in Python.

    The compiled one overflows the stack, and the process ends, where values are nested in each other some thousand
    times: only those of a type that is within itself are. The other one raises RecursionError.
    """
    return in_python.schemaless_reader if _is_recursive(named) else fastavro.schemaless_reader


def _read_whole(reader: Any, schema: Any, data: bytes, **options: bool) -> Any:
    """A value that ends where the bytes end. Raises ValueRefused."""
    source = BytesIO(data)
    try:
        value = reader(source, schema, None, **options)
    except RecursionError:
        raise ValueRefused(_TOO_DEEP) from None
    except Exception as error:  # noqa: BLE001 - fastavro has no error of its own for wrong bytes: nearly any may come.
        is_short = isinstance(error, (EOFError, IndexError)) and source.tell() >= len(data)
        why = "it ends too early" if is_short else str(error) or type(error).__name__
        raise ValueRefused(f"not Avro of this schema: {why}") from None
    if source.tell() != len(data):
        left = len(data) - source.tell()
        raise ValueRefused(f"not Avro of this schema: {left} bytes are left behind the value")
    return value


def read_avro(path: Path) -> AvroCodec:
    """The schema in an .avsc file; types that it only names are in NAME.avsc beside it. Raises SchemaError, OSError."""
    path.read_bytes()  # The system's error where it cannot be read: fastavro's says another.
    named: dict[str, Any] = {}
    try:
        return AvroCodec(fastavro.schema.load_schema(str(path), named_schemas=named), named)
    except _SCHEMA_FAULTS as error:
        raise SchemaError(f"{path}: not a schema of Avro: {str(error).strip() or type(error).__name__}") from None
    except fastavro.schema.UnknownType as error:
        raise SchemaError(f"{path}: the type {error.name} is neither in it nor in a file beside it") from None


def avro_codec(schema: Any) -> AvroCodec:
    """Of a schema as JSON, which defines all that it names. Raises SchemaError."""
    try:
        return AvroCodec(schema)
    except (*_SCHEMA_FAULTS, fastavro.schema.UnknownType) as error:
        raise SchemaError(f"not a schema of Avro: {str(error).strip() or type(error).__name__}") from None


class _Preparation:
    """A schema with the same bytes, for which fastavro neither converts nor guesses.

    Without logical types: the JSON encoding has what lies below them, and so no value is rounded. And each branch of a
    union has a name, which fastavro reads and writes beside the value: a branch without one is the only field of a
    record, whose bytes are those of its field.
    """

    def __init__(self, named: dict[str, Any], *, names_branches: bool = True) -> None:
        self._named = named
        self._names_branches = names_branches
        self._numbers = count()

    def prepared(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._branch(branch) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema["type"] in {"record", "error"}:
            fields = [{**field, "type": self.prepared(field["type"])} for field in schema["fields"]]
            return {"type": schema["type"], "name": schema["name"], "namespace": "", "fields": fields}
        kept = {key: schema[key] for key in ("name", "size", "symbols") if key in schema}
        if "items" in schema and self._is_empty(schema["items"]):
            raise ValueError("the items of an array take no bytes: a few bytes could be any number of them")
        for key in ("items", "values"):
            if key in schema:
                kept[key] = self.prepared(schema[key])
        return {"type": self.prepared(schema["type"]), **kept}

    def _is_empty(self, schema: Any, within: tuple[str, ...] = ()) -> bool:
        """Whether its values take no bytes: null, and records of nothing else. `within` are the records around it."""
        while isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if not isinstance(schema, dict):
            return bool(schema == "null")
        if schema["type"] in {"record", "error"}:
            if schema["name"] in within:
                return True  # No value ends, if nothing else in it takes bytes.
            return all(self._is_empty(field["type"], (*within, schema["name"])) for field in schema["fields"])
        return schema.get("size") == 0 or self._is_empty(schema["type"], within)

    def _branch(self, branch: Any) -> Any:
        if branch == "null" or not self._names_branches or is_named(branch, self._named):
            return self.prepared(branch)
        fields = [{"name": BRANCH_FIELD, "type": self.prepared(branch)}]
        return {"type": "record", "name": f"{BRANCH}{next(self._numbers)}", "namespace": "", "fields": fields}


def _is_recursive(named: Mapping[str, Any]) -> bool:
    """Whether a type is within itself, through others too. Every named type is an entry."""
    inner = {name: frozenset(_names_in(schema, named)) for name, schema in named.items()}
    open_names = dict(inner)
    while done := [name for name, names in open_names.items() if names.isdisjoint(open_names)]:
        for name in done:
            del open_names[name]
    return bool(open_names)


def _names_in(schema: Any, named: Mapping[str, Any]) -> Iterator[str]:
    """The named types that stand in a definition, as their names or defined there; not what is within those."""
    left = [*_parts(schema)]
    while left:
        part = left.pop()
        name = part if isinstance(part, str) else part.get("name") if isinstance(part, dict) else None
        if name in named:
            yield str(name)
        else:
            left.extend(_parts(part))


def _parts(schema: Any) -> Iterable[Any]:
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return ()
    fields = [field["type"] for field in schema.get("fields", ())]
    return [*fields, *(schema[key] for key in ("items", "values", "type") if key in schema)]
