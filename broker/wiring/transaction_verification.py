"""How the transactions of appended batches are verified, by coordinators here and on other brokers."""

from __future__ import annotations

from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.remote_verification import RemoteVerifications
from sordini.broker.transactions.verification import TransactionGate
from sordini.broker.transactions.verifier import CoordinatorVerifier
from sordini.broker.wiring.deps import Runtime
from sordini.broker.wiring.inter_broker import InterBroker
from sordini.protocol.types import BrokerId
from sordini.system.named_tuple import NamedTuple


class VerificationParts(NamedTuple):
    """The gate of all appends, and its questions to other brokers, which are closed with the broker."""

    gate: TransactionGate
    remote: RemoteVerifications


def wire_verification(
    broker_id: BrokerId,
    metadata: MetadataCache,
    transactions: TransactionCoordinator,
    inter_broker: InterBroker,
    dynamic: DynamicConfig,
    runtime: Runtime,
) -> VerificationParts:
    """Build both; a connection is made when there is a question for its broker."""
    timeout_ms = dynamic.config.request_timeout_ms
    remote = RemoteVerifications(broker_id, inter_broker.links, runtime.spawn, runtime.log, timeout_ms)
    verifier = CoordinatorVerifier(broker_id, metadata, transactions, remote)
    gate = TransactionGate(
        verifier,
        lambda: dynamic.config.transaction_partition_verification_enable,
        raises_epochs=dynamic.config.cluster_exclusive,
    )
    return VerificationParts(gate, remote)
