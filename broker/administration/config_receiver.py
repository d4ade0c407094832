"""Applies changed settings from the coordination store to this broker.

Settings of topics, groups, brokers, users and subscriptions to client metrics are applied, and the quotas of clients.
An unusable entry is ignored with a warning that names the key and never the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sordini.broker.configuration.client_metrics_config import CLIENT_METRICS
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import LAYERS, ConfigSource, DynamicConfig, IgnoredEntry
from sordini.broker.configuration.group_config import GROUPS
from sordini.broker.configuration.renamed_keys import RENAMED, renamed_among
from sordini.broker.configuration.topic_config import overruled_format, unusable_overrides
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import Logger, Session
from sordini.replication.replica_set import ReplicaSet

TOPICS = "topics/"
USERS = "users/"
OF_QUOTAS = (USERS, "clients/", "ips/")
FORMAT = "message.format.version"


def layer_entities(broker_id: BrokerId) -> dict[str, ConfigSource]:
    """The entity paths of the two dynamic layers of a broker's configuration."""
    of_broker, of_all = LAYERS
    return {paths.broker_entity(broker_id): of_broker, paths.broker_entity(None): of_all}


async def load_layers(session: Session, broker_id: BrokerId, dynamic: DynamicConfig, log: Logger) -> None:
    """Read both dynamic layers."""
    for entity_path, source in layer_entities(broker_id).items():
        settings = await read_settings(session, entity_path, log)
        warn_of_renamed(log, entity_path, settings)
        warn_of(log, entity_path, dynamic.set_layer(source, settings))


async def read_settings(session: Session, entity_path: str, log: Logger) -> Mapping[str, str]:
    """The settings of an entity; empty, with a warning, if they cannot be parsed."""
    found = await read_config(session, entity_path)
    if isinstance(found, Malformed):
        log.warning("unreadable settings ignored", path=found.path, reason=found.reason)
        return {}
    if entity_path.startswith(TOPICS):
        warn_of(log, entity_path, unusable_overrides(found))
    return found


def warn_of_format(log: Logger, config: Config, entity_path: str, settings: Mapping[str, str]) -> None:
    """Log a warning for a topic whose own message format is overruled."""
    try:
        why = overruled_format(config, settings.get(FORMAT))
    except ValueError:
        return  # Reported by `unusable_overrides`.
    if why is not None:
        warn_of(log, entity_path, [IgnoredEntry(FORMAT, why)])


def warn_of_renamed(log: Logger, entity_path: str, settings: Mapping[str, str]) -> None:
    """Log a warning for each key that is there by a former name."""
    for key in renamed_among(settings):
        log.warning("configuration key has a new name", entity=entity_path, key=key, now=RENAMED[key])


def warn_of(log: Logger, entity_path: str, ignored: Iterable[IgnoredEntry]) -> None:
    """Log a warning for each ignored entry."""
    for entry in ignored:
        log.warning("setting ignored", entity=entity_path, key=entry.key, reason=entry.reason)


class ConfigReceiver:
    """Applies changes as their notifications arrive."""

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicConfig,
        topic_configs: TopicConfigs,
        replicas: ReplicaSet,
        log: Logger,
    ) -> None:
        self._layers = layer_entities(broker_id)
        self._dynamic = dynamic
        self._topic_configs = topic_configs
        self._replicas = replicas
        self._log = log
        self.unclean_changed: Callable[[str | None], None] = lambda _: None
        """Called with a topic, or None for all, when unclean leader election may have been enabled there."""
        self.user_changed: Callable[[str, Mapping[str, str]], None] = lambda *_: None
        """Called with the entity path of a user and its settings, which hold credentials."""
        self.quotas_changed: Callable[[str, Mapping[str, str]], None] = lambda *_: None
        """Called with the entity path of a user, a client id, both or an address, and its settings."""
        self.group_changed: Callable[[str, Mapping[str, str]], None] = lambda *_: None
        """Called with the entity path of a group and its settings."""
        self.client_metrics_changed: Callable[[str, Mapping[str, str]], None] = lambda *_: None
        """Called with the entity path of a subscription to metrics of clients and its settings."""
        # After the listener of `topic_configs`, which was added before.
        dynamic.on_change(lambda _: replicas.reconfigure())
        dynamic.on_change(lambda _: self.unclean_changed(None))

    def changed(self, entity_path: str, settings: Mapping[str, str]) -> None:
        """Apply an entity's new settings."""
        source = self._layers.get(entity_path)
        if source is not None:
            warn_of_renamed(self._log, entity_path, settings)
            warn_of(self._log, entity_path, self._dynamic.set_layer(source, settings))
        elif entity_path.startswith(TOPICS):
            warn_of(self._log, entity_path, unusable_overrides(settings))
            warn_of_format(self._log, self._dynamic.config, entity_path, settings)
            topic = entity_path.removeprefix(TOPICS)
            self._topic_configs.set(topic, settings)
            self._replicas.reconfigure(topic)
            self.unclean_changed(topic)
        elif entity_path.startswith(GROUPS):
            self.group_changed(entity_path, settings)
        elif entity_path.startswith(CLIENT_METRICS):
            self.client_metrics_changed(entity_path, settings)
        elif entity_path.startswith(OF_QUOTAS):
            if entity_path.startswith(USERS):
                self.user_changed(entity_path, settings)
            self.quotas_changed(entity_path, settings)
        else:
            return
        self._log.info("settings changed", entity=entity_path, keys=", ".join(sorted(settings)))
