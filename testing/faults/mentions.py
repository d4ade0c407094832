"""What requests name: topics and their partitions, groups, transactional ids. Pure.

Where a request has them follows from the names of its fields, which the protocol uses alike in all of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from sordini.protocol.api import ALL_APIS, ApiKey
from sordini.protocol.declare import ArrayOf, Struct, fields_of
from sordini.protocol.types import NO_TOPIC_ID, TopicId

NameOf = Callable[[TopicId], str | None]
"""A topic's name by its id."""
TOPIC: Final = "topic"
PARTITION: Final = "partition"
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional_id"

PARTITION_FIELDS: Final = ("partition_data", "partitions", "partition_indexes")
"""Of a topic's row."""
_INDEXES: Final = ("index", "partition", "partition_index")
_TOPIC_FIELDS: Final = (
    "topic_data",
    "topics",
    "topic_names",
    "topic_partitions",
    "v3_and_below_topics",
    "subscribed_topic_names",
)
_ABOVE_TOPICS: Final = ("groups", "transactions", "dirs")
"""Rows that have topics of their own."""
_GROUP_FIELDS: Final = ("group_id", "groups", "groups_names")
_TRANSACTION_FIELDS: Final = (
    "transactional_id",
    "transactional_ids",
    "transactions",
    "v3_and_below_transactional_id",
)
_KIND_OF_KEY: Final = {GROUP: 0, TRANSACTIONAL_ID: 1}
"""FindCoordinator's `key_type`."""


@cache
def mentioned(api: ApiKey) -> frozenset[str]:
    """Which of TOPIC, PARTITION, GROUP and TRANSACTIONAL_ID a request of an API can name."""
    names = _names(ALL_APIS[api].request)
    found = {
        TOPIC: names.keys() & set(_TOPIC_FIELDS) or any(_names_below(names, above) for above in _ABOVE_TOPICS),
        PARTITION: any(
            {*PARTITION_FIELDS} & _names(row).keys()
            for row in [*_rows(names), *(row for above in _ABOVE_TOPICS for row in _names_below(names, above))]
        ),
        GROUP: names.keys() & {*_GROUP_FIELDS, "coordinator_keys"},
        TRANSACTIONAL_ID: names.keys() & {*_TRANSACTION_FIELDS, "coordinator_keys"},
    }
    return frozenset(name for name, holds in found.items() if holds)


def topics_of(body: Any) -> Iterator[Any]:
    """The rows, or names, of a request's topics."""
    for field in _TOPIC_FIELDS:
        yield from getattr(body, field, None) or ()
    for above in _ABOVE_TOPICS:
        for row in getattr(body, above, None) or ():
            yield from getattr(row, "topics", None) or ()


def topic_name(topic: Any, name_of: NameOf) -> str | None:
    """A topic's name as a request gives it, by name or by id."""
    if isinstance(topic, str):
        return topic
    topic_id = getattr(topic, "topic_id", NO_TOPIC_ID)
    if topic_id != NO_TOPIC_ID:
        return name_of(TopicId(topic_id))
    name: str | None = getattr(topic, "topic", None) or getattr(topic, "name", None)
    return name


def partition_field(topic: Any) -> str | None:
    """The field of a topic's row that has its partitions."""
    return next((name for name in PARTITION_FIELDS if hasattr(topic, name)), None)


def partition_index(row: Any) -> int:
    """The number of a partition's row."""
    if isinstance(row, int):
        return row
    value: int = next(getattr(row, name) for name in _INDEXES if hasattr(row, name))
    return value


def groups_of(body: Any) -> set[str]:
    """The groups that a request names."""
    return _texts(body, _GROUP_FIELDS, "group_id") | _coordinator_keys(body, GROUP)


def transactional_ids_of(body: Any) -> set[str]:
    """The transactional ids that a request names."""
    return _texts(body, _TRANSACTION_FIELDS, "transactional_id") | _coordinator_keys(body, TRANSACTIONAL_ID)


def _texts(body: Any, fields: tuple[str, ...], of_row: str) -> set[str]:
    found: set[str] = set()
    for field in fields:
        value = getattr(body, field, None)
        if isinstance(value, str):
            found.add(value)
        for one in value if isinstance(value, list) else ():
            found.add(one if isinstance(one, str) else getattr(one, of_row, ""))
    return found


def _coordinator_keys(body: Any, kind: str) -> set[str]:
    keys = getattr(body, "coordinator_keys", None)
    if keys is None or body.key_type != _KIND_OF_KEY[kind]:
        return set()
    return {*keys, body.key}


def _names(cls: type) -> dict[str, Any]:
    """The fields of a message or a row, with their kinds."""
    return {field.name: field.kind for field in fields_of(cls)}


def _names_below(names: dict[str, Any], above: str) -> list[type]:
    """The classes of topics in the rows of a field."""
    row = _row(names.get(above))
    return [] if row is None else _rows(_names(row))


def _rows(names: dict[str, Any]) -> list[type]:
    return [row for field in _TOPIC_FIELDS if (row := _row(names.get(field))) is not None]


def _row(kind: Any) -> type | None:
    while isinstance(kind, ArrayOf):
        kind = kind.element
    return kind.cls if isinstance(kind, Struct) else None
