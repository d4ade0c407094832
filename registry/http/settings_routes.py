"""Settings and modes: of a subject, of a context and of all."""

from __future__ import annotations

from typing import Any

from sordini.registry.http.calls import Call, Route, Rule
from sordini.registry.http.shapes import check_settings
from sordini.registry.state import settings


def routes() -> list[Route]:
    return [
        Route("GET", "/config", Rule.NOTHING, config),
        Route("PUT", "/config", Rule.ALTER_ALL, set_config),
        Route("DELETE", "/config", Rule.ALTER_ALL, remove_config),
        Route("GET", "/config/{scope}", Rule.READ, config),
        Route("PUT", "/config/{scope}", Rule.ALTER, set_config),
        Route("DELETE", "/config/{scope}", Rule.ALTER, remove_config),
        Route("GET", "/mode", Rule.NOTHING, mode),
        Route("PUT", "/mode", Rule.ALTER_ALL, set_mode),
        Route("DELETE", "/mode", Rule.ALTER_ALL, remove_mode),
        Route("GET", "/mode/{scope}", Rule.READ, mode),
        Route("PUT", "/mode/{scope}", Rule.ALTER, set_mode),
        Route("DELETE", "/mode/{scope}", Rule.ALTER, remove_mode),
    ]


async def config(call: Call) -> Any:
    in_force = call.flag("defaultToGlobal") or "scope" not in call.params
    return settings.config_of(call.registry.state, call.scope, default_to_global=in_force)


async def set_config(call: Call) -> Any:
    scope, request = call.scope, call.json()
    check_settings(request)
    return await call.registry.change(lambda state: settings.set_config(state, scope, request))


async def remove_config(call: Call) -> Any:
    scope = call.scope
    return await call.registry.change(lambda state: settings.delete_config(state, scope))


async def mode(call: Call) -> Any:
    in_force = call.flag("defaultToGlobal") or "scope" not in call.params
    return settings.mode_of(call.registry.state, call.scope, default_to_global=in_force)


async def set_mode(call: Call) -> Any:
    scope, name, force = call.scope, call.json().get("mode"), call.flag("force")
    return await call.registry.change(lambda state: settings.set_mode(state, scope, name, force=force))


async def remove_mode(call: Call) -> Any:
    scope = call.scope
    return await call.registry.change(lambda state: settings.delete_mode(state, scope))
