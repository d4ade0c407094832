"""The form of log lines: the one that operators and their tools know, of structlog's renderers."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.process.log_lines import FIELD_CHARACTERS_MAX, FORMATS, LONG_CHARACTERS_MAX
from sordini.broker.process.logging import make_logger

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
FORGING = "\n\r\t\x00\x1b\x7f\x85\u2028\u2029\u202e\ud800"
TEXTS = st.text(st.one_of(st.sampled_from(FORGING), st.characters()), max_size=FIELD_CHARACTERS_MAX * 2)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.binary(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Forger:
    """A value whose own text has more lines than one."""

    def __repr__(self) -> str:
        return "x\n2030-01-01 [error    ] all is lost"


def line_of(level: str, event: str, file: io.StringIO | None = None, form: str = "text", **fields: Any) -> str:
    """A line with T in place of its time."""
    file = file or io.StringIO()
    getattr(make_logger("debug", file, form), level)(event, **fields)
    return TIME.sub("T", file.getvalue(), count=1)


def test_a_line_has_time_level_event_and_the_fields_in_the_order_of_their_names() -> None:
    line = line_of("info", "broker registered", session="0x1", broker_epoch=20)
    assert line == "T [info     ] broker registered              broker_epoch=20 session=0x1\n"


def test_an_event_without_fields_ends_its_line() -> None:
    assert line_of("warning", "broker stopping") == "T [warning  ] broker stopping\n"


def test_text_that_could_be_more_than_one_word_is_quoted() -> None:
    fields = {"a": "two words", "b": "x=y", "c": 'say "no"', "d": "it's", "e": "", "f": [1, 2], "g": None, "h": "one"}
    line = line_of("info", "event", **fields)
    assert line.split("event", 1)[1].strip() == (
        "a='two words' b='x=y' c='say \"no\"' d=\"it's\" e= f=[1, 2] g=None h=one"
    )


def test_on_a_terminal_the_line_has_the_same_text_in_colours() -> None:
    line = line_of("error", "failed", Terminal(), reason="why")
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[35m", "\x1b[36m"):
        assert code in line
        line = line.replace(code, "")
    assert line == line_of("error", "failed", reason="why")


def test_a_json_line_is_one_object_with_the_traceback_in_a_field() -> None:
    try:
        raise ValueError("the reason")
    except ValueError as error:
        line = line_of("error", "request failed", form="json", peer="Zoë", codes={1}, exc_info=error)
    assert line.count("\n") == 1
    assert "Zoë" in line
    found = json.loads(line)
    assert list(found) == ["peer", "codes", "event", "level", "timestamp", "exception"]
    assert found.pop("exception").endswith("ValueError: the reason")
    assert found == {"peer": "Zoë", "codes": "{1}", "event": "request failed", "level": "error", "timestamp": "T"}


@pytest.mark.parametrize("form", FORMATS)
@given(event=TEXTS, fields=st.dictionaries(st.sampled_from(["peer", "reason", "calls", "codes"]), VALUES))
def test_whatever_is_in_an_event_and_its_fields_they_are_one_printable_line(
    form: str, event: str, fields: dict[str, Any]
) -> None:
    line = line_of("info", event, form=form, **fields)
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    if form == "json":
        assert json.loads(line).keys() >= {*fields, "event", "level", "timestamp"}


@pytest.mark.parametrize("form", FORMATS)
def test_a_value_whose_own_text_has_more_lines_is_one_line_as_well(form: str) -> None:
    line = line_of("info", "client said", form=form, value=Forger(), other=1)
    assert line[:-1].isprintable()
    assert "all is lost" in line


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("name", "longest"),
    [("reason", FIELD_CHARACTERS_MAX), ("calls", LONG_CHARACTERS_MAX), ("event", LONG_CHARACTERS_MAX)],
)
def test_a_text_has_a_bound_and_of_a_stack_trace_the_end_is_kept(form: str, name: str, longest: int) -> None:
    text = "begin" + "x" * 10_000 + "end"
    line = line_of("info", text, form=form) if name == "event" else line_of("info", "said", form=form, **{name: text})
    assert longest < len(line) < longest + 120
    assert ("end" in line, "begin" in line) == (name == "calls", name != "calls")


def test_ordinary_text_of_any_script_is_written_as_it_is() -> None:
    for form in FORMATS:
        assert "Zoë说" in line_of("info", "client said", form=form, client_id="Zoë说")
