"""Records of the topic: as other registries write them, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    HighestIdsKey,
    Key,
    MalformedRecord,
    ModeKey,
    NoopKey,
    Record,
    SchemaKey,
    SchemaRecord,
    decode,
    encode_key,
    encode_value,
)
from sordini.registry.state.registry_state import RegistryState
from sordini.schemas.registered.types import Reference, SchemaType
from tests.support.registries import append, replayed_state

FOREIGN = (
    (b'{"keytype":"NOOP","magic":0}', None),
    (
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
        b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
        b'{"subject":"s","version":2,"id":2,"md5":"x","schema":"{}","schemaType":"JSON","references":[],"deleted":false,"ts":1}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}',
        b'{"subject":"s","version":3,"id":3,"schema":"\\"long\\"","deleted":false}',
    ),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"NONE"}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":2}'),
    (b'{"keytype":"CLUSTER_LINK","magic":0}', b"{}"),
    (b"no json", b"{}"),
    (b'{"keytype":"SCHEMA","subject":"t","version":"one","magic":1}', b"{}"),
    (
        b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}',
        b'{"subject":"t","version":1,"id":-1,"schema":"\\"int\\""}',
    ),
    (b'{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}', b"[]"),
    (
        b'{"keytype":"SCHEMA","subject":"t","version":3,"magic":1}',
        b'{"subject":"t","version":1,"id":9,"schema":"x","metadata":{"tags":7}}',
    ),
    (b"[" * 100_000, None),
)

names = st.text(max_size=8)
numbers = st.integers(0, 2**31 - 1)
keys: st.SearchStrategy[Key] = st.one_of(
    st.tuples(names, numbers).map(lambda parts: SchemaKey(*parts)),
    st.one_of(st.none(), names).map(ConfigKey),
    st.one_of(st.none(), names).map(ModeKey),
    names.map(DeleteSubjectKey),
    names.map(ClearSubjectKey),
    st.tuples(names, names).filter(lambda parts: parts[0] != "").map(lambda parts: ContextKey(*parts)),
    st.just(NoopKey()),
    st.just(HighestIdsKey()),
)
objects = st.one_of(st.none(), st.dictionaries(names, st.one_of(st.none(), st.booleans(), numbers, names), max_size=3))


@st.composite
def schema_records(draw: Any) -> SchemaRecord:
    referred = draw(st.lists(st.tuples(names, names, numbers).map(lambda parts: Reference(*parts)), max_size=2))
    return SchemaRecord(
        draw(names), draw(numbers), draw(numbers), draw(names), draw(st.sampled_from(SchemaType)), tuple(referred),
        draw(objects), draw(objects), draw(st.booleans()), draw(st.one_of(st.none(), names)),
    )  # fmt: skip


@given(keys, objects, schema_records())
def test_decoding_undoes_encoding(key: Key, members: dict[str, Any] | None, schema: SchemaRecord) -> None:
    value = schema if isinstance(key, SchemaKey) else members
    assert decode(encode_key(key), encode_value(value)) == Record(key, value)


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_any_bytes_are_a_record_or_malformed(key: bytes, value: bytes | None) -> None:
    state = RegistryState()
    try:
        decode(key, value)
    except MalformedRecord:
        state.apply(key, value, 4)
        assert (state.malformed, state.end_offset) == (1, 5)


def test_records_of_other_registries_are_read_and_malformed_ones_skipped() -> None:
    state = replayed_state(FOREIGN)
    assert [record.version for record in state.versions("s", deleted=True)] == [1, 2, 3]
    assert [record.version for record in state.versions("s")] == [3], "those up to the version are deleted"
    assert state.versions("s", deleted=True)[1].type is SchemaType.JSON
    assert state.level(None).value == "NONE"
    assert state.malformed == 6
    assert state.end_offset == len(FOREIGN)
    assert state.of_guid("ef524ea1-b91e-7317-3d93-8ade36c1db32") == [(".", 1)], "a guid follows from the content"
    assert state.record("t", 3) is not None, "one whose metadata no registry would accept"


def test_a_record_that_clears_a_subject_removes_all_its_versions() -> None:
    state = replayed_state(FOREIGN[:4])
    append(state, Record(ClearSubjectKey("s"), {"subject": "s"}))
    assert state.subjects == {}
    assert state.of_id(".", 1) == []


@pytest.mark.parametrize("text", ['{"subject":"s"}', '{"subject":7,"version":1,"id":1,"schema":"x"}'])
def test_a_schema_without_its_members_is_malformed(text: str) -> None:
    with pytest.raises(MalformedRecord, match="keytype 'SCHEMA'"):
        decode(encode_key(SchemaKey("s", 1)), text.encode())
