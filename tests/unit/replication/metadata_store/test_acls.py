"""Access control entries in the store: the contents of nodes, changes with their notification, and what cannot be read."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.acl_model import (
    STORED_OPERATIONS,
    STORED_PERMISSIONS,
    STORED_TYPES,
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from sordini.replication.metadata_store.acls import (
    TooManyEntries,
    UnreadableEntries,
    change_entries,
    decode_entries,
    decode_notification,
    encode_entries,
    encode_notification,
    ensure_acl_paths,
    notifications_of,
    path_of,
    read_acls,
    read_entries,
)

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
GROUPS = ResourcePattern(ResourceType.GROUP, "app-", PatternType.PREFIXED)
READ = AclEntry("User:alice", "*", AclOperation.READ, Permission.ALLOW)
WRITE = AclEntry("User:CN=bob,O=x", "192.0.2.1", AclOperation.IDEMPOTENT_WRITE, Permission.DENY)

patterns = st.builds(
    ResourcePattern,
    st.sampled_from(sorted(STORED_TYPES.values())),
    st.text("abcé:.-* ", min_size=1).filter(lambda name: name not in {".", ".."}),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
entries = st.builds(
    AclEntry,
    st.sampled_from(["User:alice", "User:*", 'User:"é"']),
    st.sampled_from(["*", "::1"]),
    st.sampled_from(sorted(STORED_OPERATIONS.values())),
    st.sampled_from(sorted(STORED_PERMISSIONS.values())),
)


def test_nodes_have_the_text_that_apache_kafka_writes() -> None:
    assert path_of(ORDERS) == "/kafka-acl/Topic/orders"
    assert path_of(GROUPS) == "/kafka-acl-extended/prefixed/Group/app-"
    assert encode_entries([READ]) == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
    )
    assert json.loads(encode_entries([WRITE]))["acls"][0]["operation"] == "IdempotentWrite"
    assert encode_notification(ORDERS) == b"TOPIC:orders"
    assert json.loads(encode_notification(GROUPS)) == {
        "version": 1,
        "resourceType": "GROUP",
        "name": "app-",
        "patternType": "PREFIXED",
    }


@given(st.frozensets(entries))
def test_entries_that_were_written_are_read_back(some: frozenset[AclEntry]) -> None:
    assert decode_entries("/x", encode_entries(some)) == some


@given(patterns)
def test_a_notification_names_its_pattern(pattern: ResourcePattern) -> None:
    path = f"{notifications_of(pattern)}/acl_changes_0000000001"
    assert decode_notification(path, encode_notification(pattern)) == pattern


@given(st.binary())
def test_bytes_of_any_kind_raise_nothing(data: bytes) -> None:
    decode_entries("/x", data)
    for directory in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
        decode_notification(f"{directory}/acl_changes_0000000001", data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Maybe","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Fly","host":"*"}]}',
        b'{"version":1,"acls":[{"permissionType":"Allow","operation":"Read","host":"*"}]}',
        b"[]",
    ],
)
def test_what_no_broker_writes_is_malformed(data: bytes) -> None:
    assert isinstance(decode_entries("/x", data), Malformed)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0"])
def test_a_name_that_would_lead_to_another_node_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="coordination store"):
        path_of(ORDERS._replace(name=name))


async def test_a_change_is_written_with_its_notification_and_the_last_entry_takes_the_node_with_it(
    session: EmbeddedSession,
) -> None:
    await ensure_acl_paths(session)
    first = await change_entries(session, ORDERS, lambda found: found | {READ})
    second = await change_entries(session, ORDERS, lambda found: found | {WRITE})
    assert first == (paths.ACL_CHANGES, 0)
    assert second == (paths.ACL_CHANGES, 1)
    assert await change_entries(session, ORDERS, lambda found: found | {READ}) is None
    assert await change_entries(session, GROUPS, lambda _: frozenset({READ})) == (paths.EXTENDED_ACL_CHANGES, 0)
    assert await read_acls(session) == {ORDERS: {READ, WRITE}, GROUPS: {READ}}
    await change_entries(session, ORDERS, lambda _: frozenset())
    assert await session.exists(path_of(ORDERS)) is None
    assert len(await session.children(paths.ACL_CHANGES)) == 3
    assert await read_entries(session, ORDERS) == frozenset()


async def test_of_two_writers_none_overwrites_the_other(session: EmbeddedSession) -> None:
    await ensure_acl_paths(session)
    # The calls of one session take effect in order: both read before either writes.
    await asyncio.gather(
        change_entries(session, ORDERS, lambda found: found | {READ}),
        change_entries(session, ORDERS, lambda found: found | {WRITE}),
    )
    assert await read_entries(session, ORDERS) == {READ, WRITE}


async def test_entries_that_cannot_be_read_are_not_overwritten(session: EmbeddedSession) -> None:
    await ensure_acl_paths(session)
    await session.create(path_of(ORDERS), b"{")
    with pytest.raises(UnreadableEntries, match="/kafka-acl/Topic/orders"):
        await change_entries(session, ORDERS, lambda found: found | {READ})
    [found] = (await read_acls(session)).values()
    assert isinstance(found, Malformed)


async def test_the_entries_of_one_pattern_are_bounded(session: EmbeddedSession) -> None:
    await ensure_acl_paths(session)
    many = frozenset(READ._replace(principal=f"User:{'x' * 500}{number}") for number in range(1_200))
    with pytest.raises(TooManyEntries):
        await change_entries(session, ORDERS, lambda _: many)
    assert await session.exists(path_of(ORDERS)) is None
