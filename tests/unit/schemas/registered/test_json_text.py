"""JSON as registries write it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.schemas.registered.json_text import java_double, read_json, write_json


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1234567.25, "1234567.25"),
        (1e10, "1.0E10"),
        (-1.5e-300, "-1.5E-300"),
        (100.0, "100.0"),
        (0.05, "0.05"),
    ],
)
def test_a_number_has_the_form_of_java(number: float, text: str) -> None:
    assert java_double(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_it_was_written(number: float) -> None:
    read = float(java_double(number))
    assert read == number
    assert math.copysign(1, read) == math.copysign(1, number)


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@given(_JSON)
def test_what_was_written_is_read_as_it_was(value: object) -> None:
    assert read_json(write_json(value)) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_members_are_sorted_by_name_where_they_are_to_be(value: dict[str, int]) -> None:
    assert list(json.loads(write_json(value, is_sorted=True))) == sorted(value)
    assert list(json.loads(write_json(value))) == list(value)
