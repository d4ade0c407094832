"""Tables, bytes in JSON, sizes; and how a command ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.failure import Failure
from sordini.cli.__main__ import main
from sordini.cli.common.options import Client, ClientCommand, report_each
from sordini.cli.common.output import (
    PROGRESS_MS,
    ProgressLine,
    bytes_as_text,
    bytes_from_json,
    bytes_in_json,
    size_text,
    table,
)
from sordini.client.errors import Refused
from sordini.protocol.errors import ErrorCode
from tests.reference.commands import commands_below


def test_numbers_stand_to_the_right_and_what_is_not_there_is_a_dash() -> None:
    assert table(["NAME", "COUNT"], [["a", 5], ["longer", None], ["b", 1234]]).splitlines() == [
        "NAME    COUNT",
        "a           5",
        "longer      -",
        "b        1234",
    ]


def test_a_column_with_one_word_in_it_is_words() -> None:
    assert table(["X"], [["12"], ["one"]]).splitlines() == ["X", "12", "one"]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(["A", "B"], []) == "A  B"


@given(st.none() | st.binary())
def test_bytes_come_back_from_json(data: bytes | None) -> None:
    assert bytes_from_json(bytes_in_json(data)) == data


def test_bytes_that_are_no_text_stand_in_json_as_base64() -> None:
    assert bytes_in_json("é".encode()) == "é"
    assert bytes_in_json(b"\xff\x00") == {"base64": "/wA="}


@given(st.binary())
def test_bytes_for_people_are_one_printable_line(data: bytes) -> None:
    assert all(letter.isprintable() for letter in bytes_as_text(data))


def test_null_differs_from_what_is_empty() -> None:
    assert (bytes_as_text(None), bytes_as_text(b""), bytes_as_text(b"a\n\xff")) == ("null", "", "a\\n\\xff")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (99_949, "99.9 kB"),
        (999_600, "1 MB"),
        (123_456_789, "123 MB"),
        (5 * 10**12, "5 TB"),
    ],
)
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert size_text(size) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class StoppedClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


def test_progress_is_one_line_on_a_terminal_now_and_then_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream, expected in [(Terminal(), "\r100 records\r9 records  \r         \r"), (io.StringIO(), "")]:
        monkeypatch.setattr(sys, "stderr", stream)
        clock = StoppedClock()
        progress = ProgressLine(clock)
        for time_ms, text in [(0, "0 records"), (PROGRESS_MS, "100 records"), (2 * PROGRESS_MS, "9 records")]:
            clock.time_ms = time_ms
            progress.show(text)
            progress.show("too soon")
        progress.clear()
        progress.clear()
        assert stream.getvalue() == expected


def test_a_refusal_names_what_was_refused_and_the_code_to_search_for() -> None:
    code = ErrorCode.TOPIC_ALREADY_EXISTS
    assert str(Refused("topic 'a'", code)) == "topic 'a': topic already exists (TOPIC_ALREADY_EXISTS)"
    assert str(Refused("topic 'a'", code, "it is there")) == "topic 'a': it is there (TOPIC_ALREADY_EXISTS)"
    assert str(Refused("topic 'a'", 9999)) == "topic 'a': error 9999 (error 9999)"


def ends(body: Callable[[], None]) -> Any:
    return CliRunner().invoke(ClientCommand("try", callback=body), [])


def test_a_command_that_fails_says_why_on_stderr_and_ends_with_1() -> None:
    def fail() -> None:
        click.echo("some of it")
        raise Failure("no such thing")

    result = ends(fail)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "some of it\n", "sordini: no such thing\n")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, click.Abort])
def test_an_interrupted_command_ends_with_130_and_says_nothing(stop: type[BaseException]) -> None:
    def interrupted() -> None:
        raise stop

    result = ends(interrupted)
    assert (result.exit_code, result.stderr.strip()) == (130, "")


def test_a_wrong_use_ends_with_2() -> None:
    for wrong in (["topics", "create"], ["nonsense"], ["topics", "list", "--bootstrap", "a:b"]):
        assert CliRunner().invoke(main, wrong).exit_code == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["groups", "reset", "g", "--topic", "t"], "give exactly one target"),
        (["groups", "reset", "g", "--topic", "t", "--to-earliest", "--to-latest"], "give exactly one target"),
        (["groups", "reset", "g", "--to-earliest"], "name the partitions"),
        (["groups", "reset", "g", "--all-topics", "--topic", "t", "--to-earliest"], "name the partitions"),
        (["groups", "reset", "g", "--from-file", "x", "--all-topics"], "names the partitions"),
        (["topics", "alter", "t"], "nothing to change"),
        (["topics", "create", "t", "-c", "a+=b"], "has no value to change"),
        (["topics", "delete-records", "t"], "say which records"),
        (["topics", "delete-records", "t", "--all", "--before", "5"], "say which records"),
        (["configs", "describe"], "name a resource"),
        (["consume", "t", "--group", "g", "--partition", "0"], "assigns the partitions itself"),
        (["consume", "t", "--group", "g", "--from", "5"], "beginning or end"),
        (["consume", "t", "--json", "--format", "value"], "give one of them"),
        (["produce", "t", "--input", "json", "--key-separator", ":"], "--input json"),
        (["produce", "t", "--header", "a"], "NAME=VALUE"),
        (["log", "dump", "f", "--offsets-decoder", "--transaction-log-decoder"], "different topics"),
        (["topic", "list"], "there is no command 'topic' (did you mean topics?)"),
        (["topics", "lst"], "there is no command 'lst' (did you mean list?)"),
        (["log", "dmp", "f"], "there is no command 'dmp' (did you mean dump?)"),
        (["pipeline", "steam"], "there is no command 'steam' (did you mean stream?)"),
        (["cluster", "xyz"], "there is no command 'xyz'; there are status"),
        (["topics", "list", "--bootstarp", "a"], "--bootstrap"),
        (["ping", "-b", "http://a:1"], "'http://a:1' is not HOST:PORT: brokers do not speak HTTP"),
        (["ping", "-b", "SSL://a:1"], "--command-config takes a file with security.protocol=SSL"),
        (["produce", "t", "-b", "a:1,SASL_PLAINTEXT://b:1"], "connects by PLAINTEXT"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_is_done(wrong: list[str], said: str) -> None:
    result = CliRunner().invoke(main, wrong)
    assert result.exit_code == 2
    assert said in result.stderr


CONFIRMED = (
    ["topics", "delete", "t"],
    ["topics", "delete-records", "t", "--all"],
    ["groups", "delete", "g"],
    ["groups", "delete-offsets", "g", "--topic", "t"],
    ["share", "delete", "g"],
    ["share", "delete-offsets", "g", "--topic", "t"],
    ["transactions", "abort", "t:0", "--start-offset", "1"],
    ["users", "remove", "u"],
)
"""Commands that cannot be undone; `acls remove` asks once it has found entries."""


@pytest.mark.parametrize("words", CONFIRMED, ids=" ".join)
def test_what_cannot_be_undone_wants_a_terminal_or_yes(words: list[str]) -> None:
    result = CliRunner().invoke(main, [*words, "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "nothing was changed: without a terminal to answer on, --yes confirms it (" in result.stderr


def test_every_command_with_yes_asks_by_the_same_rule() -> None:
    asking = {
        context.command_path.removeprefix("sordini ")
        for context in commands_below(click.Context(main, info_name="sordini"))
        if any("--yes" in one.opts for one in context.command.params)
    }
    assert asking == {" ".join(words[:2]) for words in CONFIRMED} | {"acls remove"}


def test_what_went_well_is_reported_and_then_what_did_not(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"topic": "a", "error": None}, {"topic": "b", "error": "b: why"}, {"topic": "c", "error": "c: why"}]
    with pytest.raises(Failure) as failure:
        report_each(Client("", False, 1), rows, lambda row: f"{row['topic']} done")
    assert failure.value.args == ("b: why", "c: why")
    assert capsys.readouterr().out == "a done\n"
