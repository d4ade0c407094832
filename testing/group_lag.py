"""A group's lag with all that its coordinator and the leaders know: the blocking shell of a snapshot (`client/lag`)."""

from __future__ import annotations

from typing import Any

from sordini.client.errors import ClientError, Refused
from sordini.client.lag.asking import ANY_BROKER, Ask
from sordini.client.lag.model import GroupLag
from sordini.client.lag.reading import snapshot_of_groups
from sordini.system.clock import SystemClock
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient


def group_lag(client: OwnClient, group: str, topics: frozenset[str] = frozenset()) -> GroupLag:
    """A group's lag with all that its coordinator and the leaders know. Raises KitError."""

    def attempt() -> GroupLag | None:
        rounds = snapshot_of_groups([group], SystemClock().now_ms(), topics=topics)
        try:
            asks = next(rounds)
            while True:
                asks = rounds.send([_answer(client, ask) for ask in asks])
        except StopIteration as end:
            return end.value[0]  # type: ignore[no-any-return]
        except Refused as error:
            if error.code in TEMPORARY:
                return None
            raise KitError(str(error)) from error

    found: GroupLag = client.wait(attempt, f"the lag of group {group!r} can be read")
    if found.problem is not None:
        raise KitError(found.problem)
    return found


def _answer(client: OwnClient, ask: Ask) -> Any:
    try:
        return client.ask(ask.request, None if ask.broker == ANY_BROKER else ask.broker)
    except ClientError as error:
        return error
