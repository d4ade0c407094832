"""The parts of a broker, as `assembly.py` builds them."""

from __future__ import annotations

from typing import NamedTuple

from sordini.broker.configuration.admin import ConfigAdmin
from sordini.broker.configuration.logger_levels import LoggerLevels
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.control.command_receiver import CommandReceiver
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.dispatch import Dispatcher
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.membership.health import BrokerHealth
from sordini.broker.quotas.client_quotas import ClientQuotas
from sordini.broker.record_jobs.queue import JobQueue
from sordini.broker.requests.fetch_sessions import FetchSessions
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.partition_admin import PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.wiring.inter_broker import InterBroker
from sordini.broker.wiring.security import SecurityParts
from sordini.broker.wiring.transaction_verification import VerificationParts
from sordini.replication.metadata_store.configs import ConfigChanges
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.cleaner import LogCleaner
from sordini.storage.log_manager import LogManager


class AdminParts(NamedTuple):
    """What changes topics, partitions and settings when a client requests it."""

    topics: TopicAdmin
    partitions: PartitionAdmin
    configs: ConfigAdmin
    loggers: LoggerLevels


class BrokerParts(NamedTuple):
    """The parts that the server starts, feeds and stops, that handlers use, and that metrics read."""

    logs: LogManager
    cleaner: LogCleaner
    record_jobs: JobQueue
    metadata: MetadataCache
    topic_configs: TopicConfigs
    config_changes: ConfigChanges
    admin: AdminParts
    replicas: ReplicaSet
    fetch_sessions: FetchSessions
    offsets_topic: InternalTopic
    groups: GroupCoordinator
    transactions_topic: InternalTopic
    transactions: TransactionCoordinator
    verification: VerificationParts
    receiver: CommandReceiver
    inter_broker: InterBroker
    dispatcher: Dispatcher
    health: BrokerHealth
    security: SecurityParts
    quotas: ClientQuotas
