"""`sordini serve`: a broker in the foreground."""

from __future__ import annotations

import sys

import click

from sordini.broker.clock import SystemClock

STARTED_MS = SystemClock().monotonic_ms()
"""Of the process, near enough: what the ready line counts from."""


@click.command()
@click.argument("properties", required=False, type=click.Path(dir_okay=False), metavar="[server.properties]")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one configuration key, in place of the file's value. May be given many times.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve(properties: str | None, overrides: tuple[str, ...], log_level: str) -> None:
    """Start a broker and run it until SIGTERM or Ctrl-C.

    \b
    Without a configuration it listens on port 9092 of every address and keeps its data in ./data.
    Every key of a Kafka server.properties that this broker honours is listed in config/server.properties.

    \b
      sordini serve
      sordini serve config/server.properties
      sordini serve --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=/var/lib/sordini
    """
    from sordini.broker.process import run_broker  # Late: --help does not need a broker.
    from sordini.broker.settings import ConfigError

    try:
        code = run_broker(properties, overrides, log_level=log_level, started_ms=STARTED_MS)
    except ConfigError as error:
        click.echo(f"sordini: {error}", err=True)
        sys.exit(2)
    sys.exit(code)
