"""What the commands say of themselves, which is what docs/commands.md is made of."""

from __future__ import annotations

import re

import click
import pytest

from sordini.cli.__main__ import COMMANDS, main
from tests.reference import commands


def contexts() -> list[click.Context]:
    return list(commands.commands_below(click.Context(main, info_name="sordini")))


def leaves() -> list[click.Context]:
    return [context for context in contexts() if not isinstance(context.command, click.Group)]


def test_the_table_of_commands_says_what_each_command_says_first() -> None:
    tops = {c.info_name: c.command for c in contexts() if c.parent is not None and c.parent.parent is None}
    assert set(tops) == set(COMMANDS)
    for name, command in tops.items():
        assert command.name == name


@pytest.mark.parametrize("context", leaves(), ids=lambda context: context.command_path)
def test_every_option_says_what_it_means(context: click.Context) -> None:
    for option in context.command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{context.command_path} {option.opts}"


@pytest.mark.parametrize("context", leaves(), ids=lambda context: context.command_path)
def test_every_command_shows_an_example_of_itself(context: click.Context) -> None:
    assert re.search(rf"^  .*{context.command_path}\b", context.command.help or "", re.MULTILINE)


@pytest.mark.parametrize("context", leaves(), ids=lambda context: context.command_path)
def test_no_line_of_a_help_text_is_longer_than_a_terminal_is_wide(context: click.Context) -> None:
    context.terminal_width = 80
    long = [line for line in context.command.get_help(context).splitlines() if len(line) > 110]
    assert not long
