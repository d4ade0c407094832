"""How traces of slow requests are put together, where they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.ports import Service
from sordini.broker.network.server import SocketServer
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.startup import StartRefused
from sordini.storage.disk import Disk
from sordini.system.clock import monotonic_ns

if TYPE_CHECKING:
    from sordini.broker.metrics.tracing.ports import SpanExporter
    from sordini.broker.metrics.tracing.span_export import SpanExport

SERVICE_NAME = "sordini"


def span_exporter(config: Config, disk: Disk) -> SpanExporter | None:
    """What exports spans; None where `sordini.tracing.endpoint` is not set."""
    if not config.tracing_endpoint:
        return None
    from sordini.broker.metrics.tracing.exporter_process import SpanExporterProcess  # Late: few brokers trace.

    return SpanExporterProcess(config.tracing_endpoint, config.tracing_headers_file, disk)


async def refuse_unusable_tracing(exporter: SpanExporter | None) -> None:
    """Raise StartRefused when spans are to be exported, and what is needed for it is not there.

    A collector that cannot be reached refuses no start.
    """
    if exporter is None:
        return
    try:
        await exporter.check()
    except ConfigError as error:
        raise StartRefused(str(error)) from error


def wire_tracing(deps: BrokerDeps, exporter: SpanExporter | None, metadata: MetadataCache) -> SpanExport | None:
    """None where it is off."""
    if exporter is None:
        return None
    from sordini.broker.metrics.tracing.span_export import SpanExport  # As above.

    config, identity, runtime = deps.config, deps.cluster.identity, deps.runtime
    resource = {
        "service.name": SERVICE_NAME,
        "service.instance.id": str(identity.broker_id),
        "sordini.cluster.id": identity.cluster_id,
    }
    return SpanExport(
        exporter,
        resource,
        metadata.name_of,
        runtime.clock,
        runtime.log,
        slow_ms=config.tracing_slow_request_ms,
        per_second_max=config.tracing_requests_per_second_max,
    )


def served_by(sockets: SocketServer, tracing: SpanExport | None) -> Callable[[Service], None]:
    """How a service becomes the one that answers requests: behind the one that traces, where there is one."""
    if tracing is None:
        return sockets.serve_by
    return lambda service: sockets.serve_by(tracing.in_front_of(service, monotonic_ns))
