"""The configurations of all groups that have settings of their own, as the coordination store has them.

They are read when the broker joins the cluster, and change with each notification of the store. A lookup is one access
of a dictionary, so a coordinator makes one at each request instead of keeping what it returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.entities import EntityType, load_entities
from sordini.broker.configuration.group_config import (
    GROUPS,
    GroupConfig,
    GroupTimings,
    group_entity,
    group_of,
    unusable_settings,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import Logger, Session

_TYPE: Final = EntityType(GROUPS, group_of, group_entity)
GROUPS_MAX: Final = 10_000
"""Groups with settings of their own: each is a node of the store, which every broker reads when it joins."""


class GroupConfigs:
    """The settings of groups by their ids, resolved against the broker's."""

    def __init__(self, broker: DynamicConfig, log: Logger) -> None:
        """`broker` has the inherited values, which may change."""
        self._broker = broker
        self._log = log
        self._own: dict[str, GroupConfig] = {}
        self._timings: dict[str, GroupTimings] = {}
        self._observers: list[Callable[[str], None]] = []
        self._inherited = GroupConfig(broker, {})
        self._default_timings = self._inherited.timings
        broker.on_change(self._inherit)

    @property
    def group_ids(self) -> list[str]:
        """The groups that have settings of their own, sorted."""
        return sorted(self._own)

    def on_change(self, observer: Callable[[str], None]) -> None:
        """Call with the id of each group whose settings have changed."""
        self._observers.append(observer)

    def has_own(self, group_id: str) -> bool:
        """Whether a group has settings of its own."""
        return group_id in self._own

    def config_of(self, group_id: str) -> GroupConfig:
        """A group's configuration, for descriptions."""
        return self._own.get(group_id, self._inherited)

    def timings_of(self, group_id: str) -> GroupTimings:
        """A consumer group's values in force now."""
        return self._timings.get(group_id, self._default_timings)

    def check_room(self, group_id: str) -> None:
        """Raise BrokerError POLICY_VIOLATION when one more group would have settings, and too many have."""
        if len(self._own) >= GROUPS_MAX and group_id not in self._own:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, f"at most {GROUPS_MAX} groups have settings of their own")

    async def load(self, session: Session) -> None:
        """Read all of them, and forget those of groups that have none any more. Raises CoordinationError."""
        await load_entities(session, _TYPE, self._own, self.changed, self._log)

    def changed(self, entity_path: str, settings: Mapping[str, str]) -> None:
        """The settings of a group are these now."""
        for entry in unusable_settings(settings):
            self._log.warning("setting ignored", entity=entity_path, key=entry.key, reason=entry.reason)
        group_id = group_of(entity_path)
        if settings:
            config = self._own[group_id] = GroupConfig(self._broker, settings)
            self._timings[group_id] = config.timings
        else:
            self._own.pop(group_id, None)
            self._timings.pop(group_id, None)
        for observer in self._observers:
            observer(group_id)

    def _inherit(self, _: Config) -> None:
        self._timings = {group_id: config.timings for group_id, config in self._own.items()}
        self._default_timings = self._inherited.timings
