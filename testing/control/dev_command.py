"""`sordini dev`: a development cluster in one process.

The command is here, above the command line, because `--control` starts the test kit's brokers.
"""

from __future__ import annotations

import sys

import click

from sordini.cli.common.collector import collect_again
from sordini.cli.common.listen_address import PORT_MAX, ListenAddress
from sordini.cli.common.options import (
    CONSOLE_HELP,
    CONSOLE_PORT_HELP,
    REGISTRY_HELP,
    REGISTRY_PORT_HELP,
    ClientCommand,
)
from sordini.cli.common.terminal import echo
from sordini.system.clock import SystemClock

STARTED_MS = SystemClock().monotonic_ms()
"""About the start of the process: the ready line counts from here."""

BROKERS_MAX = 9


class Dev(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "all brokers shut down cleanly",
        1: "a broker failed; standard error says why",
        2: "the command or the configuration is wrong",
        3: "the shutdown was forced, by a second signal or the deadline; the next start recovers the logs",
    }


@click.command(cls=Dev)
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(1, BROKERS_MAX),
    default=3,
    show_default=True,
    help="Number of brokers; their ids are 1, 2, 3...",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX - BROKERS_MAX),
    default=9092,
    show_default=True,
    help="Port of the first broker; the others follow it. 0 lets the system choose.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on and to advertise.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    default="data/dev",
    show_default=True,
    metavar="DIR",
    help="All data; remove it to start from scratch.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one configuration key for all brokers. Can be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="Do not log lines below this level.",
)
@click.option(
    "--control",
    type=ListenAddress(),
    metavar="[HOST:]PORT",
    help="Serve faults, and kills of single brokers, as JSON over HTTP (docs/control.md). For tests: there is no "
    "authentication. Without HOST it listens on 127.0.0.1; port 0 lets the system choose.",
)
@click.option("--console", "has_console", is_flag=True, help=f"{CONSOLE_HELP} Needs the extra sordini[console].")
@click.option("--console-port", type=click.IntRange(0, 65_535), default=9080, show_default=True, help=CONSOLE_PORT_HELP)
@click.option("--registry", "has_registry", is_flag=True, help=f"{REGISTRY_HELP} Needs the extra sordini[registry].")
@click.option(
    "--registry-port", type=click.IntRange(0, 65_535), default=8081, show_default=True, help=REGISTRY_PORT_HELP
)
def dev(
    count: int,
    port: int,
    host: str,
    directory: str,
    overrides: tuple[str, ...],
    log_level: str,
    control: tuple[str, int] | None,
    console_port: int,
    registry_port: int,
    *,
    has_console: bool,
    has_registry: bool,
) -> None:
    """Run a cluster in this process until SIGTERM or Ctrl-C, for development.

    Each broker is complete: they elect a controller, lead partitions and follow each other. One file in the directory
    takes ZooKeeper's place. Topics get as many replicas as there are brokers, at most three. One process means one
    core and one point of failure: in production run `sordini serve` on separate machines.

    \b
      sordini dev
      sordini dev --brokers 1 --port 19092 --directory data/try
      sordini dev --override min.insync.replicas=2 --log-level info
      sordini dev --brokers 3 --control 9080
    """
    from sordini.broker.process.log_library import import_without_extras

    import_without_extras()
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.dev_cluster import DevClusterPlan, run_brokers  # Imported here: --help needs no broker.
    from sordini.broker.process.library_lines import take_over_libraries
    from sordini.broker.process.log_writer import standard_error
    from sordini.broker.process.logging import make_logger
    from sordini.broker.process.serving_children import CONSOLE_EXTRA, REGISTRY_EXTRA, ChildPlan, check_extras

    collect_again()
    if (has_console or has_registry) and control is not None:
        name = "console" if has_console else "registry"
        raise click.UsageError(f"--{name} and --control: give one; `sordini {name}` runs beside any cluster")
    children = [ChildPlan(CONSOLE_EXTRA, console_port)] if has_console else []
    children += [ChildPlan(REGISTRY_EXTRA, registry_port)] if has_registry else []
    plan, log = DevClusterPlan(count, directory, host, port, tuple(children)), make_logger(log_level, standard_error())
    take_over_libraries(log)
    try:
        check_extras(children)
        if control is None:
            code = run_brokers(plan, overrides, log, STARTED_MS)
        else:
            from sordini.testing.control.dev_process import run_controlled  # As above.

            code = run_controlled(plan, overrides, control, log, STARTED_MS)
    except ConfigError as error:
        echo(f"sordini: {error}", err=True)
        sys.exit(2)
    sys.exit(code)
