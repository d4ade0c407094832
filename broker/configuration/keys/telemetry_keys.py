"""The keys of client telemetry (KIP-714)."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, integer, setting


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class TelemetrySettings:
    """Whether clients push their metrics to this broker, and how much is kept of them."""

    client_telemetry_enable: bool = setting(
        "sordini.client.telemetry.enable",
        boolean,
        False,
        "Whether clients may push their own metrics to this broker; needs the extra sordini[telemetry].",
    )
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes",
        integer(1),
        1048576,
        "Maximum bytes of one push of a client's metrics, before and after it is decompressed.",
    )
    client_telemetry_clients_max: int = setting(
        "sordini.client.telemetry.clients.max",
        integer(1, 1_000_000),
        16384,
        "Clients that push metrics and are remembered; of more, those that were silent for longest are forgotten.",
    )
    client_telemetry_series_max: int = setting(
        "sordini.client.telemetry.series.max",
        integer(0, 10_000_000),
        20000,
        "Values of metrics that are kept of all clients together; values of other metrics are dropped, and counted.",
    )
