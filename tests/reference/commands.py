"""docs/commands.md, from the tree of click commands: every command, argument, option, default and exit code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from sordini.cli.__main__ import main
from sordini.cli.common.options import EXIT_CODES

HEAD = """\
# Commands

`python -m tests.reference` generates this page from the commands; a test compares them.
`sordini COMMAND --help`, or `-h`, prints the same text. Every command that connects to a cluster takes `--bootstrap`
(or the environment variable `SORDINI_BOOTSTRAP`). Output is a readable table, or JSON with `--json`: one document, or
one per line for records and file contents. Results go to standard output; notices, questions, progress and errors go
to standard error. On a terminal, commands that cannot be undone ask for confirmation, unless `--yes` is given.

Exit codes, unless a command lists its own below:
"""


def page() -> str:
    """The whole page."""
    root = click.Context(main, info_name="sordini", **main.context_settings)
    lines = [HEAD, *_table(("exit code", "meaning"), [(str(code), text) for code, text in EXIT_CODES.items()])]
    for context in commands_below(root):
        lines += _section(context)
    return "\n".join(lines) + "\n"


def commands_below(context: click.Context) -> Iterator[click.Context]:
    """Each command below one, a group before its commands."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{name} is in the table and not in cli"
        inner = click.Context(command, info_name=name, parent=context)
        yield inner
        if isinstance(command, click.Group):
            yield from commands_below(inner)


def _section(context: click.Context) -> list[str]:
    command = context.command
    lines = ["", f"{'##' if isinstance(command, click.Group) or context.command_path.count(' ') == 1 else '###'} "]
    lines[-1] += context.command_path
    prose, examples = _help_of(command)
    lines += ["", *prose]
    if examples:
        lines += ["", "```sh", *examples, "```"]
    if isinstance(command, click.Group):
        return lines
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines += ["", f"Usage: `{usage}`"]
    options = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    lines += ["", *_table(("option", "meaning", "default"), options)]
    codes = getattr(command, "exit_codes", EXIT_CODES)
    if codes != EXIT_CODES:
        rows = [(str(code), text) for code, text in codes.items()]
        lines += ["", *_table(("exit code", "meaning"), rows)]
    return lines


def _help_of(command: click.Command) -> tuple[list[str], list[str]]:
    """The prose of a help text, a line for each paragraph with blank lines between, and the examples at its end."""
    prose: list[str] = []
    examples: list[str] = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        written = [line for line in paragraph.splitlines() if line != "\b"]
        examples += [line.removeprefix("  ") for line in written if line.startswith("  ")]
        sentences = " ".join(line for line in written if not line.startswith("  "))
        prose += ["", sentences] if sentences else []
    return prose[1:], examples


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    meaning, _, written_default = (option.help or "").partition("  [default: ")
    default = written_default.removesuffix("]")
    if not default and not option.is_flag and option.default is not None and not option.multiple:
        shown = option.get_default(context)
        default = "" if shown is None or repr(shown).startswith("Sentinel") else f"`{shown}`"
    if option.envvar:
        meaning += f" Environment: `{option.envvar}`."
    return f"{names}{value}", meaning, default


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
