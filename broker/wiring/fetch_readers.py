"""How fetches are served: for the general way (`handler_table.py`) and the prepared one (`prepared_requests.py`)."""

from __future__ import annotations

from sordini.broker.records.fetch_handler import Readers
from sordini.broker.records.preferred_replica import RackAwareReplicaSelector
from sordini.broker.records.replica_fetch import ReplicaFetches
from sordini.broker.records.tail_fetch import TailFetches
from sordini.broker.requests.request_checks import InterBrokerGuard
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.parts import BrokerParts


def inter_broker_guard(deps: BrokerDeps, parts: BrokerParts) -> InterBrokerGuard:
    """Which requests may be those of brokers."""
    transport = parts.inter_broker.transport
    return InterBrokerGuard(transport.listener, transport.local_peer, is_clustered=deps.cluster.is_clustered)


def fetch_readers(deps: BrokerDeps, parts: BrokerParts) -> Readers:
    """The readers of followers, of consumers in other racks, and of fetches at the log end."""
    guard, has_selector = inter_broker_guard(deps, parts), deps.config.replica_selector_class is not None
    return Readers(
        ReplicaFetches(guard.check_listener, parts.inter_broker.quotas.leader, privileged=deps.cluster.is_clustered),
        RackAwareReplicaSelector(parts.metadata) if has_selector else None,
        TailFetches(parts.replicas, deps.runtime.call_later),
    )
