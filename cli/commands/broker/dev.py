"""`sordini dev`: a cluster to develop against, in one process."""

from __future__ import annotations

import sys

import click

from sordini.broker.clock import SystemClock
from sordini.cli.common.options import ClientCommand
from sordini.cli.common.terminal import echo

STARTED_MS = SystemClock().monotonic_ms()
"""Of the process, near enough: what the ready line counts from."""

BROKERS_MAX = 9


class Dev(ClientCommand):
    exit_codes = {  # noqa: RUF012 - as its base class has it.
        0: "all brokers have stopped in order",
        1: "a broker failed; standard error says why",
        2: "the command or the configuration is wrong",
        3: "the stop was forced, by a second signal or by the deadline; the next start recovers",
    }


@click.command(cls=Dev)
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(1, BROKERS_MAX),
    default=3,
    show_default=True,
    help="So many, with the ids 1, 2, 3...",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535 - BROKERS_MAX),
    default=9092,
    show_default=True,
    help="The first broker's; the next ones follow it. 0 lets the system choose.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen, and what clients are told.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    default="data/dev",
    show_default=True,
    metavar="DIR",
    help="Everything is kept here; remove it to begin anew.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one configuration key for all brokers. May be given many times.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="Leave out log lines below this.",
)
def dev(count: int, port: int, host: str, directory: str, overrides: tuple[str, ...], log_level: str) -> None:
    """Run a whole cluster in this process until SIGTERM or Ctrl-C, for development.

    Each is a broker of its own: they elect a controller among them, lead partitions and follow each other. What a
    ZooKeeper would keep is in one file of the directory. Topics get as many replicas as there are brokers, three at
    the most. One process is one core and one failure: a cluster that matters is `sordini serve` on several machines.

    \b
      sordini dev
      sordini dev --brokers 1 --port 19092 --directory data/try
      sordini dev --override min.insync.replicas=2 --log-level info
    """
    from sordini.broker.configuration.settings import ConfigError
    from sordini.broker.process.dev_cluster import Plan, run_brokers  # Late: --help does not need a broker.
    from sordini.broker.process.log_writer import standard_error
    from sordini.broker.process.logging import Logger

    try:
        code = run_brokers(
            Plan(count, directory, host, port), overrides, Logger(log_level, standard_error()), STARTED_MS
        )
    except ConfigError as error:
        echo(f"sordini: {error}", err=True)
        sys.exit(2)
    sys.exit(code)
