"""`sordini doctor`: what is wrong between here and a cluster, or with the machine of a broker, and what mends it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from sordini.cli.common.client_security import command_config_option, current_security
from sordini.cli.common.options import DONE, FAILED, ClientCommand, json_option
from sordini.cli.common.output import print_json
from sordini.cli.common.terminal import echo_spans
from sordini.system.clock import SystemClock

if TYPE_CHECKING:
    from sordini.doctor.findings import Report


class DoctorCommand(ClientCommand):
    exit_codes = ClientCommand.exit_codes | {DONE: "all is well", FAILED: "something is wrong"}


@click.command(cls=DoctorCommand)
@click.argument("address", metavar="[HOST:PORT]", required=False)
@command_config_option
@click.option(
    "--broker",
    "properties",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Examine this machine for the broker of a server.properties instead.",
)
@click.option(
    "--write",
    "may_write",
    is_flag=True,
    help="Also create a topic, write to it, read it, compare clocks by it, and delete it.",
)
@json_option
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long each step waits for an answer.",
)
@click.pass_context
def doctor(
    context: click.Context,
    address: str | None,
    properties: str | None,
    timeout_s: float,
    *,
    may_write: bool,
    as_json: bool,
) -> None:
    """Find out what is wrong between this machine and a cluster, or with the machine of a broker.

    With HOST:PORT it goes a client's way: names, TCP at every address, what listens there, TLS and certificates, the
    login, metadata, every advertised address from here, coordinators, controller and partitions. It works with any
    Kafka cluster. Each fault is one paragraph, with the line that mends it and what clients print because of it.

    With --broker it reads a server.properties as a broker does and examines limits, disks, ports, permissions, clocks,
    certificates, ZooKeeper and the interpreter. No broker is started.

    Nothing is changed, neither here nor in the cluster, unless --write is given.

    \b
      sordini doctor broker-1:9092
      sordini doctor broker-1:9093 --command-config client.properties --write
      sordini doctor --broker server.properties
    """
    if (address is None) == (properties is None):
        raise click.UsageError("give either HOST:PORT or --broker FILE")
    if properties is not None:
        if may_write:
            raise click.UsageError("--write goes with HOST:PORT: --broker changes nothing")
        report = _examine_host(properties, timeout_s)
    else:
        report = _examine_cluster(str(address), timeout_s, may_write=may_write)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    context.exit(DONE if report.is_well else FAILED)


def _examine_cluster(text: str, timeout_s: float, *, may_write: bool) -> Report:
    import asyncio  # Imported here, as the others: --help does not need them.

    from sordini.cli.common.waiting_line import waiting_line
    from sordini.client.addresses import parse_bootstrap
    from sordini.client.security import PLAINTEXT
    from sordini.doctor.client_way.means import Means
    from sordini.doctor.client_way.walk import examine

    try:
        bootstrap = parse_bootstrap(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="HOST:PORT") from None
    means = Means(SystemClock(), current_security() or PLAINTEXT, timeout_s)

    async def examined() -> Report:
        async with waiting_line(f"going a client's way to {text}"):
            return await examine(bootstrap, means, may_write=may_write)

    return asyncio.run(examined())


def _examine_host(properties: str, timeout_s: float) -> Report:
    from sordini.doctor.broker_host.examination import examine_host

    return examine_host(properties, dict(os.environ), SystemClock(), timeout_s)


def _print(report: Report) -> None:
    from sordini.doctor.report_text import report_lines

    for line in report_lines(report):
        echo_spans(line)
