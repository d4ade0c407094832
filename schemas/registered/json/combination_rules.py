"""`allOf`, `anyOf` and `oneOf`: which combination permits all that another one permits. Pure.

Source: Confluent Platform, "JSON Schema compatibility rules", sum and product types. A sum (`anyOf`, `oneOf`) may get
more schemas, a product (`allOf`) fewer; those of the smaller one each need a partner in the other that they fit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sordini.schemas.registered.json.faults import Fault
from sordini.schemas.registered.json.model import Shape

Compare = Callable[[Shape, Shape], list[Fault]]
_TYPE_CHANGED = Fault("TYPE_CHANGED", ())


def combination_faults(old: Shape, new: Shape, compare: Compare) -> list[Fault]:
    """Of a pair of which at least one is a combination."""
    if old.kind != "combined":
        return _widened_faults(old, new, compare)
    if new.kind != "combined":
        return _narrowed_faults(old, new, compare)
    if not _may_follow(old, new):
        return [Fault("COMBINED_TYPE_CHANGED", ())]
    before, after = _distinct(old), _distinct(new)
    found: list[Fault] = []
    if len(before) < len(after) and new.criterion == "allOf":
        found.append(Fault("PRODUCT_TYPE_EXTENDED", ()))
    if len(before) > len(after) and old.criterion != "allOf":
        found.append(Fault("SUM_TYPE_NARROWED", ()))
    if _partners(before, after, compare) < min(len(before), len(after)):
        found.append(Fault("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
    return found


def _widened_faults(old: Shape, new: Shape, compare: Compare) -> list[Fault]:
    """One schema becomes a combination: of it alone, or of a sum that has it."""
    if len(new.inner) > 1 and new.criterion == "allOf":
        return [_TYPE_CHANGED]
    return [] if any(not compare(old, one) for one in new.inner) else [_TYPE_CHANGED]


def _narrowed_faults(old: Shape, new: Shape, compare: Compare) -> list[Fault]:
    """A combination becomes one schema: its only one, or one of a product."""
    if len(old.inner) > 1 and old.criterion != "allOf":
        return [_TYPE_CHANGED]
    return [] if any(not compare(one, new) for one in old.inner) else [_TYPE_CHANGED]


def _may_follow(old: Shape, new: Shape) -> bool:
    """What fits all or one of some schemas fits any of them; of a single schema, all, one and any are the same."""
    if new.criterion in {old.criterion, "anyOf"}:
        return True
    are_single = len(old.inner) == 1, len(new.inner) == 1
    return (
        all(are_single) or (are_single[0] and new.criterion == "oneOf") or (are_single[1] and old.criterion == "allOf")
    )


def _distinct(shape: Shape) -> list[Shape]:
    return list({one.text: one for one in shape.inner}.values())


def _partners(before: list[Shape], after: list[Shape], compare: Compare) -> int:
    """How many pairs of schemas that fit can be formed, each schema in one: a largest matching, by augmenting paths."""
    fits = [[at for at, new in enumerate(after) if not compare(old, new)] for old in before]
    partner_of: dict[int, int] = {}
    return sum(_is_matched(start, fits, partner_of) for start in range(len(before)))


def _is_matched(start: int, fits: list[list[int]], partner_of: dict[int, int]) -> bool:
    """Finds a partner for one more, others may change theirs."""
    came_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        old = queue.popleft()
        for new in fits[old]:
            if new in came_from:
                continue
            came_from[new] = old
            if new in partner_of:
                queue.append(partner_of[new])
                continue
            _exchange(new, start, came_from, partner_of)
            return True
    return False


def _exchange(new: int, start: int, came_from: dict[int, int], partner_of: dict[int, int]) -> None:
    partners = {old: one for one, old in partner_of.items()}
    while True:
        old = came_from[new]
        partner_of[new] = old
        if old == start:
            return
        new = partners[old]
