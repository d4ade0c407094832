"""Access control entries in the store, where Apache Kafka's AclAuthorizer and its tools keep them.

    /kafka-acl/<Type>/<name>                       the entries of a literal pattern
    /kafka-acl-extended/prefixed/<Type>/<name>     those of a prefixed one (KIP-290)
    /kafka-acl-changes/acl_changes_N               `TOPIC:orders`: that literal pattern has changed
    /kafka-acl-extended-changes/acl_changes_N      the same for prefixed ones, as JSON

A change is written together with its notification in one transaction, so none goes unnoticed. The write carries the
version that was read: of two writers none overwrites the other. A node without entries is deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.acl_model import (
    STORED_OPERATIONS,
    STORED_PERMISSIONS,
    STORED_TYPES,
    AclEntry,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from sordini.replication.metadata_store.change_notifications import number_of
from sordini.replication.ports import (
    BadVersion,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Session,
    Set,
)
from sordini.system.named_tuple import NamedTuple

CHANGE_TRIES_MAX: Final = 100
"""How often in a row other writers may change the entries before an attempt gives up."""
ENTRIES_BYTES_MAX: Final = 512 * 1024
"""Entries of one pattern. ZooKeeper closes the connection of a client that writes a node of a megabyte."""
READ_AT_ONCE: Final = 100
"""Nodes that are requested before the first is answered."""

_LITERALS: Final = "/kafka-acl"
_PREFIXES: Final = "/kafka-acl-extended/prefixed"
_NOTIFICATION: Final = "acl_changes_"
_NAME_OF_TYPE: Final = {resource_type: name for name, resource_type in STORED_TYPES.items()}
_NAME_OF_OPERATION: Final = {operation: name for name, operation in STORED_OPERATIONS.items()}
_NAME_OF_PERMISSION: Final = {permission: name for name, permission in STORED_PERMISSIONS.items()}

Entries = frozenset[AclEntry]


class UnreadableEntries(ValueError):
    """The node of a pattern holds something else; what it denied is unknown, so it is not overwritten."""


class TooManyEntries(ValueError):
    """More entries of one pattern than the store accepts."""


class Notified(NamedTuple):
    """A change that was written: where its notification is, and its number."""

    directory: str
    number: int


def path_of(pattern: ResourcePattern) -> str:
    """The node of a pattern. Raises ValueError for a name that cannot be one step of a path."""
    name = pattern.name
    if not name or "/" in name or "\0" in name or name in {".", ".."}:
        raise ValueError(f"the name {name!r} cannot be that of a node in the coordination store")
    return f"{_directory(pattern.resource_type, pattern.pattern_type)}/{name}"


def notifications_of(pattern: ResourcePattern) -> str:
    """Where changes of a pattern are notified."""
    return paths.ACL_CHANGES if pattern.pattern_type is PatternType.LITERAL else paths.EXTENDED_ACL_CHANGES


async def ensure_acl_paths(session: Session) -> None:
    """Create the directories that do not exist yet."""
    wanted = [paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES, *(path for path, *_ in _directories())]
    made = await asyncio.gather(*(session.create(path, make_parents=True) for path in wanted), return_exceptions=True)
    for outcome in made:
        if isinstance(outcome, BaseException) and not isinstance(outcome, NodeExists):
            raise outcome


async def read_acls(session: Session) -> dict[ResourcePattern, Entries | Malformed]:
    """The entries of all patterns. Raises CoordinationError."""
    patterns: list[ResourcePattern] = []
    for path, resource_type, pattern_type in _directories():
        try:
            names = await session.children(path)
        except NoNode:
            continue
        patterns += [ResourcePattern(resource_type, name, pattern_type) for name in names]
    found: dict[ResourcePattern, Entries | Malformed] = {}
    for start in range(0, len(patterns), READ_AT_ONCE):
        some = patterns[start : start + READ_AT_ONCE]
        found.update(zip(some, await asyncio.gather(*(read_entries(session, one) for one in some)), strict=True))
    return found


async def read_entries(session: Session, pattern: ResourcePattern) -> Entries | Malformed:
    """The entries of one pattern; none without a node. Raises CoordinationError."""
    path = path_of(pattern)
    try:
        data, _ = await session.get(path)
    except NoNode:
        return frozenset()
    return decode_entries(path, data)


async def change_entries(
    session: Session, pattern: ResourcePattern, decide: Callable[[Entries], Entries]
) -> Notified | None:
    """Replace the entries of a pattern by what `decide` makes of them; None if it changes nothing.

    When another writer was faster, `decide` is called again. Raises ValueError for a name that cannot be stored,
    UnreadableEntries, TooManyEntries, and CoordinationError: BadVersion after CHANGE_TRIES_MAX tries.
    """
    path, notifications = path_of(pattern), notifications_of(pattern)
    notification = Create(f"{notifications}/{_NOTIFICATION}", encode_notification(pattern), sequential=True)
    for _ in range(CHANGE_TRIES_MAX):
        try:
            data, stat = await session.get(path)
            before, version = decode_entries(path, data), stat.version
        except NoNode:
            before, version = frozenset(), None
        if isinstance(before, Malformed):
            raise UnreadableEntries(f"the entries in {path} cannot be read: {before.reason}")
        after = decide(before)
        if after == before:
            return None
        try:
            *_, made = await session.multi([_write(path, after, version), notification])
        except (BadVersion, NodeExists, NoNode) as refused:
            if refused.index == 1:
                raise
            continue
        assert isinstance(made, str), made
        return Notified(notifications, number_of(made))
    raise BadVersion(path)


def _write(path: str, entries: Entries, version: int | None) -> Operation:
    data = encode_entries(entries)
    if len(data) > ENTRIES_BYTES_MAX:
        raise TooManyEntries(f"{len(data)} bytes of entries of one pattern are more than {ENTRIES_BYTES_MAX}")
    if version is None:
        return Create(path, data)
    return Set(path, data, version) if entries else Delete(path, version)


# The contents of nodes.


def encode_entries(entries: Iterable[AclEntry]) -> bytes:
    rows = [
        {
            "principal": entry.principal,
            "permissionType": _NAME_OF_PERMISSION[entry.permission],
            "operation": _NAME_OF_OPERATION[entry.operation],
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return _encode({"version": 1, "acls": rows})


def decode_entries(path: str, data: bytes) -> Entries | Malformed:
    """The entries of a node. Empty data are no entries, as tools leave them for a moment."""
    if not data:
        return frozenset()
    try:
        value = json.loads(data)
        if value["version"] != 1:
            raise ValueError(f"version {value['version']}")
        return frozenset(
            AclEntry(
                _text(row["principal"]),
                _text(row["host"]),
                STORED_OPERATIONS[row["operation"]],
                STORED_PERMISSIONS[row["permissionType"]],
            )
            for row in value["acls"]
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Malformed(path, f"{type(error).__name__}: {error}")


def encode_notification(pattern: ResourcePattern) -> bytes:
    """The content of a pattern's change notification."""
    upper = pattern.resource_type.name
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{upper}:{pattern.name}".encode()
    return _encode(
        {"version": 1, "resourceType": upper, "name": pattern.name, "patternType": pattern.pattern_type.name}
    )


