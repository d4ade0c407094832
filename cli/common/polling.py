"""Commands that poll until a condition holds: `cluster status --check --wait` and `reassign verify --wait`.

The wait is bounded. The last result is the command's output, so that it shows what did not become true in time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from sordini.cli.common.options import Client
from sordini.client.errors import ClientError

if TYPE_CHECKING:
    from sordini.admin.cluster_client import ClusterClient

T = TypeVar("T")

PAUSE_SECONDS: Final = 1.0
"""Between an answer and the next request."""

wait_option = click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Check again every second until it succeeds, for at most this long. The last result is shown.",
)


def after_wait_text(wait_s: float) -> str:
    """The end of a failure's text."""
    return f" after {wait_s:g} s" if wait_s else ""


def poll_until(
    client: Client, wait_s: float, query: Callable[[ClusterClient], Awaitable[T]], is_done: Callable[[T], bool]
) -> T:
    """The first result that `is_done` accepts, or the last one within `wait_s` seconds (the first if that is 0).

    Each attempt opens its own connection and has the client's timeout. An attempt that cannot reach the cluster is
    repeated; one that is refused is not. Raises Failure when it is refused or the last attempt failed.
    """
    import asyncio

    from sordini.client.errors import NotServed, Refused

    async def until() -> T:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + wait_s
        while True:
            failure = None
            try:
                answer = await client.on_cluster(query)
                if is_done(answer):
                    return answer
            except (Refused, NotServed):
                raise  # The same request would be refused again.
            except ClientError as problem:
                failure = problem
            left = deadline - clock.time()
            if left <= 0 and failure is not None:
                raise failure
            if left <= 0:
                return answer
            await asyncio.sleep(min(PAUSE_SECONDS, left))

    return asyncio.run(until())
