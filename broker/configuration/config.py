"""The broker's configuration: one typed object out of server.properties and overrides.

Names and defaults are Apache Kafka's wherever it has the key; keys of our own begin with `sordini.`. Each key is
declared once, here, with its rule and one line of meaning; config/server.properties lists the same and a test compares
the two. Defaults that differ from Apache Kafka's are few and say why.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from sordini.broker.configuration.cleaner_keys import CleanerSettings, check_cleaner
from sordini.broker.configuration.controller_keys import ControllerSettings
from sordini.broker.configuration.group_keys import GroupSettings
from sordini.broker.configuration.listeners import Endpoint, advertised_endpoints, read_endpoints, read_protocol_map
from sordini.broker.configuration.log_keys import LogSettings
from sordini.broker.configuration.membership_keys import MembershipSettings, check_membership
from sordini.broker.configuration.network_keys import NetworkSettings
from sordini.broker.configuration.protection import check_start, is_without_effect
from sordini.broker.configuration.protocol_version import (
    ONE_FORMAT,
    ProtocolVersion,
    protocol_version,
    read_version,
)
from sordini.broker.configuration.replica_keys import ReplicaSettings, check_replica
from sordini.broker.configuration.settings import (
    ConfigError,
    Setting,
    boolean,
    counts_by_address,
    integer,
    setting,
    settings_of,
)


@dataclasses.dataclass(frozen=True)
class Config(
    MembershipSettings,
    ControllerSettings,
    NetworkSettings,
    LogSettings,
    ReplicaSettings,
    CleanerSettings,
    GroupSettings,
):
    """Every key this broker honours; see `meaning` of each."""

    inter_broker_protocol_version: ProtocolVersion = setting(  # noqa: RUF009 - a frozen value, as the others'
        "inter.broker.protocol.version",
        protocol_version,
        read_version("3.9-IV0"),
        "The oldest protocol that brokers of this cluster speak among themselves.",
    )

    # Topics and replication.
    num_partitions: int = setting("num.partitions", integer(1), 1, "Partitions of a topic that does not say.")
    default_replication_factor: int = setting(
        "default.replication.factor", integer(1), 1, "Replicas of a topic that does not say."
    )
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", boolean, True, "Make a topic when a client asks for its metadata."
    )
    delete_topic_enable: bool = setting("delete.topic.enable", boolean, True, "Whether topics can be deleted.")
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        integer(1),
        1,
        "Replicas that must have a record before acks=all is answered.",
        dynamic=True,
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", boolean, False, "Let a replica outside the in-sync set lead.", dynamic=True
    )
    create_topic_partitions_max: int = setting(
        "sordini.create.partitions.max",
        integer(1),
        10000,
        "Partitions that one CreateTopics or CreatePartitions request may ask for.",
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        integer(1),
        2000,
        "Partitions that one page of DescribeTopicPartitions may hold.",
    )
    fetch_max_bytes: int = setting("fetch.max.bytes", integer(1024), 57671680, "Bytes one fetch answer may hold.")
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        integer(0),
        1000,
        "Incremental fetch sessions kept at once.",
    )
    fetch_session_partitions_max: int = setting(
        "sordini.fetch.session.partitions.max",
        integer(0),
        500000,
        "Partitions that all incremental fetch sessions may hold together.",
    )

    def __post_init__(self) -> None:
        check_membership(self)
        check_replica(self)
        # Parsed once here so that a wrong listener stops the start with the other wrong values.
        endpoints = self.endpoints
        advertised = self.advertised(endpoints)
        # A registration without it would stop every controller of the cluster.
        if self.inter_broker_listener_name not in {endpoint.name for endpoint in advertised}:
            names = ", ".join(endpoint.name for endpoint in advertised)
            raise ConfigError(
                f"inter.broker.listener.name={self.inter_broker_listener_name!r} is not valid: "
                f"allowed is a name from {'advertised.' if self.advertised_listeners else ''}listeners ({names})"
            )
        protocol, wanted = self.inter_broker_protocol_version, read_version(self.log_message_format_version)
        if wanted.magic > protocol.magic:
            raise ConfigError(
                f"log.message.format.version={wanted} is not valid: allowed is, with inter.broker.protocol.version="
                f"{protocol}, a version of message format {protocol.magic} or less"
            )

    @property
    def is_format_overruled(self) -> bool:
        """Whether an old message format is asked for that the brokers' protocol has no longer."""
        is_old = read_version(self.log_message_format_version).magic < ONE_FORMAT.magic
        return is_old and self.inter_broker_protocol_version >= ONE_FORMAT

    @property
    def protocols(self) -> dict[str, str]:
        """Security protocol by listener name."""
        return read_protocol_map(self.listener_security_protocol_map)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where to listen."""
        return read_endpoints("listeners", self.listeners, self.protocols)

    def advertised(self, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """What clients are told of these listeners. Raises ConfigError."""
        return advertised_endpoints(self.advertised_listeners, listeners, self.protocols, self.advertised_host)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories that hold logs, in the order given."""
        return tuple(part.strip() for part in (self.log_dirs or self.log_dir).split(",") if part.strip())

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """Those of `log_directories` that take no new partitions; other names in cordoned.log.dirs have no effect."""
        named = {os.path.abspath(path) for path in self.cordoned_log_dirs.split(",") if path}  # noqa: PTH100 - text.
        return frozenset(path for path in self.log_directories if os.path.abspath(path) in named)  # noqa: PTH100

    @property
    def max_connections_by_ip(self) -> dict[str, int]:
        """Bounds for single addresses."""
        text = self.max_connections_per_ip_overrides
        return counts_by_address(text) if text else {}


SETTINGS: dict[str, tuple[str, Setting]] = settings_of(Config)


def build_config(entries: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Make the configuration out of key and text, and name the keys nobody knows.

    Keys of Apache Kafka's that are known to do nothing here (`accepted`, `protection`) are not named.

    Raises ConfigError at the first wrong value, and at the first that asks for protection which is not given here,
    saying its key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    unknown: list[str] = []
    for key, text in entries.items():
        known = SETTINGS.get(key)
        if known is None:
            check_start(key, text)
            if not is_without_effect(key):
                unknown.append(key)
            continue
        field, declared = known
        values[field] = declared.rule.read(key, text)
    config = Config(**values)
    check_cleaner(config)
    check_cordoned(config)
    return config, unknown


def check_cordoned(config: Config) -> None:
    """Refuse a cordon around what is no log directory, or around all of them; raises ConfigError.

    Apache Kafka takes a broker whose directories are all cordoned out of the placement of replicas, in the whole
    cluster. Here a cordon is a broker's own affair, and its new partitions need a directory.
    """
    named, own = config.cordoned_log_dirs.split(","), config.cordoned_directories
    directories = ", ".join(config.log_directories)
    if config.cordoned_log_dirs and (len(own) < len(named) or len(own) == len(set(config.log_directories))):
        raise ConfigError(
            f"cordoned.log.dirs={config.cordoned_log_dirs!r} is not valid: allowed are directories among those of "
            f"log.dirs ({directories}), but not all of them"
        )
