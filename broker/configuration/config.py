"""The broker's configuration: one typed object from server.properties, environment and overrides.

Names and defaults are Apache Kafka's wherever it has the key; keys of our own begin with `sordini.`. Each key is
declared once, here, with its rule and one line of meaning; config/server.properties lists the same and a test compares
the two. Defaults that differ from Apache Kafka's are few and say why.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Final

from sordini.broker.configuration.advertised_rules import AdvertisedRule, read_rules
from sordini.broker.configuration.keys.audit_keys import AuditSettings
from sordini.broker.configuration.keys.authorization_keys import AuthorizationSettings, check_authorization
from sordini.broker.configuration.keys.cleaner_keys import CleanerSettings, check_cleaner
from sordini.broker.configuration.keys.connection_keys import ConnectionSettings
from sordini.broker.configuration.keys.consumer_group_keys import ConsumerGroupSettings, check_consumer_groups
from sordini.broker.configuration.keys.controller_keys import ControllerSettings
from sordini.broker.configuration.keys.group_keys import GroupSettings
from sordini.broker.configuration.keys.listener_keys import (
    ListenerSecurity,
    Overrides,
    as_overrides,
    find_listener_key,
    listener_connections,
    listener_security,
    of_unknown_listeners,
)
from sordini.broker.configuration.keys.log_keys import LogSettings
from sordini.broker.configuration.keys.membership_keys import MembershipSettings, check_membership
from sordini.broker.configuration.keys.network_keys import NetworkSettings
from sordini.broker.configuration.keys.password_encoder_keys import PasswordEncoderSettings
from sordini.broker.configuration.keys.quota_keys import QuotaSettings
from sordini.broker.configuration.keys.replica_keys import ReplicaSettings, check_replica
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.configuration.keys.share_group_keys import ShareGroupSettings, check_share_groups
from sordini.broker.configuration.keys.telemetry_keys import TelemetrySettings
from sordini.broker.configuration.keys.tracing_keys import TracingSettings
from sordini.broker.configuration.keys.transaction_keys import TransactionSettings
from sordini.broker.configuration.keys.zookeeper_keys import ZooKeeperSettings, check_zookeeper
from sordini.broker.configuration.listeners import (
    ListenerEndpoint,
    advertised_endpoints,
    read_endpoints,
    read_protocol_map,
)
from sordini.broker.configuration.protection.protection import check_start, is_without_effect
from sordini.broker.configuration.protection.sasl_config import check_sasl
from sordini.broker.configuration.protection.unserved_protection import check_served
from sordini.broker.configuration.protocol_version import (
    ONE_FORMAT,
    TOPIC_IDS,
    ProtocolVersion,
    protocol_version,
    read_version,
)
from sordini.broker.configuration.renamed_keys import with_present_names
from sordini.broker.configuration.settings import (
    ConfigError,
    ProvidedText,
    Setting,
    ValueKind,
    boolean,
    counts_by_address,
    integer,
    setting,
    settings_of,
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Config(
    MembershipSettings,
    ControllerSettings,
    NetworkSettings,
    ConnectionSettings,
    SecuritySettings,
    LogSettings,
    ReplicaSettings,
    CleanerSettings,
    GroupSettings,
    ConsumerGroupSettings,
    ShareGroupSettings,
    TransactionSettings,
    ShareCoordinatorSettings,
    AuthorizationSettings,
    QuotaSettings,
    ZooKeeperSettings,
    PasswordEncoderSettings,
    AuditSettings,
    TelemetrySettings,
    TracingSettings,
):
    """Every key with an effect; see `meaning` of each."""

    inter_broker_protocol_version: ProtocolVersion = setting(  # noqa: RUF009 - a frozen value, as the others'
        "inter.broker.protocol.version",
        protocol_version,
        read_version("3.9-IV0"),
        "The protocol version that brokers of this cluster use between each other.",
    )

    listener_overrides: Overrides = dataclasses.field(default=(), repr=False)
    """The keys with a listener prefix; see `listener`."""
    provided_keys: frozenset[str] = frozenset()
    """Keys whose value at the start came from a config provider: they are not described."""

    # Topics and replication.
    num_partitions: int = setting(
        "num.partitions", integer(1), 1, "Partitions of a topic that is created without a number."
    )
    default_replication_factor: int = setting(
        "default.replication.factor", integer(1), 1, "Replicas of a topic that is created without a number."
    )
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", boolean, True, "Create a topic when a client requests its metadata."
    )
    delete_topic_enable: bool = setting("delete.topic.enable", boolean, True, "Whether topics can be deleted.")
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        integer(1),
        1,
        "In-sync replicas that a produce request with acks=all needs.",
        dynamic=True,
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        boolean,
        False,
        "Allow a replica outside the ISR to become leader.",
        dynamic=True,
    )
    create_topic_partitions_max: int = setting(
        "sordini.create.partitions.max",
        integer(1),
        10000,
        "Partitions that one CreateTopics or CreatePartitions request may create.",
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        integer(1),
        2000,
        "Partitions in one page of DescribeTopicPartitions.",
    )
    fetch_max_bytes: int = setting("fetch.max.bytes", integer(1024), 57671680, "Maximum bytes of a fetch response.")
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        integer(0),
        1000,
        "Incremental fetch sessions that the broker keeps.",
    )
    fetch_session_partitions_max: int = setting(
        "sordini.fetch.session.partitions.max",
        integer(0),
        500000,
        "Partitions in all incremental fetch sessions together.",
    )

    # These in place of what dataclasses would compile of the names of all keys, at every start.
    def __init__(self, **values: Any) -> None:
        """`values` by the names of the fields; what is not among them has its default. Raises ConfigError."""
        if strange := values.keys() - _DEFAULTS.keys():
            raise TypeError(f"Config has no field {min(strange)}")
        vars(self).update({**_DEFAULTS, **values})
        self._check()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def _check(self) -> None:
        check_membership(self)
        check_replica(self)
        check_authorization(self)
        check_zookeeper(self, self.zookeeper_connect)
        if self.cluster_exclusive and self.inter_broker_protocol_version < TOPIC_IDS:
            raise ConfigError(
                f"sordini.cluster.exclusive=true is not valid with inter.broker.protocol.version="
                f"{self.inter_broker_protocol_version}, which is for clusters with Apache Kafka 2.7: allowed is "
                f"{TOPIC_IDS} or newer"
            )
        # Parsed here, so that a wrong listener refuses the start like other wrong values.
        endpoints = self.endpoints
        advertised = self.advertised(endpoints)
        read_rules(self.advertised_rules_text, endpoints)
        # A registration without it would make every controller of the cluster fail.
        if self.inter_broker_listener not in {endpoint.name for endpoint in advertised}:
            names = ", ".join(endpoint.name for endpoint in advertised)
            given = self.inter_broker_listener_name
            key = "security.inter.broker.protocol" if given is None else "inter.broker.listener.name"
            raise ConfigError(
                f"{key}={given or self.security_inter_broker_protocol!r} is not valid: "
                f"allowed is a name from {'advertised.' if self.advertised_listeners else ''}listeners ({names})"
            )
        check_served(self)
        check_sasl(self)
        protocol, version = self.inter_broker_protocol_version, read_version(self.log_message_format_version)
        if version.magic > protocol.magic:
            raise ConfigError(
                f"log.message.format.version={version} is not valid: allowed is, with inter.broker.protocol.version="
                f"{protocol}, a version of message format {protocol.magic} or less"
            )

    @property
    def is_format_overruled(self) -> bool:
        """Whether an old message format is configured that inter.broker.protocol.version overrules."""
        is_old = read_version(self.log_message_format_version).magic < ONE_FORMAT.magic
        return is_old and self.inter_broker_protocol_version >= ONE_FORMAT

    @property
    def protocols(self) -> dict[str, str]:
        """Security protocol by listener name."""
        return read_protocol_map(self.listener_security_protocol_map)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for connections between brokers."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def listener(self, name: str) -> ListenerSecurity:
        """What protects one listener of `listeners`: its own keys, and the broker's where it has none."""
        protocols = {endpoint.name: endpoint.protocol for endpoint in self.endpoints}
        return listener_security(self, self.listener_overrides, name, protocols[name])

    @property
    def connections(self) -> dict[str, ConnectionSettings]:
        """The bounds of each listener's connections, by its name: its own keys, or the broker's."""
        overrides = self.listener_overrides
        return {end.name: listener_connections(self, overrides, end.name) for end in self.endpoints}

    @property
    def keys_of_unknown_listeners(self) -> list[str]:
        """Keys with the prefix of a listener that is not there; they have no effect."""
        return of_unknown_listeners(self.listener_overrides, (endpoint.name for endpoint in self.endpoints))

    @property
    def endpoints(self) -> tuple[ListenerEndpoint, ...]:
        """Where to listen."""
        return read_endpoints("listeners", self.listeners, self.protocols)

    def advertised(self, listeners: tuple[ListenerEndpoint, ...]) -> tuple[ListenerEndpoint, ...]:
        """The endpoints that clients receive for these listeners. Raises ConfigError."""
        return advertised_endpoints(self.advertised_listeners, listeners, self.protocols, self.advertised_host)

    @property
    def advertised_rules(self) -> tuple[AdvertisedRule, ...]:
        """Which connections get other addresses than those of `advertised`."""
        return read_rules(self.advertised_rules_text, self.endpoints)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories that hold logs, in the order given."""
        return tuple(part.strip() for part in (self.log_dirs or self.log_dir).split(",") if part.strip())

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """Those of `log_directories` that get no new partitions; other names in cordoned.log.dirs have no effect."""
        named = {os.path.abspath(path) for path in self.cordoned_log_dirs.split(",") if path}  # noqa: PTH100 - text.
        return frozenset(path for path in self.log_directories if os.path.abspath(path) in named)  # noqa: PTH100

    @property
    def max_connections_by_ip(self) -> dict[str, int]:
        """Bounds for single addresses."""
        text = self.max_connections_per_ip_overrides
        return counts_by_address(text) if text else {}


_DEFAULTS: Final = {field.name: field.default for field in dataclasses.fields(Config)}
SETTINGS: dict[str, tuple[str, Setting]] = settings_of(Config)


def find_setting(key: str) -> Setting | None:
    """The declaration of a served key, with or without a listener prefix; None for any other key."""
    known = SETTINGS.get(key)
    if known is not None:
        return known[1]
    of_listener = find_listener_key(key)
    return None if of_listener is None else of_listener.setting


def is_password(key: str) -> bool:
    """Whether a served key has a password, with or without a listener prefix."""
    known = find_setting(key)
    return known is not None and known.rule.kind is ValueKind.PASSWORD


def build_config(entries: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Parse the configuration; returns it and the unknown keys.

    Keys of Apache Kafka without effect here (`ignored_keys`, `protection`) do not count as unknown. Former names are
    accepted (`renamed_keys`).

    Raises ConfigError at the first wrong value, and at the first that requests protection which this broker does not
    have; the text names the key, the value and what is allowed.
    """
    values: dict[str, Any] = {}
    unknown: list[str] = []
    entries = with_present_names(entries)
    for key, text in entries.items():
        known = SETTINGS.get(key)
        if known is None and find_listener_key(key) is not None:
            continue
        if known is None:
            check_start(key, text)
            if not is_without_effect(key):
                unknown.append(key)
            continue
        field, declared = known
        values[field] = declared.rule.read(key, text)
    if {"security.inter.broker.protocol", "inter.broker.listener.name"} <= entries.keys():
        raise ConfigError(
            f"security.inter.broker.protocol={entries['security.inter.broker.protocol']!r} is not valid: allowed is "
            "only one of security.inter.broker.protocol and inter.broker.listener.name"
        )
    provided = frozenset(key for key, text in entries.items() if isinstance(text, ProvidedText))
    config = Config(**values, listener_overrides=as_overrides(entries), provided_keys=provided)
    check_cleaner(config)
    check_consumer_groups(config)
    check_share_groups(config)
    if not config.log_directories or entries.get("log.dirs", ".").strip() == "":
        key = "log.dir" if config.log_dirs is None else "log.dirs"
        raise ConfigError(f"{key}={entries[key]!r} is not valid: allowed is at least one directory")
    check_cordoned(config)
    return config, unknown


def check_cordoned(config: Config) -> None:
    """Raise ConfigError when a cordoned directory is no log directory, or when all are cordoned.

    Apache Kafka places no replicas on a broker whose directories are all cordoned. Here the controller does not know
    of cordoned directories, so a broker needs one for new partitions.
    """
    named, own = config.cordoned_log_dirs.split(","), config.cordoned_directories
    directories = ", ".join(config.log_directories)
    if config.cordoned_log_dirs and (len(own) < len(named) or len(own) == len(set(config.log_directories))):
        raise ConfigError(
            f"cordoned.log.dirs={config.cordoned_log_dirs!r} is not valid: allowed are directories among those of "
            f"log.dirs ({directories}), but not all of them"
        )
