"""Bytes as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.console.records.decoders import NAMES, PREVIEW_BYTES, as_json, decode


@given(st.binary(max_size=200), st.sampled_from(NAMES))
def test_every_decoder_has_a_text_for_all_bytes(data: bytes, name: str) -> None:
    found = decode(data, name)
    assert found.text is not None
    assert (found.size, found.is_cut) == (len(data), False)


@given(st.binary(max_size=100))
def test_hex_has_every_byte(data: bytes) -> None:
    text = decode(data, "hex").text
    assert text is not None
    assert bytes.fromhex("".join(line[10:57] for line in text.splitlines())) == data


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
        max_leaves=20,
    )
)
def test_indented_json_is_the_same_document(value: object) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        text = as_json(json.dumps(value, separators=separators).encode())
        assert text is not None
        assert json.loads(text) == value


def test_json_keeps_its_digits_its_order_and_keys_that_are_there_twice() -> None:
    data = b'{"b": 1.50, "a": 1e400, "a": [], "c": {}, "d": [12345678901234567890123, "x, {}"]}'
    lines = [
        "{",
        '  "b": 1.50,',
        '  "a": 1e400,',
        '  "a": [],',
        '  "c": {},',
        '  "d": [',
        "    12345678901234567890123,",
    ]
    assert as_json(data) == "\n".join([*lines, '    "x, {}"', "  ]", "}"])


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"a": 1}', "json"),
        (b"[1]", "json"),
        (b"5", "text"),
        (b"plain", "text"),
        (b"{no json", "text"),
        (b'{"a": NaN}', "text"),
        (b"[" * 100_000 + b"]" * 100_000, "text"),
        (b"\xff\xfe", "hex"),
        (b"\x00\x01\x02text", "hex"),
        ("Zürich ☃".encode(), "text"),
        (b"", "text"),
    ],
)
def test_auto_finds_what_the_bytes_are(data: bytes, form: str) -> None:
    assert decode(data, "auto").form == form


def test_nothing_is_not_the_same_as_empty() -> None:
    assert decode(None, "auto").text is None
    assert decode(b"", "auto").text == ""


@given(st.text(min_size=PREVIEW_BYTES // 2))
def test_a_cut_within_a_character_is_still_text(text: str) -> None:
    data = ("a" + text.replace("\x00", "b") + "ä" * PREVIEW_BYTES).encode(errors="replace")
    found = decode(data, "text")
    assert (found.form, found.is_cut, found.size) == ("text", True, len(data))
    assert data.decode().startswith(found.text or "")
