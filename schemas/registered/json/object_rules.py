"""Properties: what an object may have, must have, and has beside them. Pure.

Source: Confluent Platform, "JSON Schema compatibility rules", with its three content models. Its rules say nothing of
`patternProperties` that come and go, of `propertyNames`, and of required names that are no properties: there what JSON
Schema permits decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sordini.schemas.registered.json.faults import Fault, within
from sordini.schemas.registered.json.model import ContentModel, Shape
from sordini.schemas.registered.json.patterns import matches_name

Compare = Callable[[Shape, Shape], list[Fault]]
_COVERED: Final = "COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"


def object_faults(old: Shape, new: Shape, compare: Compare) -> list[Fault]:
    return [
        *_required_faults(old, new),
        *_property_faults(old, new, compare),
        *_pattern_faults(old, new, compare),
        *_dependency_faults(old, new, compare),
        *rest_faults(old, new, "additionalProperties", "ADDITIONAL_PROPERTIES", compare),
        *rest_faults(old, new, "unevaluatedProperties", "UNEVALUATED_PROPERTIES", compare),
        *added_faults(old, new, "propertyNames", compare),
    ]


def rest_faults(old: Shape, new: Shape, keyword: str, name: str, compare: Compare) -> list[Fault]:
    """What is permitted beside what is named, which is anything without the keyword."""
    before, after = (_restricting(shape.others.get(keyword)) for shape in (old, new))
    if after is None or (before is not None and before.kind == "false"):
        return []
    if after.kind == "false":
        return [Fault(f"{name}_REMOVED", (keyword,))]
    if before is None:
        return [Fault(f"{name}_NARROWED", (keyword,))]
    return within(compare(before, after), keyword)


def added_faults(old: Shape, new: Shape, keyword: str, compare: Compare) -> list[Fault]:
    """A keyword with a schema, which permits anything where it is absent."""
    after = _restricting(new.others.get(keyword))
    if after is None:
        return []
    before = old.others.get(keyword)
    return [Fault("SCHEMA_ADDED", (keyword,))] if before is None else within(compare(before, after), keyword)


def covering(model: ContentModel, name: str) -> Shape | None:
    """The schema of a name that is no property, in a model that is partially open."""
    for pattern, shape in model.patterns.items():
        if matches_name(pattern, name):
            return shape
    return model.rest if model.rest is not None and model.rest.kind not in {"true", "false"} else None


def _restricting(shape: Shape | None) -> Shape | None:
    target = shape.target if shape is not None else None
    return None if target is not None and target.kind == "true" else target


def _required_faults(old: Shape, new: Shape) -> Iterator[Fault]:
    for name in sorted(new.required - old.required):
        if name in old.properties and name in new.properties:
            if not _has_default(new.properties[name]):
                yield Fault("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
        elif name not in new.properties:
            yield Fault("REQUIRED_ATTRIBUTE_ADDED", ("required", name))


def _property_faults(old: Shape, new: Shape, compare: Compare) -> Iterator[Fault]:
    before, after = ContentModel(old), ContentModel(new)
    for name in dict.fromkeys((*old.properties, *new.properties)):
        if name not in new.properties:
            found = _removed_faults(old.properties[name], covering(after, name), after, compare)
        elif name not in old.properties:
            found = _added_faults(name, new, before, compare)
        else:
            found = compare(old.properties[name], new.properties[name])
        yield from within(found, "properties", name)


def _removed_faults(shape: Shape, cover: Shape | None, after: ContentModel, compare: Compare) -> list[Fault]:
    if after.is_open:
        return []
    if cover is not None:
        found = compare(shape, cover)
        return [*found, Fault(f"PROPERTY_REMOVED_NOT_{_COVERED}", ())] if found else []
    if shape.target.kind == "false" or (after.rest is None or after.rest.kind == "true"):
        return []
    return [Fault("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]


def _added_faults(name: str, new: Shape, before: ContentModel, compare: Compare) -> list[Fault]:
    shape, is_required = new.properties[name], name in new.required
    if before.is_open:
        if shape.target.kind == "true":
            return [Fault("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", ())] if is_required else []
        if not is_required:
            return [Fault("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", ())]
        with_default = "_WITH_DEFAULT" if _has_default(shape) else ""
        return [Fault(f"REQUIRED_PROPERTY{with_default}_ADDED_TO_OPEN_CONTENT_MODEL", ())]
    found: list[Fault] = []
    cover = covering(before, name)
    if cover is not None:
        found = compare(cover, shape)
    elif not before.is_closed and shape.target.kind != "true":  # Patterns, and anything that they do not match.
        found = [Fault("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", ())]
    if cover is not None and found:
        found = [*found, Fault(f"PROPERTY_ADDED_NOT_{_COVERED}", ())]
    if is_required and not _has_default(shape):
        found = [*found, Fault("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", ())]
    return found


def _pattern_faults(old: Shape, new: Shape, compare: Compare) -> Iterator[Fault]:
    before, after = ContentModel(old), ContentModel(new)
    for pattern in dict.fromkeys((*old.patterns, *new.patterns)):
        found: list[Fault] = []
        if pattern not in new.patterns:
            if after.is_closed and old.patterns[pattern].target.kind != "false":
                found = [Fault("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]
            elif after.rest is not None and after.rest.kind not in {"true", "false"}:
                found = compare(old.patterns[pattern], after.rest)
        elif pattern not in old.patterns:
            if before.rest is None or before.rest.kind == "true":
                is_narrower = new.patterns[pattern].target.kind != "true"
                found = [Fault("SCHEMA_ADDED", ())] if is_narrower else []
            elif not before.is_closed:
                found = compare(before.rest, new.patterns[pattern])
        else:
            found = compare(old.patterns[pattern], new.patterns[pattern])
        yield from within(found, "patternProperties", pattern)


def _dependency_faults(old: Shape, new: Shape, compare: Compare) -> Iterator[Fault]:
    for name, after in new.dependent_required.items():
        before = old.dependent_required.get(name)
        if before is None:
            yield Fault("DEPENDENCY_ARRAY_ADDED", ("dependencies", name))
        elif not after <= before:
            kind = "EXTENDED" if before <= after else "CHANGED"
            yield Fault(f"DEPENDENCY_ARRAY_{kind}", ("dependencies", name))
    for name, shape in new.dependent_schemas.items():
        earlier = old.dependent_schemas.get(name)
        if earlier is not None:
            yield from within(compare(earlier, shape), "dependencies", name)
        elif shape.target.kind != "true":
            yield Fault("DEPENDENCY_SCHEMA_ADDED", ("dependencies", name))


def _has_default(shape: Shape) -> bool:
    return "default" in shape.keywords
