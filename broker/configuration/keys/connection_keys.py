"""The keys of how many connections there may be, and how fast they are accepted (KIP-402, KIP-612)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sordini.broker.configuration.settings import (
    INT32_MAX,
    Change,
    ConfigError,
    bounds_by_address,
    integer,
    listener_setting,
    setting,
)


@dataclasses.dataclass(frozen=True)
class ConnectionSettings:
    """Bounds of the broker; those with a prefix are a listener's, too, and then its own connections count alone."""

    max_connections: int = listener_setting(
        "max.connections",
        integer(0),
        INT32_MAX,
        "Maximum connections over all listeners, and of each of them; further ones are not accepted yet.",
        Change.ANYWHERE,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        integer(0),
        INT32_MAX,
        "Maximum connections from one address; further ones are closed.",
        dynamic=True,
    )
    max_connections_per_ip_overrides: str = setting(
        "max.connections.per.ip.overrides",
        bounds_by_address,
        "",
        "Limits for single addresses: address:count, comma-separated.",
        dynamic=True,
    )
    max_connection_creation_rate: int = listener_setting(
        "max.connection.creation.rate",
        integer(1),
        INT32_MAX,
        "Connections accepted per second over all listeners, and on each of them; further ones wait in the backlog.",
        Change.ANYWHERE,
    )


def check_connections_change(
    former: Mapping[str, ConnectionSettings], changed: Mapping[str, ConnectionSettings]
) -> None:
    """Raise ConfigError for a change, by listener, after which one accepts nothing: not even what would undo it."""
    for name, own in changed.items():
        if own.max_connections == 0 and former[name].max_connections:
            raise ConfigError(
                f"max.connections=0 for the listener {name} is not valid while the broker runs: allowed is a whole "
                "number of at least 1"
            )
