"""Items: what an array has at which place, and after them. Pure.

Source: Confluent Platform, "JSON Schema compatibility rules"; for `contains`, JSON Schema itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sordini.schemas.registered.json.faults import Fault, within
from sordini.schemas.registered.json.model import ContentModel, Shape
from sordini.schemas.registered.json.object_rules import added_faults, covering, rest_faults

Compare = Callable[[Shape, Shape], list[Fault]]


def array_faults(old: Shape, new: Shape, compare: Compare) -> list[Fault]:
    return [
        *added_faults(old, new, "items", compare),
        *_item_faults(old, new, compare),
        *rest_faults(old, new, "additionalItems", "ADDITIONAL_ITEMS", compare),
        *rest_faults(old, new, "unevaluatedItems", "UNEVALUATED_ITEMS", compare),
        *added_faults(old, new, "contains", compare),
    ]


def _item_faults(old: Shape, new: Shape, compare: Compare) -> Iterator[Fault]:
    before, after = ContentModel(old), ContentModel(new)
    for place in range(max(len(old.items), len(new.items))):
        if place >= len(new.items):
            found = _removed_faults(old.items[place], after, compare)
        elif place >= len(old.items):
            found = _added_faults(new.items[place], before, compare)
        else:
            found = compare(old.items[place], new.items[place])
        yield from within(found, "items", str(place))


def _removed_faults(shape: Shape, after: ContentModel, compare: Compare) -> list[Fault]:
    if after.is_open or shape.target.kind == "false":
        return []
    cover = covering(after, "")
    if cover is None:
        return [Fault("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]
    found = compare(shape, cover)
    return [*found, Fault("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())] if found else []


def _added_faults(shape: Shape, before: ContentModel, compare: Compare) -> list[Fault]:
    if before.is_open:
        return [] if shape.target.kind == "true" else [Fault("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", ())]
    cover = covering(before, "")
    if cover is None:
        return []
    found = compare(cover, shape)
    return [*found, Fault("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())] if found else []
