"""`sordini ping`: whether a broker answers. For health checks, so it is quick and says little."""

from __future__ import annotations

import click

from sordini.broker.cli.options import ClientCommand, Failure, bootstrap_option
from sordini.broker.cli.terminal import echo
from sordini.broker.clock import SystemClock


@click.command(cls=ClientCommand)
@bootstrap_option
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Give up after so long.",
)
def ping(bootstrap: str, timeout_s: float) -> None:
    """Connect to the first of the brokers and ask which requests it serves.

    \b
      sordini ping
      sordini ping --bootstrap broker-1:9092 --timeout 2
    """
    import asyncio  # Late: --help does not need it.

    began_ms = SystemClock().monotonic_ms()
    asyncio.run(_ask(bootstrap, timeout_s))
    echo(f"{bootstrap} answers ({SystemClock().monotonic_ms() - began_ms} ms)")


async def _ask(bootstrap: str, timeout_s: float) -> None:
    """Raises Failure."""
    import asyncio

    from sordini.broker.cli.link import Link, addresses_of

    address = addresses_of(bootstrap)[0]
    try:
        async with asyncio.timeout(timeout_s):
            (await Link.open(address)).close()
    except TimeoutError:
        raise Failure(f"{address} did not answer within {timeout_s:g} s") from None
