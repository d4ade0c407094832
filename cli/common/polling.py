"""Commands that look until something is so: `cluster status --check --wait` and `reassign verify --wait`.

A wait ends. What was found last is the command's answer, so that it says what was waited for in vain.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from sordini.cli.common.options import Client, Failure

if TYPE_CHECKING:
    from sordini.cli.cluster import Cluster

T = TypeVar("T")

PAUSE_SECONDS: Final = 1.0
"""Between an answer and the next question."""

wait_option = click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Look again, once a second, until it is so or for so long; the last answer is shown.",
)


def after_wait_text(wait_s: float) -> str:
    """What follows a failure's text."""
    return f" after {wait_s:g} s" if wait_s else ""


def poll_until(
    client: Client, wait_s: float, look: Callable[[Cluster], Awaitable[T]], is_done: Callable[[T], bool]
) -> T:
    """The first answer that is done, or the last within `wait_s` seconds; with 0, the first.

    Each look is a connection of its own and has the client's timeout. A cluster that cannot be asked is asked again;
    one that refuses is not. Raises Failure when it refuses or the last look failed.
    """
    import asyncio

    from sordini.cli.link import NotServed, Refused

    async def until() -> T:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + wait_s
        while True:
            failure = None
            try:
                answer = await client.on_cluster(look)
                if is_done(answer):
                    return answer
            except (Refused, NotServed):
                raise  # The same question would be answered alike.
            except Failure as problem:
                failure = problem
            left = deadline - clock.time()
            if left <= 0 and failure is not None:
                raise failure
            if left <= 0:
                return answer
            await asyncio.sleep(min(PAUSE_SECONDS, left))

    return asyncio.run(until())
