"""Decides whether a principal may do something to a resource, by the entries that the store has. Pure.

The rules are those of Apache Kafka's AclAuthorizer:

    a super user may do everything
    no pattern with entries applies to the resource   `allow.everyone.if.no.acl.found` decides
    an entry denies the operation, or All             no
    an entry allows it, All, or one that implies it   yes
    otherwise                                         no

Entries of a node that cannot be read are unknown: what a pattern with unknown entries applies to is denied to all
but super users, until the node can be read again.

A decision is remembered until the entries change, so that a repeated one is a look-up in a dictionary. What is
remembered is bounded: the names come from clients. What a denial does, an error or a row that is left out, is the
matter of `security/access.py` (`quietly`) and of each request's rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sordini.broker.network.principal import Principal, Requester
from sordini.replication.metadata_store.acl_model import (
    IMPLIED_BY,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

REMEMBERED_MAX: Final = 20_000
"""Decisions; all are dropped when there are more."""

Entries = frozenset[AclEntry] | None
"""None: unknown."""
_Decision = tuple[Principal, str, AclOperation, ResourceType, str]


class Authorizer:
    """The entries of a cluster, and the decisions made of them."""

    def __init__(self, super_users: frozenset[str] = frozenset(), *, allow_if_no_entries: bool = False) -> None:
        """`super_users` are principals as text, such as `User:admin`."""
        self._super_users = super_users
        self._allow_if_no_entries = allow_if_no_entries
        self._entries: dict[ResourcePattern, Entries] = {}
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}
        """Of the prefixed patterns of each type; a name is looked up by each."""
        self._remembered: dict[_Decision, bool] = {}
        self.revision = 0
        """Grows with each change of the entries."""

    def allows(self, peer: Requester, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether a peer may do this to the resource of that name."""
        return self.decide(peer.principal, peer.address, operation, resource_type, name)

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """As `allows`, by the principal and the peer's address."""
        decision = (principal, host, operation, resource_type, name)
        remembered = self._remembered.get(decision)
        if remembered is not None:
            return remembered
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        allowed = self._remembered[decision] = self._decide(str(principal), host, operation, resource_type, name)
        return allowed

    def allows_some(self, peer: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of the type to which the peer may do this.

        An allowed pattern counts unless a denied one covers all that it applies to (KAFKA-10759 ff.).
        """
        principal, host = str(peer.principal), peer.address
        if principal in self._super_users:
            return True
        patterns = {
            pattern: entries for pattern, entries in self._entries.items() if pattern.resource_type is resource_type
        }
        denied = [
            pattern
            for pattern, entries in patterns.items()
            if entries is None or _has(entries, principal, host, Permission.DENY, frozenset({operation}))
        ]
        if any(pattern.pattern_type is PatternType.LITERAL and pattern.name == WILDCARD for pattern in denied):
            return False
        implying = IMPLIED_BY.get(operation, frozenset({operation}))
        allowed = [
            pattern
            for pattern, entries in patterns.items()
            if entries is not None and _has(entries, principal, host, Permission.ALLOW, implying)
        ]
        if any(not _is_covered(pattern, denied) for pattern in allowed):
            return True
        return self._allow_if_no_entries

    def set_all(self, entries: Mapping[ResourcePattern, Entries]) -> None:
        """Replace all entries."""
        self._entries = {pattern: found for pattern, found in entries.items() if found is None or found}
        self._changed()

    def set(self, pattern: ResourcePattern, entries: Entries) -> None:
        """Replace the entries of one pattern; an empty set removes it."""
        if entries is None or entries:
            self._entries[pattern] = entries
        else:
            self._entries.pop(pattern, None)
        self._changed()

    def entries(self, pattern: ResourcePattern) -> Entries:
        """The entries of one pattern, empty where there are none."""
        return self._entries.get(pattern, frozenset())

    def bindings(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """The bindings that a filter selects, sorted by their pattern."""
        for pattern in sorted(filter(wanted.selects_pattern, self._entries)):
            for entry in sorted(self._entries[pattern] or ()):
                binding = AclBinding(pattern, entry)
                if wanted.selects(binding):
                    yield binding

    def _changed(self) -> None:
        self.revision += 1
        self._remembered.clear()
        lengths: dict[ResourceType, set[int]] = {}
        for pattern in self._entries:
            if pattern.pattern_type is PatternType.PREFIXED:
                lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))
        self._prefix_lengths = {of: tuple(sorted(found)) for of, found in lengths.items()}

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        applying = list(self._applying(resource_type, name))
        if not applying:
            return self._allow_if_no_entries
        known = [entries for entries in applying if entries is not None]
        if len(known) < len(applying):
            return False
        wanted = frozenset({operation})
        if any(_has(entries, principal, host, Permission.DENY, wanted) for entries in known):
            return False
        implying = IMPLIED_BY.get(operation, wanted)
        return any(_has(entries, principal, host, Permission.ALLOW, implying) for entries in known)

    def _applying(self, resource_type: ResourceType, name: str) -> Iterator[Entries]:
        """The entries of all patterns that apply to a resource."""
        found = self._entries
        for literal in dict.fromkeys((name, WILDCARD)):
            pattern = ResourcePattern(resource_type, literal)
            if pattern in found:
                yield found[pattern]
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                break
            pattern = ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            if pattern in found:
                yield found[pattern]


def _has(
    entries: Iterable[AclEntry],
    principal: str,
    host: str,
    permission: Permission,
    operations: frozenset[AclOperation],
) -> bool:
    """Whether an entry with this permission is about the principal, the host, and one of the operations."""
    return any(
        entry.permission is permission
        and (entry.operation is AclOperation.ALL or entry.operation in operations)
        and entry.principal in (principal, WILDCARD_PRINCIPAL)
        and entry.host in (host, WILDCARD)
        for entry in entries
    )


def _is_covered(allowed: ResourcePattern, denied: Iterable[ResourcePattern]) -> bool:
    """Whether one of the denied patterns applies to everything that the allowed one applies to."""
    for pattern in denied:
        if pattern == allowed:
            return True
        is_wildcard = allowed.pattern_type is PatternType.LITERAL and allowed.name == WILDCARD
        if pattern.pattern_type is PatternType.PREFIXED and not is_wildcard and allowed.name.startswith(pattern.name):
            return True
    return False
