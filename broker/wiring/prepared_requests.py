"""Which requests have a prepared way (`broker/records/prepared`)."""

from __future__ import annotations

from sordini.broker.cluster.store_contact import NO_DOUBT, SessionDoubt
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.prepared.fetch import FetchDeps, FetchPreparer
from sordini.broker.records.prepared.produce import ProduceDeps, ProducePreparer
from sordini.broker.requests.prepared_requests import PreparedRequests
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.fetch_readers import fetch_readers
from sordini.broker.wiring.parts import BrokerParts
from sordini.protocol.api_keys import ApiKey
from sordini.replication.partition import Partition


class ForgottenAtResignation:
    """Forgets what is prepared when leadership ends, so that the table holds no partition that is gone."""

    def __init__(self, prepared: PreparedRequests) -> None:
        self._prepared = prepared

    def became_leader(self, partition: Partition) -> None:
        """Nothing: what was prepared in an earlier leader epoch is stale."""

    def resigned(self, partition: Partition) -> None:
        del partition
        self._prepared.forget_all()


def prepare_requests(deps: BrokerDeps, parts: BrokerParts) -> None:
    """Serve these APIs in the prepared way, too."""
    prepared, runtime = parts.dispatcher.prepared, deps.runtime
    leaders = KnownLeaders(parts.replicas, parts.metadata)
    produce = ProduceDeps(
        runtime.clock.now_ms,
        runtime.call_later,
        parts.verification.gate.admits_at_once,
        doubt_of_leader_acks(deps),
        leaders,
    )
    prepared.preparers[ApiKey.PRODUCE] = ProducePreparer(produce)
    prepared.preparers[ApiKey.FETCH] = FetchPreparer(
        FetchDeps(
            leaders,
            parts.fetch_sessions,
            runtime.clock.monotonic_ms,
            fetch_readers(deps, parts),
            deps.config.fetch_max_bytes,
        )
    )
    parts.replicas.leadership_listeners.append(ForgottenAtResignation(prepared))


def doubt_of_leader_acks(deps: BrokerDeps) -> SessionDoubt:
    """The doubt in which produce requests with acks=0 and acks=1 are refused."""
    return deps.cluster.contact if deps.config.leader_acks_require_session else NO_DOUBT
