"""What requests name: topics and their partitions, groups, their members and assignors, transactional ids. Pure.

Where a request has them follows from the names of its fields, which the protocol uses alike in all of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import ArrayOf, Struct, fields_of
from sordini.protocol.served_apis import ALL_APIS
from sordini.protocol.types import NO_TOPIC_ID, TopicId

NameOf = Callable[[TopicId], str | None]
"""A topic's name by its id."""
TOPIC: Final = "topic"
PARTITION: Final = "partition"
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional_id"
MEMBER_ID: Final = "member_id"
ASSIGNOR: Final = "assignor"

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
_GROUP_FIELDS: Final = ("group_id", "group_ids", "groups", "groups_names")
_TRANSACTION_FIELDS: Final = ("transactional_id", "transactional_ids", "transactions", "v3_and_below_transactional_id")
_MEMBER_ROWS: Final = ("members", "groups")
"""Rows that may have a member's id."""
_ASSIGNOR_FIELDS: Final = ("server_assignor", "protocol_name", "protocols")
_KIND_OF_KEY: Final = {GROUP: 0, TRANSACTIONAL_ID: 1}
"""FindCoordinator's `key_type`."""


@cache
def mentioned(api: ApiKey) -> frozenset[str]:
    """Which of these a request of an API can name: TOPIC, PARTITION, GROUP, MEMBER_ID, ASSIGNOR, TRANSACTIONAL_ID."""
    names = _names(ALL_APIS[api].request)
    found = {
        TOPIC: names.keys() & set(_TOPIC_FIELDS) or any(_names_below(names, above) for above in _ABOVE_TOPICS),
        PARTITION: any(
            {*PARTITION_FIELDS} & _names(row).keys()
            for row in [*_rows(names), *(row for above in _ABOVE_TOPICS for row in _names_below(names, above))]
        ),
        GROUP: names.keys() & {*_GROUP_FIELDS, "coordinator_keys"},
        MEMBER_ID: MEMBER_ID in names or any(_row_has(names.get(above), MEMBER_ID) for above in _MEMBER_ROWS),
        ASSIGNOR: names.keys() & set(_ASSIGNOR_FIELDS),
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


def member_ids_of(body: Any) -> set[str]:
    """The members of groups that a request names; not "", which a member sends that has no id yet."""
    rows = [body, *(row for above in _MEMBER_ROWS for row in getattr(body, above, None) or ())]
    return {found for row in rows if (found := getattr(row, MEMBER_ID, None))}


def assignors_of(body: Any) -> set[str]:
    """The assignors that a member requests: one of the coordinator's, or those of its own that it may be led by."""
    return {*_texts(body, _ASSIGNOR_FIELDS, "name")} - {""}


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


def _row_has(kind: Any, field: str) -> bool:
    row = _row(kind)
    return row is not None and field in _names(row)


def _row(kind: Any) -> type | None:
    while isinstance(kind, ArrayOf):
        kind = kind.element
    return kind.cls if isinstance(kind, Struct) else None
