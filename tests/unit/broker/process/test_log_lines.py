"""The form of log lines: the one that operators and their tools know, of structlog's renderers."""

from __future__ import annotations

import json

from sordini.broker.process.log_lines import json_line, text_line

NOON = "2026-11-23T12:00:00.000001"


def test_a_line_has_time_level_event_and_the_fields_in_the_order_of_their_names() -> None:
    line = text_line(NOON, "info", "broker registered", {"session": "0x1", "broker_epoch": 20})
    assert line == f"{NOON} [info     ] broker registered              broker_epoch=20 session=0x1\n"


def test_an_event_without_fields_ends_its_line() -> None:
    assert text_line(NOON, "warning", "broker stopping", {}) == f"{NOON} [warning  ] broker stopping\n"


def test_text_that_could_be_more_than_one_word_is_quoted() -> None:
    fields = {"a": "two words", "b": "x=y", "c": 'say "no"', "d": "it's", "e": "", "f": [1, 2], "g": None, "h": "one"}
    line = text_line(NOON, "info", "event", fields)
    assert line.split("event", 1)[1].strip() == (
        "a='two words' b='x=y' c='say \"no\"' d=\"it's\" e= f=[1, 2] g=None h=one"
    )


def test_on_a_terminal_the_line_has_the_same_text_in_colours() -> None:
    line = text_line(NOON, "error", "failed", {"reason": "why"}, is_coloured=True)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[35m", "\x1b[36m"):
        assert code in line
        line = line.replace(code, "")
    assert line == text_line(NOON, "error", "failed", {"reason": "why"})


def test_a_json_line_is_one_object_with_the_traceback_in_a_field() -> None:
    try:
        raise ValueError("the reason")
    except ValueError as error:
        line = json_line(NOON, "error", "request failed", {"peer": "Zoë", "codes": {1}, "exc_info": error})
    assert line.count("\n") == 1
    assert "Zoë" in line
    found = json.loads(line)
    assert found.pop("exception").endswith("ValueError: the reason")
    assert found == {"peer": "Zoë", "codes": "{1}", "event": "request failed", "level": "error", "timestamp": NOON}
