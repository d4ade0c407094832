"""The routes of a broker, for tests of what all APIs have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache

from sordini.broker.requests.call import AuthorizationRule, Route
from sordini.protocol.api_keys import ApiKey
from tests.support.unit_broker import a_broker


@cache
def routes() -> tuple[Route, ...]:
    """Every route, those of client telemetry as well. Not to be called while a loop runs."""
    return asyncio.run(_routes())


def rules() -> Mapping[ApiKey, AuthorizationRule | None]:
    """The rule of each API; None for those that are open to every peer."""
    return {route.key: route.rule for route in routes()}


async def _routes() -> tuple[Route, ...]:
    async with a_broker({"sordini.client.telemetry.enable": "true"}) as broker:
        return tuple(broker.parts.dispatcher.routes)
