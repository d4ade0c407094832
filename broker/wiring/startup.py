"""The steps of a broker's start that need no broker yet: the ports, the tree's owner, the logs, the other brokers.

Each refuses the start when the broker could not serve, with the reason and the remedy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sordini.broker.cluster.identity import BrokerIdentity, Owner, owner_of
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.delete_policies import load_policies
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.protocol_version import read_version
from sordini.broker.configuration.settings import INT64_MAX, ConfigError
from sordini.broker.configuration.topic_config import TopicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.metrics.telemetry.decoding import is_available
from sordini.broker.metrics.telemetry.ports import PushReader
from sordini.broker.network.descriptors import Descriptors
from sordini.broker.network.ports import Network, PageCache
from sordini.broker.network.tls_handshakes import HandshakeWorker, ThreadWorker
from sordini.broker.records.jobs.ports import RecordWorker
from sordini.broker.security.audit.audit_log import AuditOutput
from sordini.broker.wiring.deps import Interposer
from sordini.coordination_store.store_location import STORE_FILE
from sordini.replication import cluster_model
from sordini.replication.controller.policy import UNCLEAN_KEY, LeaderRebalance, Policy
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.metadata_store.cluster_identity import NAMED_MAX, mismatch, unknown_topics
from sordini.replication.metadata_store.registration import RegistrationRefused, check_endpoints_free, other_brokers
from sordini.replication.ports import (
    Clock,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Logger,
    NotAuthorized,
    Session,
    SessionExpired,
    StoreUnusable,
)
from sordini.storage.cleaner import Worker
from sordini.storage.disk import Disk
from sordini.storage.disk_space import OnFull, OnSpace
from sordini.storage.errors import StorageError
from sordini.storage.log_dir_handle import Randomness
from sordini.storage.log_manager import Identity, LogManager
from sordini.storage.names import META_PROPERTIES
from sordini.storage.store_config import StoreConfig
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.metrics.tracing.ports import SpanExporter

OLDEST_IN_CLUSTER = read_version("2.7-IV0")
"""Requests between brokers of older protocols are not implemented."""

FEATURES_BY_MAXIMUM = read_version("3.3-IV0")
"""From here on /feature has version 2 (KIP-778)."""

RECOVERY_MARKED = read_version("3.2-IV0")
"""From here on an unclean leader is marked as recovering (KIP-704)."""


class StartRefused(Exception):
    """The broker cannot start; the text gives the reason and the remedy."""


FORESEEN_FAILURES = (StoreUnusable, StorageError, RegistrationRefused)
"""Failures that end a broker and are no bug."""

STORE_LOST = (ConnectionLoss, SessionExpired)
"""Failed calls of a running broker are repeated; a starting broker refuses the start."""


def store_lost(error: CoordinationError) -> StartRefused:
    """The refusal for one of STORE_LOST."""
    if isinstance(error, NotAuthorized):
        return StartRefused(f"the coordination store refused this broker ({error})")
    return StartRefused(f"the connection to the coordination store was lost while the broker started ({error})")


class ServerPorts(NamedTuple):
    """Everything outside the process, as the server uses it."""

    clock: Clock
    randomness: Randomness
    disk: Disk
    network: Network
    page_cache: PageCache
    open_store: Callable[[], Awaitable[CoordinationStore]]
    worker: Worker
    """Runs compactions."""
    record_worker: RecordWorker
    """Opens records whose decoding takes long."""
    descriptors: Descriptors = Descriptors()
    handshake_worker: Callable[[int], HandshakeWorker] = ThreadWorker
    """Makes what computes TLS handshakes, for a number of threads."""
    is_store_shared: bool = False
    """Whether other brokers of this process use the same embedded store (`sordini dev`)."""
    telemetry_reader: PushReader | None = None
    """Reads metrics that clients push; None: the broker's own process does."""
    span_exporter: SpanExporter | None = None
    """Exports spans of slow requests; None: there are none."""
    audit: AuditOutput | None = None
    """Where the audit log goes; None without one."""
    interposer: Interposer | None = None
    """What stands in front of the handlers; None in production."""


async def refuse_other_tree(config: Config, owner: Owner | None, session: Session) -> None:
    """Raise StartRefused when the store's tree is not that of the log directories' cluster; writes nothing.

    Otherwise the first broker with a wrong chroot, or on a ZooKeeper that lost its data, would create a new cluster.
    """
    if owner is None:
        return
    reason = await mismatch(session, owner.cluster_id)
    if reason and config.zookeeper_connect:
        raise StartRefused(
            f"{owner.directory}/{META_PROPERTIES} belongs to cluster {owner.cluster_id}, and "
            f"zookeeper.connect={config.zookeeper_connect} is not its tree: {reason}. Wrong chroot, or restore "
            "ZooKeeper (docs/recovery.md); nothing was written there. To begin a new cluster there, name other log.dirs"
        )
    if reason:
        raise StartRefused(
            f"{owner.directory}/{META_PROPERTIES} belongs to cluster {owner.cluster_id}, and the embedded coordination "
            f"store is not its tree: {reason}. Restore {STORE_FILE} (docs/recovery.md), or set zookeeper.connect if "
            "the cluster is in a ZooKeeper; nothing was written. To begin a new cluster, name other log.dirs"
        )


def refuse_unreadable_telemetry(config: Config) -> None:
    """Raise StartRefused when clients are to push metrics, and what reads them is not installed."""
    if config.client_telemetry_enable and not is_available():
        raise StartRefused(
            "sordini.client.telemetry.enable=true needs the package opentelemetry-proto, which the extra "
            "sordini[telemetry] installs (docs/client-telemetry.md)"
        )


