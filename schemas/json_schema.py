"""JSON, and JSON by JSON Schema (drafts 3 to 2020-12, by the schema's `$schema`), which jsonschema checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordini.schemas.codecs import Json, MissingLibrary, SchemaError, ValueRefused

if TYPE_CHECKING:
    from referencing import Resource

ERRORS_MAX = 3
"""How many reasons a refusal names."""


class JsonCodec:
    """Any JSON."""

    def decode(self, data: bytes) -> Json:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueRefused(f"not JSON: {error}") from None

    def encode(self, value: Json) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def check(self, data: bytes) -> None:
        self.decode(data)


class JsonSchemaCodec:
    """JSON that fits a schema, in both directions."""

    def __init__(self, validator: Any) -> None:
        self._validator = validator
        self._plain = JsonCodec()

    def decode(self, data: bytes) -> Json:
        return self._checked(self._plain.decode(data))

    def encode(self, value: Json) -> bytes:
        return self._plain.encode(self._checked(value))

    def check(self, data: bytes) -> None:
        self.decode(data)

    def _checked(self, value: Json) -> Json:
        from referencing.exceptions import Unresolvable

        try:
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
        except Unresolvable as error:
            raise ValueRefused(f"the schema refers to {error.ref!r}, which is not beside it") from None
        except RecursionError:
            raise ValueRefused("the value or the schema is nested too deeply") from None
        if not errors:
            return value
        reasons = [f"{error.json_path}: {_shortened(error.message)}" for error in errors[:ERRORS_MAX]]
        more = f", and {len(errors) - ERRORS_MAX} more" if len(errors) > ERRORS_MAX else ""
        raise ValueRefused(f"does not fit the JSON schema: {'; '.join(reasons)}{more}")


def read_json_schema(path: Path) -> JsonSchemaCodec:
    """The schema in a file; what it refers to is in files beside it. Raises SchemaError and OSError."""
    try:
        import jsonschema
        from referencing import Registry
    except ImportError:
        raise MissingLibrary("JSON Schema", "jsonschema") from None
    schema = _read(path)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise SchemaError(f"{path}: not a JSON schema: {error.json_path}: {_shortened(error.message)}") from None

    def retrieve(uri: str) -> Resource[Any]:
        return _beside(path, uri)

    # Nothing is fetched from a network: a schema is no reason to connect to where it says.
    registry: Any = Registry(retrieve=retrieve)  # type: ignore[call-arg] # attrs hides the name.
    return JsonSchemaCodec(kind(schema, registry=registry))


def _beside(path: Path, uri: str) -> Resource[Any]:
    """The schema of a reference: the file of its last name, in the folder of the first. Raises NoSuchResource."""
    from referencing import Resource
    from referencing.exceptions import NoSuchResource
    from referencing.jsonschema import DRAFT202012

    name = uri.rsplit("/", 1)[-1]
    try:
        return Resource.from_contents(_read(path.parent / name), default_specification=DRAFT202012)
    except (OSError, SchemaError):
        raise NoSuchResource(ref=uri) from None  # type: ignore[call-arg]


def _read(path: Path) -> Any:
    try:
        schema = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: not JSON: {error}") from None
    if not isinstance(schema, (dict, bool)):
        raise SchemaError(f"{path}: a JSON schema is an object, true or false")
    return schema


def _shortened(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
