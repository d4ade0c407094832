"""Which access control entries a command line means: resources, principals, hosts and operations. Pure.

--topic orders --allow User:alice --operation Read     one binding
--topic orders --group billing --consumer --allow ...  Read and Describe of the topic, Read of the group
--topic orders --producer --allow User:alice           Write, Describe and Create of the topic
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from sordini.admin.security.acl_requests import NAME_OF
from sordini.replication.metadata_store.acl_model import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from sordini.system.named_tuple import NamedTuple

PATTERN_TYPES: Final = {
    "literal": PatternType.LITERAL,
    "prefixed": PatternType.PREFIXED,
    "match": PatternType.MATCH,
    "any": PatternType.ANY,
}
_O = AclOperation
_PRODUCER: Final = {
    ResourceType.TOPIC: (_O.WRITE, _O.DESCRIBE, _O.CREATE),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
}
_CONSUMER: Final = {ResourceType.TOPIC: (_O.READ, _O.DESCRIBE), ResourceType.GROUP: (_O.READ,)}


class BadSelection(ValueError):
    """The options do not go together; the text says how they do."""


class Resources(NamedTuple):
    """What the options name."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    cluster: bool = False

    def names(self) -> list[tuple[ResourceType, str]]:
        """Each resource by its type."""
        found = [(ResourceType.TOPIC, name) for name in self.topics]
        found += [(ResourceType.GROUP, name) for name in self.groups]
        found += [(ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids]
        return found + ([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else [])


class Grant(NamedTuple):
    """Who may, or may not, do what, from where."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    operations: tuple[AclOperation, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False


def bindings_of(resources: Resources, pattern_type: PatternType, grant: Grant) -> list[AclBinding]:
    """The bindings to add. Raises BadSelection."""
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise BadSelection("entries are added to literal or prefixed names")
    if not grant.allowed and not grant.denied:
        raise BadSelection("name a principal: --allow User:NAME or --deny User:NAME")
    for principal in (*grant.allowed, *grant.denied):
        check_principal(principal)
    wanted = list(dict.fromkeys(_operations_on(resources, grant)))
    if not wanted:
        raise BadSelection("name a resource: --topic, --group, --transactional-id or --cluster")
    whom = [(principal, Permission.ALLOW) for principal in grant.allowed]
    whom += [(principal, Permission.DENY) for principal in grant.denied]
    return [
        AclBinding(_pattern(kind, name, pattern_type), AclEntry(principal, host, operation, permission))
        for (kind, name, operation), (principal, permission), host in itertools.product(
            wanted, whom, grant.hosts or (WILDCARD,)
        )
    ]


def filters_of(
    resources: Resources, pattern_type: PatternType, principals: Sequence[str], operations: Sequence[AclOperation]
) -> list[AclFilter]:
    """The filters that select what the options name; nothing named selects everything. Raises BadSelection."""
    for principal in principals:
        check_principal(principal)
    named: list[tuple[ResourceType, str | None]] = [*resources.names()] or [(ResourceType.ANY, None)]
    return [
        AclFilter(
            kind,
            name,
            PatternType.LITERAL if kind is ResourceType.CLUSTER and name else pattern_type,
            principal,
            None,
            operation,
            Permission.ANY,
        )
        for (kind, name), principal, operation in itertools.product(
            named, principals or (None,), operations or (AclOperation.ANY,)
        )
    ]


def check_principal(text: str) -> None:
    """Raise BadSelection unless it is of the form TYPE:NAME."""
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise BadSelection(f"the principal {text!r} is not of the form User:NAME")


def _pattern(kind: ResourceType, name: str, pattern_type: PatternType) -> ResourcePattern:
    """The only cluster is named literally."""
    return ResourcePattern(kind, name, PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern_type)


def _operations_on(resources: Resources, grant: Grant) -> Iterator[tuple[ResourceType, str, AclOperation]]:
    """Each resource with each operation on it."""
    if not grant.producer and not grant.consumer:
        for kind, name in resources.names():
            for operation in grant.operations or (AclOperation.ALL,):
                _check_operation(kind, operation)
                yield kind, name, operation
        return
    _check_roles(resources, grant)
    for is_asked, operations in ((grant.producer, _PRODUCER), (grant.consumer, _CONSUMER)):
        for kind, name in resources.names():
            for operation in operations.get(kind, ()) if is_asked else ():
                yield kind, name, operation
    if grant.idempotent:
        yield ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE


def _check_roles(resources: Resources, grant: Grant) -> None:
    if grant.operations or grant.denied or resources.cluster:
        raise BadSelection("--producer and --consumer stand for operations: leave out --operation, --deny, --cluster")
    if not resources.topics:
        raise BadSelection("--producer and --consumer need a --topic")
    if grant.consumer and not resources.groups:
        raise BadSelection("--consumer needs a --group")
    if resources.groups and not grant.consumer:
        raise BadSelection("--producer has nothing to do with a --group")
    if resources.transactional_ids and not grant.producer:
        raise BadSelection("--consumer has nothing to do with a --transactional-id")
    if grant.idempotent and not grant.producer:
        raise BadSelection("--idempotent goes with --producer")


def _check_operation(kind: ResourceType, operation: AclOperation) -> None:
    if operation is not AclOperation.ALL and operation not in OPERATIONS[kind]:
        known = ", ".join(sorted(NAME_OF[one] for one in (*OPERATIONS[kind], AclOperation.ALL)))
        raise BadSelection(f"{NAME_OF[operation]} means nothing for a {kind.name.lower()}: allowed are {known}")
