"""The command line, `sordini`. A command's module is imported when the command is used, which keeps start-up short."""

from __future__ import annotations

from sordini.cli import interrupts

# isort: split
# That is the first import, so that Ctrl-C during the other imports ends the process without a traceback.
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sordini import __version__
from sordini.cli.common.collector import collect_again
from sordini.cli.common.named_commands import NamedCommands
from sordini.system.supported import UnsupportedSystem, check_system

if TYPE_CHECKING:
    from collections.abc import Sequence

try:
    check_system()
except UnsupportedSystem as refused:
    raise SystemExit(f"sordini: {refused}") from None

COMMANDS = {
    "serve": "Run a broker.",
    "dev": "Run a development cluster: several brokers in one process.",
    "stop": "Stop a broker on this machine and wait until its process has ended.",
    "ping": "Check whether a broker answers.",
    "doctor": "Find out what is wrong between here and a cluster, or on a broker's machine.",
    "topics": "List, create, alter and delete topics.",
    "reassign": "Move partitions to other brokers.",
    "produce": "Send records: one for each line of the input.",
    "consume": "Print the records of a topic.",
    "tail": "Print the newest records of topics, in the order of their times; with -f also those that arrive.",
    "groups": "List and describe consumer groups, reset and delete their offsets.",
    "share": "List and describe share groups, reset their offsets, copy dead letters back.",
    "clients": "List and describe clients that push their own metrics.",
    "transactions": "List and describe transactions, find those that hang, and abort them.",
    "configs": "Show and change the settings of topics, groups, brokers and the cluster.",
    "acls": "List, add and remove access control entries.",
    "users": "List, set and remove users that log in by SCRAM.",
    "quotas": "List, set and remove quotas of users, client ids and addresses.",
    "mirror": "Copy topics of other clusters into one, exactly once.",
    "log": "Dump, verify and repair the files of a log directory.",
    "console": "Show a cluster in the browser, and change it there.",
    "registry": "Serve the schemas of a cluster's records.",
    "cluster": "Show the state of a cluster; move it between coordination stores.",
    "pipeline": "Write records from topics to tables with Spark.",
    "completion": "Print a script for the Tab key in bash, zsh or fish; the default is the shell in $SHELL.",
}
"""What `sordini --help` says of each."""

MODULES = {
    "serve": "cli.commands.broker.serve",
    "dev": "testing.control.dev_command",
    "stop": "cli.commands.broker.stop",
    "ping": "cli.commands.broker.ping",
    "doctor": "cli.commands.doctor.doctor",
    "topics": "cli.commands.topics.topics",
    "reassign": "cli.commands.reassign.reassign",
    "produce": "cli.commands.records.produce",
    "consume": "cli.commands.records.consume",
    "tail": "cli.commands.records.tail",
    "groups": "cli.commands.groups.groups",
    "share": "cli.commands.share.share",
    "clients": "cli.commands.clients.clients",
    "transactions": "cli.commands.transactions.transactions",
    "configs": "cli.commands.configs.configs",
    "acls": "cli.commands.security.acls",
    "users": "cli.commands.security.users",
    "quotas": "cli.commands.security.quotas",
    "mirror": "cli.commands.mirror.mirror",
    "log": "cli.commands.log.log",
    "console": "console.command",
    "registry": "registry.command",
    "cluster": "cli.commands.cluster.cluster",
    "pipeline": "pipeline.cli.pipeline",
    "completion": "cli.commands.completion.completion",
}
"""The module of each command, below `sordini`; the click command in it has the command's name."""

IMPORT_MORE = ("serve", "dev")
"""Commands that let the garbage collector begin themselves, behind imports of their own."""


def module_of(name: str) -> str:
    """The module of a command, below `sordini`."""
    return MODULES[name]


class Commands(NamedCommands):
    """The commands by name; each is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature, here and below.
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"sordini.{module_of(cmd_name)}"), cmd_name)
        if cmd_name not in IMPORT_MORE:
            collect_again()
        return command

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        """As click does. Without `args` this is the whole process, so Ctrl-C exits at once before and after it."""
        if args is not None:
            return super().main(args, *others, **named)
        interrupts.exit_on_interrupt()
        try:
            return super().main(args, *others, **named)
        finally:
            interrupts.exit_on_interrupt()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """As click does, which would import every command for its help."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, and Ctrl-C during the import of a command exits as it does inside the command."""
        try:
            interrupts.raise_on_interrupt()
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            click.echo(err=True)
            ctx.exit(interrupts.INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sordini")
def main() -> None:
    """A standalone broker that speaks the Kafka protocol."""


interrupts.raise_on_interrupt()

if __name__ == "__main__":
    main()
