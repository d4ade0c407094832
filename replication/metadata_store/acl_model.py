"""Access control entries: which principal may, or may not, do what to which resources, from which host. Pure.

    pattern    Topic, `orders-`, PREFIXED       the resources
    entry      User:alice, host *, Read, Allow   who does what
    binding    one pattern with one entry

The numbers are those of requests, the names those of the nodes in the store. `ANY` and `MATCH` occur in filters only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from sordini.system.named_tuple import NamedTuple

WILDCARD: Final = "*"
"""As a literal name: every resource of the type. As a host: every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type Cluster."""


class ResourceType(IntEnum):
    """What is protected."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a pattern is compared with a resource's."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In filters: every pattern that applies to the named resource."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What is done to a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


STORED_TYPES: Final = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.CLUSTER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "DelegationToken": ResourceType.DELEGATION_TOKEN,
    "User": ResourceType.USER,
}
"""The types that have entries, by the name of their node."""
STORED_OPERATIONS: Final = {
    "".join(word.capitalize() for word in operation.name.split("_")): operation
    for operation in AclOperation
    if operation > AclOperation.ANY
}
STORED_PERMISSIONS: Final = {"Allow": Permission.ALLOW, "Deny": Permission.DENY}
STORED_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)

_O = AclOperation
OPERATIONS: Final = {
    ResourceType.TOPIC: frozenset(
        {_O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}
    ),
    ResourceType.GROUP: frozenset({_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
    ResourceType.CLUSTER: frozenset(
        {
            _O.CREATE,
            _O.CLUSTER_ACTION,
            _O.DESCRIBE_CONFIGS,
            _O.ALTER_CONFIGS,
            _O.IDEMPOTENT_WRITE,
            _O.ALTER,
            _O.DESCRIBE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({_O.DESCRIBE, _O.WRITE}),
    ResourceType.DELEGATION_TOKEN: frozenset({_O.DESCRIBE}),
    ResourceType.USER: frozenset({_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS}),
}
"""The operations that mean something for each type, besides ALL: what tools offer. Brokers store others, too."""

IMPLIED_BY: Final = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
"""Operations that are allowed to whom another one is allowed. A denial implies nothing."""


class ResourcePattern(NamedTuple):
    """The resources that entries are about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def applies_to(self, name: str) -> bool:
        """Whether a resource of this type has a name that the pattern matches."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """Who may, or may not, do what."""

    principal: str
    """`User:alice`, or WILDCARD_PRINCIPAL."""
    host: str
    """An address, or WILDCARD."""
    operation: AclOperation
    permission: Permission


class AclBinding(NamedTuple):
    """An entry of a pattern."""

    pattern: ResourcePattern
    entry: AclEntry


class AclFilter(NamedTuple):
    """Selects bindings; None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = Permission.ANY

    @property
    def is_known(self) -> bool:
        """Whether all its numbers are known; with an unknown one nothing is selected."""
        return not (
            self.resource_type not in _KNOWN_TYPES
            or self.pattern_type not in _KNOWN_PATTERNS
            or self.operation not in _KNOWN_OPERATIONS
            or self.permission not in _KNOWN_PERMISSIONS
        )

    def selects_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return pattern.applies_to(self.name)
        return pattern.name == self.name

    def selects(self, binding: AclBinding) -> bool:
        entry = binding.entry
        return (
            self.selects_pattern(binding.pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


_KNOWN_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN}
_KNOWN_PATTERNS: Final = frozenset(PatternType) - {PatternType.UNKNOWN}
_KNOWN_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.UNKNOWN}
_KNOWN_PERMISSIONS: Final = frozenset(Permission) - {Permission.UNKNOWN}
