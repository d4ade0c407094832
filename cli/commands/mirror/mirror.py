"""`sordini mirror`: topics of several clusters copied into one. docs/mirror.md says what is kept, and how."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import EXIT_CODES, FAILED, ClientCommand, ClientGroup, json_option, timeout_option
from sordini.cli.common.output import print_json
from sordini.cli.common.terminal import echo_lines

T = TypeVar("T")


RUN_EXIT_CODES: Final = {**EXIT_CODES, FAILED: "another mirror of this name has taken over, or the file is wrong"}


class RunCommand(ClientCommand):
    """A command that runs until it is stopped."""

    exit_codes = RUN_EXIT_CODES


def file_argument(command: Callable[..., T]) -> Callable[..., T]:
    """The file of a mirror."""
    path = click.Path(dir_okay=False, path_type=Path)
    return click.argument("file", metavar="[FILE]", type=path, default=Path("mirror.yaml"))(command)


@click.group(cls=ClientGroup)
def mirror() -> None:
    """Copy topics of other clusters into one, exactly once, as a file describes.

    The file names the target and the sources, and which topics and groups are copied; without FILE it is mirror.yaml.

    \b
      sordini mirror run mirror.yaml
      sordini mirror status mirror.yaml
      sordini mirror groups mirror.yaml
    """


@mirror.command(cls=RunCommand)
@file_argument
@click.option("--json", "as_json", is_flag=True, help="Print the progress as one JSON document per line.")
def run(file: Path, *, as_json: bool) -> None:
    """Copy until SIGTERM or Ctrl-C, and commit what is under way before it ends.

    It can be killed at any moment: it continues from what it committed last, and no record is lost or repeated. Only
    one mirror of a name runs at a time; a second one takes over, and the first one ends. On a terminal a line shows the
    progress of each source, elsewhere one line is printed every ten seconds in which records were copied.

    \b
      sordini mirror run mirror.yaml
      sordini mirror run mirror.yaml --json
    """
    from sordini.cli.commands.mirror.mirror_file import read_mirror_file
    from sordini.cli.commands.mirror.mirror_run import run_mirror

    run_mirror(read_mirror_file(file, os.environ), as_json=as_json)


@mirror.command()
@file_argument
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Wait until all is copied, for at most this long; the exit code is 1 if it is not then.",
)
@json_option
@timeout_option
def status(file: Path, *, wait_s: float, **options: Any) -> None:
    """Show how far each topic is copied: partitions, records behind, and the last heartbeat.

    It reads the positions in the target and the ends of the topics in the sources; the mirror need not run.

    \b
      sordini mirror status mirror.yaml
      sordini mirror status mirror.yaml --wait 60 --json
    """
    from sordini.cli.commands.mirror.mirror_reports import behind, status_text, status_until

    rows = _report(file, lambda plan: status_until(plan, wait_s), status_text, **options, more_s=wait_s)
    if wait_s and (behind(rows) or not rows):
        raise Failure(f"{behind(rows)} records are not copied after {wait_s:g} s")


@mirror.command()
@file_argument
@json_option
@timeout_option
def groups(file: Path, **options: Any) -> None:
    """Show the committed offsets of groups, in the sources and translated into the target.

    COMMITTED is the group's own offset in the target, if it has one.

    \b
      sordini mirror groups mirror.yaml
      sordini mirror groups mirror.yaml --json
    """
    from sordini.cli.commands.mirror.mirror_reports import groups_of, groups_text

    _report(file, groups_of, groups_text, **options)


def _report(
    file: Path,
    read: Callable[..., Any],
    text: Callable[[Any], str],
    *,
    as_json: bool,
    timeout_s: float,
    more_s: float = 0.0,
) -> Any:
    """Print what was read, which is also the result."""
    from sordini.cli.commands.mirror.mirror_file import read_mirror_file
    from sordini.cli.commands.mirror.mirror_reports import within

    found = within(read(read_mirror_file(file, os.environ)), timeout_s + more_s)
    if as_json:
        print_json(found)
    else:
        echo_lines(text(found))
    return found
