"""Values in templates."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.console.formats import counted, editable, grouped, path, per_second, percent, size, when
from sordini.console.visit import make_templates

TEMPLATES = make_templates()


def rendered(source: str, value: object) -> str:
    return TEMPLATES.from_string(source).render(value=value)


@given(st.text())
def test_no_text_becomes_markup_or_controls_a_terminal(text: str) -> None:
    for source in ("{{ value }}", '<p title="{{ value }}">', "{{ value|editable }}"):
        page = rendered(source, text)
        inner = page.removeprefix('<p title="').removesuffix('">') if source.startswith("<p") else page
        assert not set("<>\"'") & set(inner)
        assert all(letter.isprintable() or letter in "\n\r\t" for letter in page)


@given(st.text())
def test_a_query_comes_back_as_it_was(text: str) -> None:
    from urllib.parse import parse_qs

    found = parse_qs(path("/x", name=text).partition("?")[2], keep_blank_values=True, errors="surrogatepass")
    assert found == {"name": [text]}


def test_numbers_have_groups_and_units() -> None:
    assert re.sub(r"\s", " ", grouped(1234567)) == "1 234 567"
    assert re.sub(r"\s", " ", counted(1, "record")) == "1 record"
    assert re.sub(r"\s", " ", counted(2000, "record")) == "2 000 records"
    assert "1.23 MB" in size(1_234_567)
    assert re.search(r"1.234.567 B", size(1_234_567))


@pytest.mark.parametrize("value", [None, -1])
def test_what_is_not_known_is_a_dash(value: int | None) -> None:
    assert when(value) == size(value) == "\N{EN DASH}"
    assert rendered("{{ value }}", None) == "\N{EN DASH}"


def test_a_time_names_its_moment_in_utc() -> None:
    assert 'datetime="2026-11-21T18:30:59.123Z"' in when(1795285859123)
    assert "<time" not in when(10**18), "outside the calendar it stays a number"


def test_line_breaks_stay_and_other_controls_are_escaped() -> None:
    assert editable("a\n\tb\x1b<") == "a\n\tb\\x1b&lt;"


def test_shares_and_rates_have_units_and_unknown_ones_are_none() -> None:
    assert (percent(0.1249), percent(0.0), percent(2.0), percent(None)) == ("12.5 %", "0.0 %", "200.0 %", None)
    assert (per_second(0.25), per_second(1_300.4), per_second(None)) == ("0.25", "1300", None)
