"""Values of Avro in Avro's JSON encoding (Avro 1.12, "JSON Encoding"), as fastavro has them and wants them. Pure.

A value of a union names its branch, `{"string": "x"}`; bytes are text of ISO 8859-1; numbers that JSON lacks are the
texts NaN, Infinity and -Infinity. So a value that was written is read back as it was, and other tools of Avro print
and read the same. Unlike there, a field with a default may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from sordini.schemas.codecs import Json, ValueRefused

_WIDTHS: Final = {"int": 31, "long": 63}
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
BRANCH: Final = "sordini_branch_"
"""How the records begin that stand around branches of unions without a name (`avro.py`)."""
BRANCH_FIELD: Final = "value"


def is_named(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether it is a record, an enum or a fixed, or the name of one."""
    return schema in named if isinstance(schema, str) else isinstance(schema, dict) and "name" in schema


class AvroJson:
    """The encoding under schemas as fastavro has parsed them; `named` are the types that they refer to by name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def written(self, schema: Any, value: Any) -> Json:
        """A value of fastavro as JSON."""
        if isinstance(schema, list):
            return self._written_union(schema, value)
        kind, schema = self._resolved(schema)
        if kind in {"bytes", "fixed"}:
            return value.decode("latin-1")
        if kind in {"float", "double"}:
            return value if math.isfinite(value) else _special(value)
        if kind == "array":
            return [self.written(schema["items"], item) for item in value]
        if kind == "map":
            return {key: self.written(schema["values"], item) for key, item in value.items()}
        if kind in {"record", "error"}:
            return {field["name"]: self.written(field["type"], value[field["name"]]) for field in schema["fields"]}
        return value

    def _written_union(self, branches: list[Any], value: Any) -> Json:
        if value is None:
            return None
        name, inner = value
        branch = next(branch for branch in branches if branch != "null" and self._resolved(branch)[1]["name"] == name)
        written = self.written(branch, inner)
        return {self._name(branch): written[BRANCH_FIELD] if name.startswith(BRANCH) else written}

    def read(self, schema: Any, value: Json, path: str = "$") -> Any:
        """The reverse of `written`, for fastavro's writer. Raises ValueRefused, which says where in the value."""
        if isinstance(schema, list):
            return self._read_union(schema, value, path)
        kind, schema = self._resolved(schema)
        if kind == "array":
            _require(isinstance(value, list), path, value, "an array")
            return [self.read(schema["items"], item, f"{path}[{at}]") for at, item in enumerate(value)]
        if kind == "map":
            _require(isinstance(value, dict), path, value, "a map")
            return {key: self.read(schema["values"], item, f"{path}.{key}") for key, item in value.items()}
        if kind in {"record", "error"}:
            return self._read_record(schema, value, path)
        if kind in {"bytes", "fixed"}:
            return _bytes(schema, value, path)
        if kind == "enum":
            _require(value in schema["symbols"], path, value, f"one of {', '.join(schema['symbols'])}")
            return value
        return _PRIMITIVES[kind](value, path)

    def _read_union(self, branches: list[Any], value: Json, path: str) -> Any:
        names = [self._name(branch) for branch in branches]
        if value is None and "null" in names:
            return None
        wanted = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else None
        if wanted not in names or wanted == "null":
            shown = [f'{{"{name}": ...}}' if name != "null" else "null" for name in names]
            raise _refused(path, value, f"a value of the union, which is {' or '.join(shown)}")
        return self._in_branch(branches[names.index(wanted)], value[wanted], f"{path}.{wanted}")

    def _in_branch(self, branch: Any, value: Json, path: str) -> Any:
        """With the branch's name, for fastavro."""
        _, schema = self._resolved(branch)
        if branch == "null":
            return self.read(branch, value, path)
        if not schema["name"].startswith(BRANCH):
            return schema["name"], self.read(branch, value, path)
        return schema["name"], {BRANCH_FIELD: self.read(schema["fields"][0]["type"], value, path)}

    def _read_record(self, schema: Any, value: Json, path: str) -> dict[str, Any]:
        _require(isinstance(value, dict), path, value, f"a record {schema['name']}")
        fields = {field["name"]: field for field in schema["fields"]}
        if unknown := [name for name in value if name not in fields]:
            raise ValueRefused(f"{path}: {schema['name']} has no field {unknown[0]!r}; there are {', '.join(fields)}")
        made = {}
        for name, field in fields.items():
            if name in value:
                made[name] = self.read(field["type"], value[name], f"{path}.{name}")
            elif "default" in field:
                made[name] = self._default(field["type"], field["default"], f"{path}.{name}")
            else:
                raise ValueRefused(f"{path}: {schema['name']} needs the field {name!r}")
        return made

    def _default(self, schema: Any, value: Json, path: str) -> Any:
        """A default is of the first branch of a union, without its name."""
        if isinstance(schema, list):
            return self._in_branch(schema[0], value, path)
        return self.read(schema, value, path)

    def _resolved(self, schema: Any) -> tuple[str, Any]:
        """The type's name and the whole schema."""
        while True:
            if isinstance(schema, str):
                if schema in _PRIMITIVES or schema == "bytes":
                    return schema, schema
                schema = self._named[schema]
            elif isinstance(schema["type"], (dict, list)) or schema["type"] in self._named:
                schema = schema["type"]
            else:
                return schema["type"], schema

    def _name(self, branch: Any) -> str:
        """How a union names a branch: named types by their full name, others by their kind."""
        kind, schema = self._resolved(branch)
        if not isinstance(schema, dict) or "name" not in schema:
            return kind
        name = str(schema["name"])
        return self._resolved(schema["fields"][0]["type"])[0] if name.startswith(BRANCH) else name


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _refused(path: str, value: Json, wanted: str) -> ValueRefused:
    text = repr(value)
    return ValueRefused(f"{path}: {text if len(text) <= 60 else text[:60] + '...'} is not {wanted}")


def _require(holds: bool, path: str, value: Json, wanted: str) -> None:  # noqa: FBT001 - the condition itself.
    if not holds:
        raise _refused(path, value, wanted)


def _bytes(schema: Any, value: Json, path: str) -> bytes:
    try:
        data = str(value).encode("latin-1") if isinstance(value, str) else None
    except UnicodeEncodeError:
        data = None
    if data is None:
        raise _refused(path, value, "bytes as text of ISO 8859-1")
    size = schema["size"] if isinstance(schema, dict) and "size" in schema else len(data)
    _require(len(data) == size, path, value, f"{size} bytes")
    return data


def _null(value: Json, path: str) -> None:
    _require(value is None, path, value, "null")


def _boolean(value: Json, path: str) -> bool:
    _require(isinstance(value, bool), path, value, "true or false")
    return bool(value)


def _whole(kind: str) -> Callable[[Json, str], int]:
    bound = 1 << _WIDTHS[kind]

    def read(value: Json, path: str) -> int:
        fits = isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
        _require(fits, path, value, f"{'an' if kind == 'int' else 'a'} {kind}")
        return int(value)

    return read


def _number(value: Json, path: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    _require(isinstance(value, (int, float)) and not isinstance(value, bool), path, value, "a number")
    return float(value)


def _string(value: Json, path: str) -> str:
    _require(isinstance(value, str), path, value, "a string")
    return str(value)


_PRIMITIVES: Final[dict[str, Callable[[Json, str], Any]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole("int"),
    "long": _whole("long"),
    "float": _number,
    "double": _number,
    "string": _string,
}
