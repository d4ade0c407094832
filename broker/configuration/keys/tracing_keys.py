"""The keys of traces of slow requests (OpenTelemetry)."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import integer, matching, setting, string


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class TracingSettings:
    """Where spans of slow requests are sent, and of how many."""

    tracing_endpoint: str = setting(
        "sordini.tracing.endpoint",
        matching(
            r"(https?://[^\s/?#@]+(/[^\s?#]*)?)?", "http://host:port or https://host:port, with a path or without"
        ),
        "",
        "The OTLP/HTTP receiver of spans of slow requests, such as http://127.0.0.1:4318 (/v1/traces is appended where "
        "it has no path); needs the extra sordini[tracing]. Empty: no request is traced.",
    )
    tracing_slow_request_ms: int = setting(
        "sordini.tracing.slow.request.ms",
        integer(0),
        1000,
        "Requests that take this long or longer are traced; the wait that a Fetch requests does not count. 0: all are.",
    )
    tracing_requests_per_second_max: int = setting(
        "sordini.tracing.requests.per.second.max",
        integer(1, 10_000),
        10,
        "Slow requests of a second whose spans are exported; more are counted and dropped.",
    )
    tracing_headers_file: str = setting(
        "sordini.tracing.headers.file",
        string,
        "",
        "A file of HTTP headers that are sent with spans, a line name=value for each, such as Authorization; it is "
        "read again for each export. Empty: none are.",
    )
