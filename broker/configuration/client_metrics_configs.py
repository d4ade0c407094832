"""All subscriptions to metrics of clients, as the coordination store has them.

They are read when the broker joins the cluster, and change with each notification of the store. `version` grows with
each change: a client whose subscription is of an older version has another one, or may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sordini.broker.configuration.client_metrics_config import (
    CLIENT_METRICS,
    ClientMetricsConfig,
    client_metrics_entity,
    read_client_metrics,
    subscription_of,
)
from sordini.broker.configuration.entities import EntityType, load_entities
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import Logger, Session

_TYPE: Final = EntityType(CLIENT_METRICS, subscription_of, client_metrics_entity)
SUBSCRIPTIONS_MAX: Final = 100
"""Each of them is matched against every client that is new."""


class ClientMetricsConfigs:
    """The subscriptions by their names."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._settings: dict[str, dict[str, str]] = {}
        self._in_force: dict[str, ClientMetricsConfig] = {}
        self.version = 0
        """Of all subscriptions together."""

    @property
    def names(self) -> list[str]:
        """The subscriptions that there are, sorted."""
        return sorted(self._settings)

    @property
    def in_force(self) -> Sequence[ClientMetricsConfig]:
        """Those that can be used, in the order of their names."""
        return [self._in_force[name] for name in sorted(self._in_force)]

    def settings_of(self, name: str) -> Mapping[str, str]:
        """What is set of a subscription; empty for one that does not exist."""
        return self._settings.get(name, {})

    def check_room(self, name: str) -> None:
        """Raise BrokerError POLICY_VIOLATION when there would be one more, and there are too many."""
        if len(self._settings) >= SUBSCRIPTIONS_MAX and name not in self._settings:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, f"there are at most {SUBSCRIPTIONS_MAX} subscriptions to client metrics"
            )

    async def load(self, session: Session) -> None:
        """Read all of them, and forget those that are gone. Raises CoordinationError."""
        await load_entities(session, _TYPE, self._settings, self.changed, self._log)

    def changed(self, entity_path: str, settings: Mapping[str, str]) -> None:
        """The settings of a subscription are these now. One that cannot be used (another tool wrote it) has none."""
        name = subscription_of(entity_path)
        if dict(settings) == self._settings.get(name, {}):
            return
        self.version += 1
        self._in_force.pop(name, None)
        if not settings:
            del self._settings[name]
            return
        self._settings[name] = dict(settings)
        try:
            self._in_force[name] = read_client_metrics(name, settings)
        except BrokerError as error:
            self._log.warning("subscription to client metrics ignored", entity=entity_path, reason=str(error))
