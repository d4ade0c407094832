"""What a broker consists of while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.broker.cluster.identity import BrokerIdentity
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.network.server import SocketServer
from sordini.broker.wiring.cluster_wiring import ClusterParts
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.tls import TlsParts
from sordini.coordination_store.current_session import CurrentSession
from sordini.replication.metadata_store.log_dir_notifications import LogDirFailureNotifier
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.metrics.endpoint import MetricsEndpoint
    from sordini.broker.metrics.tracing.span_export import SpanExport


class Running(NamedTuple):
    """Built by the server, joined to the cluster by `joining.py`, and stopped by `stopping.py`."""

    identity: BrokerIdentity
    session: CurrentSession
    contact: StoreContact
    failure_notifier: LogDirFailureNotifier
    parts: BrokerParts
    sockets: SocketServer
    cluster: ClusterParts
    metrics: MetricsEndpoint | None
    tls: TlsParts | None
    tracing: SpanExport | None
    is_clustered: bool
    """Whether other brokers can exist."""

    @property
    def is_in_metadata(self) -> bool:
        """Whether a controller has sent metadata in which this broker is registered."""
        return self.identity.broker_id in self.parts.metadata.brokers
