"""The parts of a broker, as `assembly.py` builds them."""

from __future__ import annotations

from sordini.broker.administration.activity.broker_activity import BrokerActivity
from sordini.broker.administration.config_admin import ConfigAdmin
from sordini.broker.administration.lag.append_watch import AppendWatch
from sordini.broker.administration.lag.commit_watch import CommitWatch
from sordini.broker.administration.logger_levels import LoggerLevels
from sordini.broker.cluster.commands.command_receiver import CommandReceiver
from sordini.broker.cluster.health import BrokerHealth
from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.groups.consumer.machine.topic_patterns import TopicPatterns
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.schemas.schema_check import SchemaCheck
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.topics.first_metadata import FirstMetadata
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.partition_admin import PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.wiring.inter_broker import InterBroker
from sordini.broker.wiring.security import SecurityParts
from sordini.broker.wiring.share_state import ShareStateParts
from sordini.broker.wiring.shares import ShareParts
from sordini.broker.wiring.transaction_verification import VerificationParts
from sordini.replication.metadata_store.configs import ConfigChanges
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.cleaner import LogCleaner
from sordini.storage.log_manager import LogManager
from sordini.system.named_tuple import NamedTuple


class AdminParts(NamedTuple):
    """What changes topics, partitions and settings when a client requests it."""

    topics: TopicAdmin
    partitions: PartitionAdmin
    configs: ConfigAdmin
    loggers: LoggerLevels


class LagWatches(NamedTuple):
    """What was seen of log ends and committed offsets."""

    appends: AppendWatch
    commits: CommitWatch

    async def sample(self, now_ms: int) -> None:
        """Due once a second, by the monotonic clock."""
        await self.appends.sample(now_ms)
        await self.commits.sample_if_due(now_ms)


class BrokerParts(NamedTuple):
    """The parts that the server starts, feeds and stops, that handlers use, and that metrics read."""

    logs: LogManager
    cleaner: LogCleaner
    record_jobs: JobQueue
    schemas: SchemaCheck
    metadata: MetadataCache
    first_metadata: FirstMetadata
    topic_configs: TopicConfigs
    group_configs: GroupConfigs
    client_metrics: ClientMetricsConfigs
    config_changes: ConfigChanges
    admin: AdminParts
    replicas: ReplicaSet
    fetch_sessions: FetchSessions
    offsets_topic: InternalTopic
    groups: GroupCoordinator
    topic_patterns: TopicPatterns
    lag: LagWatches
    activity: BrokerActivity
    transactions_topic: InternalTopic
    transactions: TransactionCoordinator
    verification: VerificationParts
    share_states: ShareStateParts
    led_shares: ShareParts
    receiver: CommandReceiver
    inter_broker: InterBroker
    dispatcher: Dispatcher
    health: BrokerHealth
    security: SecurityParts
    quotas: ClientQuotas
    telemetry: ClientTelemetry | None
    """None where clients do not push their metrics."""
