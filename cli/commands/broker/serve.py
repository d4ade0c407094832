"""`sordini serve`: run a broker in the foreground, or in the background as a daemon."""

from __future__ import annotations

import sys

import click

from sordini.cli.common.collector import collect_again
from sordini.cli.common.options import CONSOLE_HELP, CONSOLE_PORT_HELP, REGISTRY_HELP, REGISTRY_PORT_HELP, ClientCommand
from sordini.cli.common.terminal import echo
from sordini.system.clock import SystemClock

STARTED_MS = SystemClock().monotonic_ms()
"""About the start of the process: the ready line counts from here."""


class Serve(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "the broker shut down cleanly; with --daemon: it is ready",
        1: "the broker failed; standard error says why",
        2: "the command or the configuration is wrong",
        3: "the shutdown was forced, by a second signal or the deadline; the next start recovers the logs",
    }


@click.command(cls=Serve)
@click.argument("properties", required=False, type=click.Path(dir_okay=False), metavar="[server.properties]")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one configuration key, in place of the file's value. Can be repeated.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Make, once, an authority, a certificate, a user and files for clients; serve with TLS, logins and access "
    "control; and print how clients connect.",
)
@click.option(
    "--secure-directory",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where --secure keeps keys, the password and client files. The default is the first log directory with "
    "-secure behind its name.",
)
@click.option("--console", "has_console", is_flag=True, help=f"{CONSOLE_HELP} Needs the extra sordini[console].")
@click.option("--console-port", type=click.IntRange(0, 65_535), default=9080, show_default=True, help=CONSOLE_PORT_HELP)
@click.option("--registry", "has_registry", is_flag=True, help=f"{REGISTRY_HELP} Needs the extra sordini[registry].")
@click.option(
    "--registry-port", type=click.IntRange(0, 65_535), default=8081, show_default=True, help=REGISTRY_PORT_HELP
)
@click.option("--daemon", is_flag=True, help="Run in the background; return when the broker is ready.")
@click.option(
    "--pid-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write the process id here. It is always in sordini.pid in the first log directory.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Append log lines to this file instead of standard error. The default of a daemon is sordini.log in the "
    "first log directory.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Readable lines, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Do not log lines below this level.",
)
def serve(
    properties: str | None,
    overrides: tuple[str, ...],
    secure_directory: str | None,
    console_port: int,
    registry_port: int,
    daemon: bool,  # noqa: FBT001 - click gives it by name.
    pid_file: str | None,
    log_file: str | None,
    log_format: str,
    log_level: str,
    *,
    secure: bool,
    has_console: bool,
    has_registry: bool,
) -> None:
    """Start a broker and run it until SIGTERM or Ctrl-C.

    \b
    Without a configuration it listens on port 9092 of all addresses and keeps its data in ./data.
    config/server.properties lists every key of a Kafka server.properties that this broker honours.

    \b
      sordini serve
      sordini serve config/server.properties
      sordini serve --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=/var/lib/sordini
      sordini serve --secure
      sordini serve --daemon --pid-file /run/sordini.pid --log-file /var/log/sordini.log

    \b
    One line on standard output says that it is ready. SIGTERM and SIGINT shut it down cleanly, within
    sordini.shutdown.deadline.ms; a second signal, half a second later or more, forces it. SIGHUP reopens
    the log file.
    """
    from sordini.broker.process.log_library import import_without_extras

    import_without_extras()
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.broker_process import run_broker  # Imported here: --help needs no broker.
    from sordini.broker.process.process_context import Launch
    from sordini.broker.process.serving_children import CONSOLE_EXTRA, REGISTRY_EXTRA, ChildPlan, check_extras

    collect_again()
    if secure_directory is not None and not secure:
        raise click.UsageError("--secure-directory goes with --secure")
    plans = [ChildPlan(CONSOLE_EXTRA, console_port)] if has_console else []
    plans += [ChildPlan(REGISTRY_EXTRA, registry_port)] if has_registry else []
    launch = Launch(
        STARTED_MS,
        log_level,
        log_format,
        log_file,
        pid_file,
        daemon,
        is_secure=secure,
        secure_directory=secure_directory,
        children=tuple(plans),
    )
    try:
        check_extras(plans)
        code = run_broker(properties, overrides, launch)
    except ConfigError as error:
        echo(f"sordini: {error}", err=True)
        sys.exit(2)
    sys.exit(code)
