"""What makes a JSON schema unable to read what an earlier one permits, and the messages of Confluent's registry. Pure.

The names are those of its `errorType`; its tools show them. A change that is compatible has no name here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.schemas.registered.types import Roles
from sordini.system.named_tuple import NamedTuple


class Fault(NamedTuple):
    """A kind, and the place in the schema, outermost first."""

    kind: str
    path: tuple[str, ...]


def within(faults: list[Fault], *path: str) -> list[Fault]:
    """The same faults, seen from outside."""
    return [Fault(fault.kind, (*path, *fault.path)) for fault in faults]


def message(fault: Fault, roles: Roles) -> str:
    description = _TEXTS[fault.kind](f"#/{'/'.join(fault.path)}", roles.reader, roles.writer)
    return f'{{errorType:"{fault.kind}", description:"{description}\'}}'


_Text = Callable[[str, str, str], str]


def _keyword(path: str, reader: str, writer: str) -> str:
    return f"The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"


def _more(path: str, reader: str, writer: str) -> str:
    return f"The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema"


def _less(path: str, reader: str, writer: str) -> str:
    return f"The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema"


def _other_value(path: str, reader: str, writer: str) -> str:
    return f"The value at path '{path}' is different between the {reader} and {writer} schema"


def _fewer(path: str, reader: str, writer: str) -> str:
    return (
        f"An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} schema"
    )


def _longer(path: str, reader: str, writer: str) -> str:
    return (
        f"An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} schema"
    )


def _other_type(path: str, reader: str, writer: str) -> str:
    return f"A type at path '{path}' is different between the {reader} schema and the {writer} schema"


def _added_to_open(path: str, reader: str, writer: str) -> str:
    return (
        f"The {reader} schema has an open content model and has a property or item at path '{path}' which is "
        f"missing in the {writer} schema"
    )


def _required_added(path: str, reader: str, writer: str) -> str:
    return (
        f"The {reader} schema has an unopen content model and has a required property at path '{path}' which is "
        f"missing in the {writer} schema"
    )


def _removed_from_closed(path: str, reader: str, writer: str) -> str:
    return (
        f"The {reader} has a closed content model and is missing a property or item present at path '{path}' "
        f"in the {writer} schema"
    )


def _removed_not_covered(path: str, reader: str, writer: str) -> str:
    return (
        f"A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} schema "
        "and is not covered by its partially open content model"
    )


def _added_not_covered(path: str, reader: str, writer: str) -> str:
    return (
        f"The {reader} schema has a property or item at path '{path}' which is missing in the {writer} schema "
        "and is not covered by its partially open content model"
    )


def _too_large(path: str, reader: str, writer: str) -> str:
    return f"The {reader} and the {writer} schema are too large to be compared, at path '{path}'"


_TEXTS: Final[dict[str, _Text]] = {
    **dict.fromkeys(
        (
            "MAXIMUM_ADDED", "MINIMUM_ADDED", "EXCLUSIVE_MAXIMUM_ADDED", "EXCLUSIVE_MINIMUM_ADDED",
            "MULTIPLE_OF_ADDED", "MAX_LENGTH_ADDED", "MIN_LENGTH_ADDED", "PATTERN_ADDED", "REQUIRED_ATTRIBUTE_ADDED",
            "MAX_PROPERTIES_ADDED", "MIN_PROPERTIES_ADDED", "DEPENDENCY_ARRAY_ADDED", "DEPENDENCY_SCHEMA_ADDED",
            "MAX_ITEMS_ADDED", "MIN_ITEMS_ADDED", "MAX_CONTAINS_ADDED", "MIN_CONTAINS_ADDED", "UNIQUE_ITEMS_ADDED",
            "ADDITIONAL_ITEMS_REMOVED", "ADDITIONAL_PROPERTIES_REMOVED", "UNEVALUATED_PROPERTIES_REMOVED",
            "UNEVALUATED_ITEMS_REMOVED", "SCHEMA_ADDED",
        ),
        _keyword,
    ),
    **dict.fromkeys(
        (
            "MIN_LENGTH_INCREASED", "MINIMUM_INCREASED", "EXCLUSIVE_MINIMUM_INCREASED", "MIN_PROPERTIES_INCREASED",
            "MULTIPLE_OF_EXPANDED", "MIN_ITEMS_INCREASED", "MIN_CONTAINS_INCREASED",
        ),
        _more,
    ),
    **dict.fromkeys(
        (
            "MAX_LENGTH_DECREASED", "MAXIMUM_DECREASED", "MAX_ITEMS_DECREASED", "MAX_CONTAINS_DECREASED",
            "EXCLUSIVE_MAXIMUM_DECREASED", "MAX_PROPERTIES_DECREASED",
        ),
        _less,
    ),
    **dict.fromkeys(("PATTERN_CHANGED", "MULTIPLE_OF_CHANGED", "DEPENDENCY_ARRAY_CHANGED"), _other_value),
    **dict.fromkeys(
        (
            "ADDITIONAL_ITEMS_NARROWED", "ENUM_ARRAY_NARROWED", "SUM_TYPE_NARROWED", "ADDITIONAL_PROPERTIES_NARROWED",
            "UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_ITEMS_NARROWED",
        ),
        _fewer,
    ),
    **dict.fromkeys(("DEPENDENCY_ARRAY_EXTENDED", "PRODUCT_TYPE_EXTENDED", "NOT_TYPE_EXTENDED"), _longer),
    **dict.fromkeys(
        (
            "TYPE_CHANGED", "TYPE_NARROWED", "COMBINED_TYPE_CHANGED", "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
            "ENUM_ARRAY_CHANGED",
        ),
        _other_type,
    ),
    **dict.fromkeys(
        (
            "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
            "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
            "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
        ),
        _added_to_open,
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _required_added,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _removed_from_closed,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _removed_from_closed,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _removed_not_covered,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _removed_not_covered,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _added_not_covered,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _added_not_covered,
    "TOO_LARGE": _too_large,
}  # fmt: skip
