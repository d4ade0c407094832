"""What all client commands share: options, exit codes, and the access to the cluster.

    0    success
    1    the cluster refused the request, failed or could not be reached; a file is damaged
    2    wrong usage
    130  interrupted (Ctrl-C)

If the reader of the output closes the pipe, the command ends quietly with exit code 0.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sordini.admin.failure import Failure
from sordini.cli.common.client_security import command_config_option, current_security
from sordini.cli.common.named_commands import NamedCommands
from sordini.cli.common.output import print_json, table
from sordini.cli.common.terminal import echo, echo_lines
from sordini.client.errors import ClientError
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.admin.cluster_client import ClusterClient

T = TypeVar("T")

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES: Final = {
    DONE: "success",
    FAILED: "the cluster refused the request, failed or could not be reached",
    USAGE: "wrong usage",
    INTERRUPTED: "interrupted (Ctrl-C)",
}


CONSOLE_HELP: Final = "Also serve the page of `sordini console` on this machine, as a child process."
CONSOLE_PORT_HELP: Final = "Port of --console. 0 lets the system choose."
REGISTRY_HELP: Final = "Also serve a schema registry (`sordini registry`) on this machine, as a child process."
REGISTRY_PORT_HELP: Final = "Port of --registry. 0 lets the system choose."
"""Of the two commands that start brokers."""

SHOWN_MAX: Final = 100
"""Characters up to which a text is shown whole in an error."""


def os_error_text(error: OSError) -> str:
    """The system's error text, with the file if there is one and without the error number."""
    text = (error.strerror or str(error)).lower()
    return f"{error.filename}: {text}" if error.filename else text


def _encoding_error_text(error: UnicodeEncodeError) -> str:
    """The error text for arguments that are not UTF-8, or output that the terminal's encoding cannot represent."""
    text = ascii(error.object if len(error.object) <= SHOWN_MAX else error.object[error.start : error.end])
    if error.encoding == "utf-8":
        return f"{text} is not UTF-8; names and settings must be"
    return f"{text} cannot be written in {error.encoding}, the encoding of this terminal or pipe (see PYTHONIOENCODING)"


class ClientCommand(click.Command):
    """A command with the exit codes above, which its help lists."""

    exit_codes = EXIT_CODES

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's.
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.exit_codes.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # It is None when the command was started without one.
                sys.stdout.flush()
        except ClientError as failure:
            for problem in failure.args:
                echo(f"sordini: {problem}", err=True)
            ctx.exit(FAILED)
        except UnicodeEncodeError as error:
            echo(f"sordini: {_encoding_error_text(error)}", err=True)
            ctx.exit(USAGE)
        except BrokenPipeError:
            sys.stdout = None  # So that the interpreter does not flush it at the end.
            ctx.exit(DONE)
        except OSError as error:
            sys.stdout = None  # As above: it may be standard output that is full.
            echo(f"sordini: {os_error_text(error)}", err=True)
            ctx.exit(FAILED)
        except (KeyboardInterrupt, click.Abort):
            echo(err=True)
            ctx.exit(INTERRUPTED)
        return result


class ClientGroup(NamedCommands):
    """Commands below a command."""

    command_class = ClientCommand

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's.
        """In the order of definition: the commands needed first come first."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """As click does, with the whole first sentence of each command's help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in self.commands.items()])


class Client(NamedTuple):
    """How a command reaches the cluster, and the form of its output."""

    bootstrap: str
    as_json: bool
    timeout_s: float

    def run(self, action: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """Run an action on the cluster within the timeout. Raises Failure."""
        import asyncio

        return asyncio.run(self.on_cluster(action))

    async def on_cluster(self, action: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """As `run`, inside a running event loop."""
        from sordini.cli.common.waiting_line import waiting_line

        async def bounded(cluster: ClusterClient) -> T:
            async with waiting_line(f"waiting for {self.bootstrap}"):
                return await self.within_timeout(cluster, action(cluster))

        return await self.without_timeout(bounded)

    async def without_timeout(self, action: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """As `on_cluster` without a timeout, for an action that limits its parts by `within_timeout`."""
        from sordini.cli.common.command_cluster import command_cluster
        from sordini.client.addresses import parse_bootstrap

        async with command_cluster(parse_bootstrap(self.bootstrap)) as cluster:
            return await action(cluster)

    async def within_timeout(self, cluster: ClusterClient, work: Awaitable[T]) -> T:
        """The result of work on the cluster within the timeout. Raises Failure."""
        import asyncio

        try:
            async with asyncio.timeout(self.timeout_s):
                return await work
        except TimeoutError:
            problem = cluster.problem or "the broker did not answer"
            raise Failure(f"gave up after {self.timeout_s:g} s: {problem}") from None


def _addresses(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """The addresses without listener names, with ports. Raises BadParameter."""
    from sordini.client.addresses import listener_names, parse_bootstrap

    try:
        addresses = parse_bootstrap(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None
    from sordini.client.security import PLAINTEXT, PROTOCOLS

    protocol = (current_security() or PLAINTEXT).protocol
    for name in listener_names(value):
        if name in PROTOCOLS and name != protocol:
            reason = f"{value!r} is a listener of {name}, and this command connects by {protocol}"
            remedy = f"--command-config takes a file with security.protocol={name} (docs/security.md)"
            raise click.BadParameter(f"{reason}: {remedy}", ctx, parameter)
    return ",".join(map(str, addresses))


def addresses_option(
    callback: Callable[..., str] | None, more_help: str = ""
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """The option --bootstrap alone, whose value `callback` reads."""
    return click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="SORDINI_BOOTSTRAP",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        callback=callback,
        help=f"One or more brokers of the cluster, separated by commas.{more_help}",
    )


_bootstrap_option = addresses_option(_addresses)


def bootstrap_option(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command --bootstrap and --command-config; it gets the first as `bootstrap`."""
    return _bootstrap_option(command_config_option(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Give up after this long.",
)


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --bootstrap, --json and --timeout; it gets them as one `client`."""

    @bootstrap_option
    @json_option
    @timeout_option
    @wraps(command)
    def with_client(*args: Any, bootstrap: str, as_json: bool, timeout_s: float, **others: Any) -> None:
        command(*args, client=Client(bootstrap, as_json, timeout_s), **others)

    return with_client


def report_rows(
    client: Client, rows: Sequence[Any], head: Sequence[str], cells_of: Callable[[Any], Sequence[object]], none: str
) -> None:
    """Print what was listed, as JSON or as a table; without a row the sentence `none`, on standard error."""
    if client.as_json:
        print_json(rows)
    elif rows:
        echo_lines(table(head, map(cells_of, rows)))
    else:
        echo(none, err=True)


def report_found(client: Client, found: Sequence[Any], text: Callable[[Any], str]) -> None:
    """Print what was described, as JSON or as one paragraph for each."""
    if client.as_json:
        print_json(found)
    else:
        echo_lines("\n\n".join(map(text, found)))


def report_each(client: Client, rows: Sequence[Mapping[str, Any]], words: Callable[[Mapping[str, Any]], str]) -> None:
    """Print the result of each row; raises Failure for rows with an "error"."""
    if client.as_json:
        print_json(rows)
    else:
        for row in rows:
            if row["error"] is None:
                echo(words(row))
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        raise Failure(*errors)


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Whether to do what cannot be undone: --yes was given, or the user confirms it on a terminal.

    Raises UsageError without both: a script that names the wrong cluster or topic must not be a confirmation.
    """
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"nothing was changed: without a terminal to answer on, --yes confirms it ({question})")
    return click.confirm(question, err=True)
