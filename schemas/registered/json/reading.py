"""The text of a JSON schema as shapes, with what it refers to. Nothing is fetched, and no pattern is run.

Validity is decided by jsonschema with the metaschema of the draft that `$schema` names, draft 7 where it names none.
`$ref` leads into the schema, to a registered reference by its name, or to a metaschema; its resolution is that of the
library referencing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urljoin

from sordini.schemas.codecs import MissingLibrary
from sordini.schemas.registered.json.keywords import BY_TYPE, is_schema, known
from sordini.schemas.registered.json.model import CRITERIA, Criterion, Kind, Shape
from sordini.schemas.registered.json_text import read_json
from sordini.schemas.registered.types import InvalidSchema

try:
    import jsonschema
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY
    from referencing import Specification
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7, specification_with
except ImportError:
    raise MissingLibrary("JSON Schema", "jsonschema") from None

BRANCHES_MAX: Final = 1_000
"""Schemas in one `anyOf`, `oneOf` or `allOf`: each is compared with each."""
VALUES_MAX: Final = 20_000
"""Values in one text: a metaschema visits each several times, with a tenth of a millisecond."""
_NO_FORMATS: Final = jsonschema.FormatChecker(())
"""`pattern` is of ECMA-262: Python would refuse some that are valid, and compile some that are bombs."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_SIBLINGS_IGNORED: Final = ("draft-04", "draft-06", "draft-07")
_FAULTS: Final = (Unresolvable, LookupError, ValueError, TypeError, AttributeError)
"""What the resolution of a hostile reference raises, beside its own error."""


def read_json_schema_text(text: str, referenced: Mapping[str, str]) -> tuple[Any, Shape]:
    """A schema as JSON and as a shape; `referenced` are the texts of references. Raises InvalidSchema."""
    raw = _checked(read_json(text, VALUES_MAX), "$")
    others = {
        name: _checked(read_json(other, VALUES_MAX), f"the reference {name!r}") for name, other in referenced.items()
    }
    try:
        return raw, _Reader(raw, others).read()
    except _FAULTS as error:
        if isinstance(error, InvalidSchema):
            raise
        raise InvalidSchema(f"its references cannot be resolved: {_shortened(str(error))}") from None


def validator_of(raw: Any, referenced: Mapping[str, str]) -> Any:
    """The validator of jsonschema, of a schema that was read, and of the texts that it refers to."""
    others = {name: read_json(text, VALUES_MAX) for name, text in referenced.items()}
    return validator_for(raw, default=jsonschema.Draft7Validator)(raw, registry=_registry(raw, others))


def _registry(raw: Any, others: Mapping[str, Any]) -> Any:
    """What a schema may refer to. A relative name is one in the schema's own place, too."""
    base = _specification(raw).id_of(raw) or ""
    resources = []
    for name, other in others.items():
        resource = _specification(other).create_resource(other)
        resources += [(name, resource), (urljoin(base, name), resource)]
    return REGISTRY.with_resources(resources)


def _checked(raw: Any, where: str) -> Any:
    if not is_schema(raw):
        raise InvalidSchema(f"{where}: a JSON schema is an object, true or false")
    named = raw.get("$schema", "") if isinstance(raw, dict) else ""
    if not isinstance(named, str):
        raise InvalidSchema(f"{where}: '$schema' is a text")
    kind = validator_for({"$schema": named}, default=jsonschema.Draft7Validator)
    if kind is jsonschema.Draft3Validator:
        raise InvalidSchema(f"{where}: draft 3 is too old; drafts from 4 on are known")
    try:
        kind.check_schema(raw, format_checker=_NO_FORMATS)
    except jsonschema.SchemaError as error:
        path = error.json_path if where == "$" else f"{where}: {error.json_path}"
        raise InvalidSchema(f"{path}: {_shortened(error.message)}") from None
    return raw


