"""The texts of schemas with what they refer to, by the records of a registry's topic."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.records.schemas.registered_ids import RegisteredIds
from sordini.broker.records.schemas.registered_texts import (
    DEPTH_MAX,
    JOB_CHARACTERS_MAX,
    ChosenTexts,
    RegisteredTexts,
    TextsTooLong,
    UnknownText,
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3),
    max_leaves=8,
)


def put(
    texts: RegisteredTexts, subject: str, version: int, schema_id: int, text: str, *refers_to: tuple[str, int]
) -> None:
    rows = [{"name": f"n{number}", "subject": other, "version": at} for number, (other, at) in enumerate(refers_to)]
    texts.put(subject, version, schema_id, {"schema": text, "references": rows})


def chosen(texts: RegisteredTexts, subject: str, *ids: int) -> ChosenTexts:
    made = ChosenTexts()
    for schema_id in ids:
        texts.add_to(made, subject, schema_id)
    return made


def test_what_a_schema_refers_to_is_before_it_and_once() -> None:
    texts = RegisteredTexts()
    put(texts, "base", 1, 1, "base")
    put(texts, "left", 1, 2, "left", ("base", 1))
    put(texts, "top", 4, 3, "top", ("base", 1), ("left", 1))
    put(texts, "top", 5, 4, "newer", ("left", 1))
    made = chosen(texts, "top", 3, 4)
    assert [one["text"] for one in made.schemas] == ["base", "left", "top", "newer"]
    assert [one["references"] for one in made.schemas] == [
        [],
        [["n0", "base", 1, 0]],
        [["n0", "base", 1, 0], ["n1", "left", 1, 1]],
        [["n0", "left", 1, 1]],
    ]
    assert made.places == {3: 2, 4: 3}


def test_version_minus_one_is_the_newest_and_a_removed_version_is_not_known() -> None:
    texts = RegisteredTexts()
    put(texts, "base", 1, 1, "old")
    put(texts, "base", 2, 2, "new")
    put(texts, "top", 1, 3, "top", ("base", -1))
    assert [one["text"] for one in chosen(texts, "top", 3).schemas] == ["new", "top"]
    texts.remove("base", 2)
    assert [one["text"] for one in chosen(texts, "top", 3).schemas] == ["old", "top"]
    texts.remove("base", 1)
    with pytest.raises(UnknownText, match="schema id 3: it refers to version -1 of 'base'") as refused:
        chosen(texts, "top", 3)
    assert refused.value.schema_id == 3


def test_a_reference_of_another_context_stays_in_it() -> None:
    texts = RegisteredTexts()
    put(texts, "base", 1, 1, "default")
    put(texts, ":.test:base", 1, 2, "test")
    put(texts, ":.test:middle", 1, 3, "middle", ("base", 1))
    put(texts, "top", 1, 4, "top", (":.test:middle", 1), (":.:base", 1))
    assert [one["text"] for one in chosen(texts, "top", 4).schemas] == ["test", "middle", "default", "top"]


def test_a_cycle_is_refused_and_so_are_references_that_are_too_deep() -> None:
    texts = RegisteredTexts()
    put(texts, "a", 1, 1, "a", ("b", 1))
    put(texts, "b", 1, 2, "b", ("a", 1))
    for number in range(DEPTH_MAX + 2):
        put(texts, f"s{number}", 1, 10 + number, "s", (f"s{number + 1}", 1))
    put(texts, f"s{DEPTH_MAX + 2}", 1, 99, "last")
    for subject, schema_id in (("a", 1), ("s0", 10)):
        with pytest.raises(UnknownText, match="a cycle, too deep or too many"):
            chosen(texts, subject, schema_id)
    assert len(chosen(texts, "s2", 12).schemas) == DEPTH_MAX + 1


def test_texts_beyond_the_bound_are_not_kept_until_there_is_room() -> None:
    texts = RegisteredTexts(characters_max=10)
    put(texts, "a", 1, 1, "x" * 8)
    put(texts, "b", 1, 2, "y" * 8)
    with pytest.raises(UnknownText, match="its text is not known"):
        chosen(texts, "b", 2)
    put(texts, "a", 1, 1, "x")
    put(texts, "b", 1, 2, "y" * 8)
    assert chosen(texts, "b", 2).places == {2: 0}


def test_the_schemas_of_one_record_set_are_bounded() -> None:
    texts = RegisteredTexts()
    for number in range(3):
        put(texts, "a", number, number, "x" * (JOB_CHARACTERS_MAX // 2))
    assert len(chosen(texts, "a", 0, 1).schemas) == 2
    with pytest.raises(TextsTooLong):
        chosen(texts, "a", 0, 1, 2)


@given(st.dictionaries(st.sampled_from(["schema", "schemaType", "references", "id"]), ANYTHING))
def test_fields_of_any_kind_are_taken_or_skipped(fields: dict[str, Any]) -> None:
    ids = RegisteredIds(RegisteredTexts())
    key = json.dumps({"keytype": "SCHEMA", "subject": "a", "version": 1}).encode()
    ids.apply(key, json.dumps({**fields, "id": 7}).encode(), 0)
    assert ids.texts is not None
    try:
        [one] = chosen(ids.texts, "a", 7).schemas
    except UnknownText:
        assert not isinstance(fields.get("schema"), str) or fields.get("references") or fields.get("schemaType")
    else:
        assert one["text"] == fields["schema"]
        assert one["type"] in {"AVRO", "JSON", "PROTOBUF"}


def test_a_version_that_is_removed_takes_its_text_with_it() -> None:
    ids = RegisteredIds(RegisteredTexts())
    key = json.dumps({"keytype": "SCHEMA", "subject": "a", "version": 1}).encode()
    ids.apply(key, json.dumps({"id": 7, "schema": "x"}).encode(), 0)
    assert ids.texts is not None
    assert chosen(ids.texts, "a", 7).places == {7: 0}
    ids.apply(key, None, 1)
    with pytest.raises(UnknownText):
        chosen(ids.texts, "a", 7)
