"""`sordini ping`: whether a broker answers, and whether it serves. A quick health check with little output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import DONE, FAILED, ClientCommand, bootstrap_option
from sordini.cli.common.terminal import echo
from sordini.system.clock import SystemClock

if TYPE_CHECKING:
    from sordini.client.cluster import Link

NOT_SERVING = 3


class PingCommand(ClientCommand):
    """A command whose exit code distinguishes a broker that does not serve from one that does not answer."""

    exit_codes = ClientCommand.exit_codes | {
        DONE: "the broker answers; with --serving: it serves",
        FAILED: "the broker does not answer",
        NOT_SERVING: "with --serving: the broker answers but does not serve, or does not report whether it serves",
    }


@click.command(cls=PingCommand)
@bootstrap_option
@click.option("--serving", is_flag=True, help="Also fail unless the broker serves clients.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Give up after this long.",
)
@click.pass_context
def ping(context: click.Context, bootstrap: str, timeout_s: float, *, serving: bool) -> None:
    """Connect to the first of the brokers and send an ApiVersions request.

    Without --serving, an answer is enough. With --serving the broker must be ready, have the state of the cluster from
    the controller, lead all partitions that it should lead, and ZooKeeper must still have the cluster. A broker that
    goes on serving while ZooKeeper is unreachable counts as serving: restarting it would only interrupt its clients.
    Only Sordini of this version or later reports this. `sordini cluster status --check` checks the whole cluster.

    \b
      sordini ping
      sordini ping --bootstrap broker-1:9092 --timeout 2
      sordini ping --serving
    """
    import asyncio  # Imported here: --help does not need it.

    began_ms = SystemClock().monotonic_ms()
    reason = asyncio.run(_ask(bootstrap, timeout_s, serving=serving))
    if reason:
        echo(f"sordini: {bootstrap} answers but does not serve: {reason}", err=True)
        context.exit(NOT_SERVING)
    said = "answers and serves" if serving else "answers"
    echo(f"{bootstrap} {said} ({SystemClock().monotonic_ms() - began_ms} ms)")


async def _ask(bootstrap: str, timeout_s: float, *, serving: bool) -> str:
    """Why the broker does not serve; empty if it does, or without --serving. Raises Failure."""
    import asyncio

    from sordini.cli.common.command_cluster import command_access
    from sordini.client.addresses import parse_bootstrap
    from sordini.client.cluster import open_link

    address = parse_bootstrap(bootstrap)[0]
    try:
        async with asyncio.timeout(timeout_s):
            link = await open_link(address, *command_access([address]))
            try:
                return await _why_not_serving(link) if serving else ""
            finally:
                link.close()
    except TimeoutError:
        raise Failure(f"{address} did not answer within {timeout_s:g} s") from None


async def _why_not_serving(link: Link) -> str:
    """The broker's own report, read from the resource of the cluster default, which needs no broker id."""
    from sordini.admin.config_requests import BROKER
    from sordini.broker.cluster.health_keys import SERVING, YES
    from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    wanted = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=[SERVING])
    answer = await link.ask(DescribeConfigsRequest(resources=[wanted]))
    for result in answer.results:
        for row in result.configs:
            if row.name == SERVING:
                return "" if row.value == YES else str(row.value).removeprefix("no: ")
    return "it does not report whether it serves (it is not Sordini, or an older version)"
