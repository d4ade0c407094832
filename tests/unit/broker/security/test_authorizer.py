"""Decisions of the authorizer: the rules by example, and a law that compares them with a slow reading of the rules."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.network.principal import Principal
from sordini.broker.security.acls import authorizer as module
from sordini.broker.security.acls.authorizer import Authorizer
from sordini.replication.metadata_store.acl_model import (
    IMPLIED_BY,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.support.unit_broker import a_peer

TOPIC = ResourceType.TOPIC
OP, ALLOW, DENY = AclOperation, Permission.ALLOW, Permission.DENY
ALICE, HOST = "User:alice", "192.0.2.1"


def who(text: str) -> Principal:
    return Principal(*text.split(":"))


def entry(
    operation: AclOperation = OP.READ,
    permission: Permission = ALLOW,
    principal: str = ALICE,
    host: str = "*",
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def an_authorizer(entries: Mapping[ResourcePattern, set[AclEntry] | None], **settings: bool) -> Authorizer:
    made = Authorizer(frozenset({"User:root"}), **settings)
    made.set_all({pattern: None if found is None else frozenset(found) for pattern, found in entries.items()})
    return made


def literal(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name)


def prefixed(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name, PatternType.PREFIXED)


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        (OP.READ, {OP.READ, OP.DESCRIBE}),
        (OP.WRITE, {OP.WRITE, OP.DESCRIBE}),
        (OP.DELETE, {OP.DELETE, OP.DESCRIBE}),
        (OP.ALTER, {OP.ALTER, OP.DESCRIBE}),
        (OP.ALTER_CONFIGS, {OP.ALTER_CONFIGS, OP.DESCRIBE_CONFIGS}),
        (OP.DESCRIBE, {OP.DESCRIBE}),
        (OP.CREATE, {OP.CREATE}),
        (OP.ALL, set(OP) - {OP.UNKNOWN, OP.ANY}),
    ],
)
def test_what_is_allowed_implies_other_operations(operation: AclOperation, allowed: set[AclOperation]) -> None:
    found = an_authorizer({literal("orders"): {entry(operation)}})
    decided = {one for one in OP if one > OP.ANY and found.decide(who(ALICE), HOST, one, TOPIC, "orders")}
    assert decided == allowed


def test_a_denial_wins_over_every_permission_and_implies_nothing() -> None:
    found = an_authorizer({literal("*"): {entry(OP.ALL)}, prefixed("ord"): {entry(OP.READ, DENY)}})
    assert not found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")
    assert found.decide(who(ALICE), HOST, OP.DESCRIBE, TOPIC, "orders")
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "payments")


def test_principals_hosts_and_super_users() -> None:
    found = an_authorizer(
        {literal("orders"): {entry(principal="User:*", host=HOST), entry(OP.WRITE, principal="User:bob")}}
    )
    assert found.decide(who("User:anyone"), HOST, OP.READ, TOPIC, "orders")
    assert not found.decide(who("User:anyone"), "192.0.2.9", OP.READ, TOPIC, "orders")
    assert found.decide(who("User:bob"), "192.0.2.9", OP.WRITE, TOPIC, "orders")
    assert not found.decide(who("Group:bob"), "192.0.2.9", OP.WRITE, TOPIC, "orders")
    assert found.decide(who("User:root"), "192.0.2.9", OP.ALTER, TOPIC, "nothing")
    assert found.allows(a_peer(), OP.READ, TOPIC, "orders"), "a peer of that host"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_resource_without_entries_is_open_only_where_that_is_configured(is_open: bool) -> None:
    found = an_authorizer({literal("orders"): {entry()}}, allow_if_no_entries=is_open)
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "payments") is is_open
    assert not found.decide(who("User:bob"), HOST, OP.READ, TOPIC, "orders"), "it has entries"


def test_what_cannot_be_read_is_denied_to_all_but_super_users() -> None:
    found = an_authorizer({prefixed("ord"): None, literal("orders"): {entry(OP.ALL)}}, allow_if_no_entries=True)
    assert not found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "payments")
    assert found.decide(who("User:root"), HOST, OP.READ, TOPIC, "orders")
    found.set(prefixed("ord"), frozenset())
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")


def test_a_decision_is_forgotten_with_a_change_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    found = an_authorizer({})
    before = found.revision
    assert not found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")
    found.set(literal("orders"), frozenset({entry()}))
    assert found.revision > before
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")
    for number in range(10):
        assert not found.decide(who(ALICE), HOST, OP.READ, TOPIC, f"t{number}")
        assert len(found._remembered) <= 3
    assert found.decide(who(ALICE), HOST, OP.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("entries", "some"),
    [
        ({}, False),
        ({literal("a"): {entry(OP.WRITE)}}, True),
        ({literal("a"): {entry(OP.WRITE), entry(OP.WRITE, DENY)}}, False),
        ({literal("a"): {entry(OP.WRITE)}, literal("*"): {entry(OP.ALL, DENY)}}, False),
        ({literal("ab"): {entry(OP.WRITE)}, prefixed("a"): {entry(OP.WRITE, DENY)}}, False),
        ({prefixed("a"): {entry(OP.WRITE)}, literal("ab"): {entry(OP.WRITE, DENY)}}, True),
        ({literal("*"): {entry(OP.WRITE)}, prefixed("a"): {entry(OP.WRITE, DENY)}}, True),
        ({literal("a"): {entry(OP.READ)}}, False),
    ],
)
def test_whether_there_is_any_topic_to_write_to(
    entries: Mapping[ResourcePattern, set[AclEntry] | None], some: bool
) -> None:
    peer = a_peer()
    peer.principal = peer.principal._replace(name="alice")
    assert an_authorizer(entries).allows_some(peer, OP.WRITE, TOPIC) is some


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
PATTERNS = st.builds(
    ResourcePattern,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
OPERATIONS = st.sampled_from([OP.ALL, OP.READ, OP.WRITE, OP.DESCRIBE, OP.ALTER_CONFIGS, OP.DESCRIBE_CONFIGS])
PRINCIPALS, HOSTS = st.sampled_from(["User:*", ALICE, "User:bob"]), st.sampled_from(["*", HOST, "192.0.2.2"])
ENTRIES = st.builds(AclEntry, PRINCIPALS, HOSTS, OPERATIONS, st.sampled_from([ALLOW, DENY]))
CHANGES = st.lists(st.tuples(st.booleans(), PATTERNS, ENTRIES), max_size=12)
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from([ALICE, "User:bob", "User:root"]),
        st.sampled_from([HOST, "192.0.2.2"]),
        OPERATIONS,
        st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
        st.sampled_from(["a", "ab", "abcd", "b", "c"]),
    ),
    min_size=1,
    max_size=6,
)


def by_the_rules(
    bindings: set[AclBinding],
    question: tuple[str, str, AclOperation, ResourceType, str],
    *,
    is_open: bool,
) -> bool:
    """The rules, read one after the other over all bindings."""
    principal, host, operation, resource_type, name = question
    if principal == "User:root":
        return True
    about = [one for one in bindings if one.pattern.resource_type is resource_type and one.pattern.applies_to(name)]
    if not about:
        return is_open
    mine = [one.entry for one in about if one.entry.principal in ("User:*", principal)]
    mine = [one for one in mine if one.host in ("*", host)]
    if any(one.permission is DENY and one.operation in (OP.ALL, operation) for one in mine):
        return False
    enough = {OP.ALL, operation, *IMPLIED_BY.get(operation, ())}
    return any(one.permission is ALLOW and one.operation in enough for one in mine)


@given(CHANGES, QUESTIONS, st.booleans())
def test_after_any_additions_and_removals_decisions_follow_the_rules(
    changes: list[tuple[bool, ResourcePattern, AclEntry]],
    questions: list[tuple[str, str, AclOperation, ResourceType, str]],
    is_open: bool,
) -> None:
    """Questions are asked between the changes, too: no decision outlives its reason (CVE-2024-27309)."""
    found = Authorizer(frozenset({"User:root"}), allow_if_no_entries=is_open)
    bindings: set[AclBinding] = set()
    for is_added, pattern, one in changes:
        change = bindings.add if is_added else bindings.discard
        change(AclBinding(pattern, one))
        found.set(pattern, frozenset(kept.entry for kept in bindings if kept.pattern == pattern))
        for question in questions:
            assert found.decide(who(question[0]), *question[1:]) is by_the_rules(bindings, question, is_open=is_open)
    assert set(found.bindings(AclFilter())) == bindings


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), {"a", "ab", "*", "a+"}),
        (AclFilter(name="ab"), {"ab"}),
        (AclFilter(name="ab", pattern_type=PatternType.MATCH), {"ab", "*", "a+"}),
        (AclFilter(name="a", pattern_type=PatternType.PREFIXED), {"a+"}),
        (AclFilter(resource_type=ResourceType.GROUP), set()),
        (AclFilter(principal="User:bob"), set()),
        (AclFilter(operation=OP.READ, permission=ALLOW, host="*"), {"a", "ab", "*", "a+"}),
    ],
)
def test_filters_select_patterns_and_entries(wanted: AclFilter, names: set[str]) -> None:
    found = an_authorizer({literal("a"): {entry()}, literal("ab"): {entry()}, literal("*"): {entry()}})
    found.set(prefixed("a"), frozenset({entry()}))
    selected = {
        one.pattern.name + "+" * (one.pattern.pattern_type is PatternType.PREFIXED) for one in found.bindings(wanted)
    }
    assert selected == names