class _Reader:
    """Makes the shapes of one schema. An object of JSON becomes one shape, however often it is referred to."""

    def __init__(self, raw: Any, others: Mapping[str, Any]) -> None:
        self._raw = raw
        specification = _specification(raw)
        self._resolver = _registry(raw, others).resolver_with_root(specification.create_resource(raw))
        self._specification = specification
        self._ignores_siblings = any(draft in specification.name for draft in _SIBLINGS_IGNORED)
        self._made: dict[int, Shape] = {}
        self._open: list[tuple[Shape, Any, Any]] = []

    def read(self) -> Shape:
        root = self._shape(self._raw, self._resolver)
        while self._open:
            reference, raw, resolver = self._open.pop()
            reference.inner = [self._shape(raw, resolver)]
        self._check_loops()
        return root

    def _shape(self, raw: Any, resolver: Any) -> Shape:
        if isinstance(raw, bool):
            return Shape("true" if raw else "false", {}, ("schema", raw))
        if id(raw) in self._made:
            return self._made[id(raw)]
        if self._specification.id_of(raw):
            resolver = resolver.in_subresource(self._specification.create_resource(raw))
        keywords = known(raw)
        shape = _joined(keywords, self._parts(keywords, resolver))
        self._made[id(raw)] = shape
        return shape

    def _parts(self, raw: Mapping[str, Any], resolver: Any) -> list[Shape]:
        parts = [self._reference(raw, raw[name], resolver) for name in _REFERENCES if name in raw]
        if parts and self._ignores_siblings:
            return parts
        parts += [self._combined(one, raw, resolver) for one in CRITERIA if one in raw]
        for name in ("enum", "const"):
            if name in raw:
                kind: Kind = "enum" if name == "enum" else "const"
                parts.append(Shape(kind, raw, (kind, raw[name])))
        if "not" in raw:
            parts.append(Shape("not", raw, ("not", raw["not"]), inner=[self._shape(raw["not"], resolver)]))
        if "if" in raw and ("then" in raw or "else" in raw):
            meaning = ("conditional", [raw.get(name) for name in ("if", "then", "else")])
            parts.append(Shape("conditional", raw, meaning))
        return [*parts, *self._typed_parts(raw, resolver)]

    def _reference(self, raw: Mapping[str, Any], target: str, resolver: Any) -> Shape:
        shape = Shape("reference", raw, ("reference", target))
        try:
            found = resolver.lookup(target)
        except _FAULTS:
            raise InvalidSchema(
                f"{_shortened(repr(target))} is referred to, and neither in the schema nor among its references"
            ) from None
        if not is_schema(found.contents):
            raise InvalidSchema(f"{_shortened(repr(target))} is referred to, and is no schema")
        self._open.append((shape, found.contents, found.resolver))
        return shape

    def _combined(self, criterion: Criterion, raw: Mapping[str, Any], resolver: Any) -> Shape:
        if len(raw[criterion]) > BRANCHES_MAX:
            raise InvalidSchema(f"'{criterion}' of more than {BRANCHES_MAX} schemas")
        inner = [self._shape(one, resolver) for one in raw[criterion]]
        return Shape("combined", raw, (criterion, raw[criterion]), criterion=criterion, inner=inner)

    def _typed_parts(self, raw: Mapping[str, Any], resolver: Any) -> list[Shape]:
        if "type" not in raw:
            families = [family for family, keywords in BY_TYPE.items() if not keywords.isdisjoint(raw)]
            return [self._typed(family, raw, resolver, is_strict=False) for family in families]
        names = raw["type"] if isinstance(raw["type"], list) else [raw["type"]]
        inner = [self._typed(name, raw, resolver, is_strict=True) for name in names]
        if len(inner) == 1:
            return inner
        return [Shape("combined", raw, ("type", names), criterion="anyOf", inner=inner)]

    def _typed(self, name: str, raw: Mapping[str, Any], resolver: Any, *, is_strict: bool) -> Shape:
        kinds: Mapping[str, Kind] = {"string": "string", "boolean": "boolean", "null": "null", "array": "array"}
        kind = kinds.get(name, "object" if name == "object" else "number")
        own = {key: value for key, value in raw.items() if key in BY_TYPE.get(kind, ())}
        shape = Shape(kind, raw, (name, own), is_strict=is_strict, is_integer=name == "integer")
        if kind == "object":
            self._fill_object(shape, lambda one: self._shape(one, resolver))
        elif kind == "array":
            self._fill_array(shape, lambda one: self._shape(one, resolver))
        return shape

    def _fill_object(self, shape: Shape, made: Callable[[Any], Shape]) -> None:
        raw = shape.keywords
        shape.properties = {name: made(one) for name, one in raw.get("properties", {}).items()}
        shape.patterns = {name: made(one) for name, one in raw.get("patternProperties", {}).items()}
        for name, one in {**raw.get("dependencies", {}), **raw.get("dependentRequired", {})}.items():
            if isinstance(one, list):
                shape.dependent_required[name] = frozenset(one)
        for name, one in {**raw.get("dependencies", {}), **raw.get("dependentSchemas", {})}.items():
            if not isinstance(one, list):
                shape.dependent_schemas[name] = made(one)
        for keyword in ("additionalProperties", "unevaluatedProperties", "propertyNames"):
            if keyword in raw:
                shape.others[keyword] = made(raw[keyword])

    def _fill_array(self, shape: Shape, made: Callable[[Any], Shape]) -> None:
        """`prefixItems` with `items` of 2020-12 are `items` with `additionalItems` of the drafts before."""
        raw = shape.keywords
        by_place = raw.get("prefixItems", raw.get("items"))
        if isinstance(by_place, list):
            shape.items = [made(one) for one in by_place]
            after = raw.get("items") if "prefixItems" in raw else raw.get("additionalItems")
            if is_schema(after):
                shape.others["additionalItems"] = made(after)
        elif "items" in raw:
            shape.others["items"] = made(raw["items"])
        for keyword in ("unevaluatedItems", "contains"):
            if keyword in raw:
                shape.others[keyword] = made(raw[keyword])

    def _check_loops(self) -> None:
        """A reference that leads only to references, back to itself, permits nothing and everything."""
        for start in self._made.values():
            shape, seen = start, set[int]()
            while shape.kind == "reference":
                if id(shape) in seen:
                    raise InvalidSchema(f"the reference {_shortened(shape.text)} leads back to itself")
                seen.add(id(shape))
                shape = shape.inner[0]


def _joined(raw: Mapping[str, Any], parts: list[Shape]) -> Shape:
    if not parts:
        return Shape("true", raw, ("schema", True))
    if len(parts) == 1:
        return parts[0]
    return Shape("combined", raw, ("schema", raw), criterion="allOf", inner=parts)


def _specification(raw: Any) -> Specification[Any]:
    named = raw.get("$schema") if isinstance(raw, dict) else None
    return specification_with(named or "", default=DRAFT7)


def _shortened(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
