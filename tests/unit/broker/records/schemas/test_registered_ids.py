"""The ids of subjects, by the records of a registry's topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.records.schemas.registered_ids import RegisteredIds
from sordini.broker.records.schemas.registered_texts import ChosenTexts, RegisteredTexts, UnknownText

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
)


def key(subject: str, version: int) -> bytes:
    return json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}).encode()


def value(schema_id: int, **others: object) -> bytes:
    return json.dumps({"id": schema_id, "schema": '"string"', "deleted": False, **others}).encode()


def test_an_id_is_registered_for_the_subjects_that_have_a_version_with_it() -> None:
    ids = RegisteredIds()
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(key("a", 2), value(8), 1)
    ids.apply(key("b", 1), value(7), 2)
    assert [ids.is_registered(*one) for one in (("a", 7), ("a", 8), ("b", 7), ("b", 8), ("c", 7))] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_an_id_stays_while_a_version_is_deleted_softly_and_goes_with_its_last_version() -> None:
    ids = RegisteredIds()
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(key("a", 2), value(7), 1)
    ids.apply(key("a", 1), value(7, deleted=True), 2)
    ids.apply(json.dumps({"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}).encode(), b'{"version":2}', 3)
    assert ids.is_registered("a", 7)
    ids.apply(key("a", 1), None, 4)
    assert ids.is_registered("a", 7)
    ids.apply(key("a", 2), None, 5)
    assert not ids.is_registered("a", 7)


def test_a_version_has_the_id_of_its_newest_record() -> None:
    ids = RegisteredIds()
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(key("a", 1), value(8), 1)
    assert [ids.is_registered("a", one) for one in (7, 8)] == [False, True]


def other(kind: str, subject: str) -> bytes:
    return json.dumps({"keytype": kind, "subject": subject, "magic": 0}).encode()


def test_the_ids_of_a_subject_that_is_cleared_are_not_registered_and_those_that_follow_are() -> None:
    ids = RegisteredIds(RegisteredTexts())
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(key("b", 1), value(7), 1)
    ids.apply(other("CLEAR_SUBJECT", "a"), b'{"subject":"a"}', 2)
    assert [ids.is_registered(one, 7) for one in "ab"] == [False, True]
    assert ids.texts is not None
    with pytest.raises(UnknownText):
        ids.texts.add_to(ChosenTexts(), "a", 7)
    ids.texts.add_to(ChosenTexts(), "b", 7)
    ids.apply(key("a", 1), value(8), 3)
    ids.apply(other("CLEAR_SUBJECT", "a"), None, 4)
    assert ids.is_registered("a", 8)


def test_an_alias_has_the_ids_of_its_subject() -> None:
    ids = RegisteredIds()
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(other("CONFIG", "old"), b'{"alias":"a"}', 1)
    assert (ids.is_registered("old", 7), ids.named("old")) == (True, "a")
    ids.apply(other("CONFIG", "old"), b'{"compatibilityLevel":"NONE"}', 2)
    assert not ids.is_registered("old", 7)
    ids.apply(other("CONFIG", "old"), b'{"alias":":.:a"}', 3)
    assert ids.is_registered("old", 7)
    ids.apply(other("CONFIG", "old"), None, 4)
    assert not ids.is_registered("old", 7)


@given(st.binary() | JSON.map(lambda one: json.dumps(one).encode()), st.none() | st.binary())
def test_records_that_are_none_of_a_registry_change_nothing(data: bytes, other: bytes | None) -> None:
    ids = RegisteredIds()
    ids.apply(key("a", 1), value(7), 0)
    ids.apply(data, other, 1)
    assert ids.is_registered("a", 7)


def test_a_record_with_deeply_nested_json_is_skipped() -> None:
    ids = RegisteredIds()
    ids.apply(b"[" * 200_000, b"x", 0)
    ids.apply(key("a", 1), b"[" * 200_000, 1)
    assert not ids.is_registered("a", 1)
