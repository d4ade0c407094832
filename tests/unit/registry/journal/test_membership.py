"""Metadata and assignments of registries, and which member is elected."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import ErrorCode
from sordini.registry.journal.membership import (
    DUPLICATE_URLS,
    NO_WRITER,
    Assignment,
    Identity,
    MalformedMember,
    Remedy,
    assignment_bytes,
    assignment_in,
    elect,
    identity_in,
    metadata_of,
    remedy_for,
)

FIRST = Identity("http", "10.0.0.1", 8081)
SECOND = Identity("http", "10.0.0.2", 8081)
READER = Identity("https", "10.0.0.3", 8081, is_eligible=False)

identities = st.builds(
    Identity, st.sampled_from(["http", "https"]), st.text(max_size=20), st.integers(1, 65535), st.booleans()
)
member_ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def test_metadata_has_the_fields_of_other_registries() -> None:
    assert json.loads(metadata_of(FIRST)) == {
        "version": 1,
        "host": "10.0.0.1",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
    }


def test_metadata_of_karapace_is_read() -> None:
    found = identity_in(
        b'{"version":2,"karapace_version":"5.0","host":"h","port":8081,"scheme":"http","master_eligibility":false}'
    )
    assert found == Identity("http", "h", 8081, is_eligible=False)


def test_an_assignment_of_karapace_is_read_and_its_writer_that_is_not_eligible_does_not_write() -> None:
    identity = {"version": 2, "host": "h", "port": 8081, "scheme": "http", "master_eligibility": True}
    data = {"master": "m-1", "master_identity": identity, "error": 0}
    assert assignment_in(json.dumps(data).encode()) == Assignment("m-1", Identity("http", "h", 8081))
    identity["master_eligibility"] = False
    assert assignment_in(json.dumps(data).encode()) == NO_WRITER


@given(identities)
def test_metadata_is_read_as_it_was_written(identity: Identity) -> None:
    assert identity_in(metadata_of(identity)) == identity


@given(member_ids, identities.filter(lambda one: one.is_eligible))
def test_an_assignment_is_read_as_it_was_written(member_id: str, identity: Identity) -> None:
    made = Assignment(member_id, identity)
    assert assignment_in(assignment_bytes(made)) == made


@given(
    st.one_of(
        st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
    )
)
def test_bytes_of_another_protocol_are_malformed_and_nothing_else(data: bytes) -> None:
    for read in (identity_in, assignment_in):
        with pytest.raises(MalformedMember):
            read(data)


def test_deeply_nested_metadata_is_malformed() -> None:
    with pytest.raises(MalformedMember):
        identity_in(b"[" * 200_000)


def test_the_eligible_member_with_the_least_url_is_elected_first() -> None:
    members = {"c": metadata_of(READER), "b": metadata_of(FIRST), "a": metadata_of(SECOND)}
    assert elect(members, None) == Assignment("b", FIRST)


def test_the_member_that_writes_continues_while_it_is_a_member() -> None:
    members = {"b": metadata_of(FIRST), "a": metadata_of(SECOND)}
    assert elect(members, "a") == Assignment("a", SECOND)
    del members["a"]
    assert elect(members, "a") == Assignment("b", FIRST)


def test_without_an_eligible_member_none_is_elected() -> None:
    assert elect({"c": metadata_of(READER)}, "c") == NO_WRITER
    assert assignment_in(assignment_bytes(NO_WRITER)) == NO_WRITER


def test_two_members_with_one_url_are_an_error_that_all_members_receive() -> None:
    elected = elect({"a": metadata_of(FIRST), "b": metadata_of(FIRST)}, "a")
    assert elected.error == DUPLICATE_URLS
    assert assignment_in(assignment_bytes(elected)) == Assignment(None, None, DUPLICATE_URLS)


def test_a_member_with_unreadable_metadata_is_not_elected() -> None:
    assert elect({"a": b"\xff", "b": metadata_of(SECOND)}, "a") == Assignment("b", SECOND)


@given(st.dictionaries(member_ids, identities, max_size=5), st.none() | member_ids)
def test_only_eligible_members_are_elected_and_one_always_is_where_urls_differ(
    members: dict[str, Identity], incumbent: str | None
) -> None:
    elected = elect({member_id: metadata_of(one) for member_id, one in members.items()}, incumbent)
    eligible = {member_id for member_id, one in members.items() if one.is_eligible}
    if len({one.url for one in members.values()}) < len(members):
        assert elected.error == DUPLICATE_URLS
    elif eligible:
        assert elected.writer_id in eligible
        assert incumbent not in eligible or elected.writer_id == incumbent
    else:
        assert elected.writer_id is None


def test_an_ipv6_host_is_in_brackets_in_the_url() -> None:
    assert Identity("http", "::1", 8081).url == "http://[::1]:8081"


def test_errors_of_the_group_have_their_remedies() -> None:
    assert remedy_for(ErrorCode.REBALANCE_IN_PROGRESS) is Remedy.REJOIN
    assert remedy_for(ErrorCode.MEMBER_ID_REQUIRED) is Remedy.REJOIN
    assert remedy_for(ErrorCode.UNKNOWN_MEMBER_ID) is Remedy.REJOIN_AS_NEW
    assert remedy_for(ErrorCode.NOT_COORDINATOR) is Remedy.FIND_COORDINATOR
    assert remedy_for(ErrorCode.GROUP_AUTHORIZATION_FAILED) is Remedy.FAIL
    assert remedy_for(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) is Remedy.FAIL
