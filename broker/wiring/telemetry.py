"""How client telemetry is put together, where it is on (KIP-714)."""

from __future__ import annotations

from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.metrics.telemetry.ports import ReaderHere
from sordini.broker.wiring.deps import BrokerDeps
from sordini.replication.metadata_store.topics import topic_ids


def wire_telemetry(deps: BrokerDeps, subscriptions: ClientMetricsConfigs) -> ClientTelemetry | None:
    """None where it is off: clients are not told of it, and do not ask."""
    if not deps.config.client_telemetry_enable:
        return None
    runtime = deps.runtime
    new_id = topic_ids(runtime.randomness.getrandbits)
    reader = deps.workers.telemetry or ReaderHere()
    return ClientTelemetry(deps.config, subscriptions, reader, new_id, runtime.clock, runtime.log)