def decode_notification(path: str, data: bytes) -> ResourcePattern | Malformed:
    """The pattern that a change notification names."""
    try:
        if path.startswith(f"{paths.EXTENDED_ACL_CHANGES}/"):
            value = json.loads(data)
            kind, name = _text(value["resourceType"]), _text(value["name"])
            pattern_type = PatternType[value["patternType"].upper()]
        else:
            kind, separator, name = data.decode().partition(":")
            pattern_type = PatternType.LITERAL
            if not separator:
                raise ValueError("no colon")
        pattern = ResourcePattern(_type_named(kind), name, pattern_type)
        path_of(pattern)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Malformed(path, f"{type(error).__name__}: {error}")
    return pattern


def _type_named(word: str) -> ResourceType:
    """`TOPIC`, `Topic`, `TRANSACTIONAL_ID` or `TransactionalId`."""
    plain = word.replace("_", "").lower()
    for name, resource_type in STORED_TYPES.items():
        if name.lower() == plain:
            return resource_type
    raise ValueError(f"{word!r} is no type of resources")


def _directories() -> Iterable[tuple[str, ResourceType, PatternType]]:
    for resource_type in STORED_TYPES.values():
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            yield _directory(resource_type, pattern_type), resource_type, pattern_type


def _directory(resource_type: ResourceType, pattern_type: PatternType) -> str:
    assert pattern_type in (PatternType.LITERAL, PatternType.PREFIXED), pattern_type
    return f"{_LITERALS if pattern_type is PatternType.LITERAL else _PREFIXES}/{_NAME_OF_TYPE[resource_type]}"


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