def refuse_lost_file(disk: Disk, file: str, directories: Sequence[str]) -> None:
    """Raise StartRefused when the embedded store's file is not there and the log directories belong to a cluster."""
    owner = None if disk.exists(file) else owner_of(disk, directories)
    if owner is not None:
        raise StartRefused(
            f"{owner.directory}/{META_PROPERTIES} belongs to cluster {owner.cluster_id}, and its coordination store "
            f"{file} is not there, in the first of log.dirs: restore it from a backup (docs/recovery.md), or set "
            "zookeeper.connect if the cluster is in a ZooKeeper; nothing was written. To begin a new cluster, name "
            "other log.dirs"
        )


def _room_lines(log: Logger) -> tuple[OnFull, OnSpace]:
    """The callbacks that log full log directories."""

    def full(directory: str, free_bytes: int | None, reason: str) -> None:
        log.error(
            "log directory full; appends refused until space is freed",
            directory=directory,
            free_bytes=free_bytes,
            reason=reason,
        )

    def room(directory: str, refused: int) -> None:
        log.info("log directory has free space again; appends accepted", directory=directory, refused=refused)

    return full, room


def open_logs(
    config: Config, ports: ServerPorts, identity: BrokerIdentity, topic_configs: TopicConfigs, log: Logger
) -> LogManager:
    """Lock the log directories and load their logs. Raises StartRefused and StorageError."""
    try:
        policies = load_policies(config.log_delete_policy)
    except ConfigError as error:
        raise StartRefused(str(error)) from error
    logs = LogManager(
        ports.disk,
        config.log_directories,
        Identity(identity.broker_id, identity.cluster_id),
        lambda partition: topic_configs.settings_of(partition.topic).log,
        ports.randomness,
        StoreConfig(
            open_files_max=min(config.open_segments_max, ports.descriptors.log_files),
            retention_check_interval_ms=config.log_retention_check_interval_ms,
            recovery_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
            log_start_checkpoint_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
            high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
            # Unset means never; a topic's flush.ms would have no effect then.
            flush_check_interval_ms=config.log_flush_scheduler_interval_ms % INT64_MAX,
            delete_policies=policies,
        ),
    )

    def log_finding(finding: str) -> None:
        log.warning("log finding", finding=finding)

    logs.on_finding = log_finding
    logs.on_space(*_room_lines(log))
    logs.on_event(log.info)
    for finding in logs.open(ports.clock.now_ms()):
        log.warning("log recovery finding", finding=finding)
    return logs


async def warn_of_unknown_topics(logs: LogManager, session: Session, log: Logger) -> None:
    """Name the logs in these directories whose topics the cluster does not have: they are kept, and not served.

    Topics created after a backup of the coordination store are missing once it is restored. A deleted topic is removed
    from the store last, after all its replicas.
    """
    unknown = set(await unknown_topics(session, (one.topic_partition.topic for one in logs.logs())))
    directories = sorted(one.directory for one in logs.logs() if one.topic_partition.topic in unknown)
    if directories:
        shown = ", ".join(directories[:NAMED_MAX])
        more = f" and {len(directories) - NAMED_MAX} more" if len(directories) > NAMED_MAX else ""
        log.warning(
            "logs of unknown topics are kept and not served (docs/recovery.md)",
            topics=len(unknown),
            directories=f"{shown}{more}",
        )


async def refuse_incompatible_cluster(config: Config, session: Session, broker: cluster_model.Broker) -> None:
    """Raise StartRefused when this broker could not work together with the registered ones."""
    try:
        others = await other_brokers(session, broker.broker_id)
    except STORE_LOST as error:
        raise store_lost(error) from error
    if others and config.inter_broker_protocol_version < OLDEST_IN_CLUSTER:
        numbers = ", ".join(str(other.broker_id) for other in others)
        raise StartRefused(
            f"inter.broker.protocol.version={config.inter_broker_protocol_version} is not enough for a cluster, and "
            f"zookeeper.connect={config.zookeeper_connect} is one with broker {numbers}: allowed there is "
            f"{OLDEST_IN_CLUSTER} or newer, the same on all its brokers"
        )
    for other in others:
        if other.is_exclusive != broker.is_exclusive:
            have, this = ("", "out") if other.is_exclusive else ("out", "")
            raise StartRefused(
                f"broker {other.broker_id} is registered with{have} sordini.cluster.exclusive=true, and this broker "
                f"has been configured with{this} it: allowed is the same on all brokers, which are Sordini's. To "
                "change it, stop all brokers first (docs/compatibility.md)"
            )
    check_endpoints_free(broker, others)


def cluster_settings_of(config: Config) -> cluster_model.ClusterSettings:
    """What the controller relies on, by the protocol that all brokers of the cluster speak."""
    protocol = config.inter_broker_protocol_version
    return cluster_model.ClusterSettings(
        config.inter_broker_listener,
        versions_for(protocol.release, protocol.step).uses_topic_ids,
        2 if protocol >= FEATURES_BY_MAXIMUM else 1,
        protocol >= RECOVERY_MARKED,
        config.delete_topic_enable,
        config.cluster_exclusive,
    )


def policy_of(dynamic: DynamicConfig) -> Policy:
    """The controller's settings; those that change at run time are read when they are used."""
    config, unclean = dynamic.config, UNCLEAN_KEY
    balance = LeaderRebalance(
        config.leader_imbalance_check_interval_seconds, config.leader_imbalance_per_broker_percentage
    )
    return Policy(
        cluster_settings_of(config),
        balance if config.auto_leader_rebalance_enable else None,
        lambda settings: bool(TopicConfig(dynamic, settings)[unclean]),
    )
