"""Metrics of the broker as a whole: its process, its network, its requests and its loop."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator

from sordini import __version__
from sordini.broker.metrics.families import Histogram, MetricFamily, MetricKind, MetricSources, Sample, counter, gauge
from sordini.protocol.served_apis import ALL_APIS


def _about(sources: MetricSources) -> Iterator[Sample]:
    del sources
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    yield (__version__, platform.python_version(), loop), 1


def _connections(sources: MetricSources) -> Iterator[Sample]:
    return (((name,), number) for name, number in sources.sockets.connections().items())


def _accepted(sources: MetricSources) -> Iterator[Sample]:
    return (((name,), acceptor.accepted) for name, acceptor in list(sources.sockets.acceptors.items()))


def _refused(sources: MetricSources) -> Iterator[Sample]:
    return (((name,), acceptor.refused) for name, acceptor in list(sources.sockets.acceptors.items()))


def _requests(sources: MetricSources) -> Iterator[Sample]:
    apis = list(sources.parts.dispatcher.versioned_apis)
    return (((api.api.key.name, str(api.version)), api.requests) for api in apis)


def _errors(sources: MetricSources) -> Iterator[Sample]:
    apis = list(sources.parts.dispatcher.versioned_apis)
    return (((api.api.key.name, str(api.version)), api.errors) for api in apis)


def _durations(sources: MetricSources) -> Iterator[Sample]:
    latencies = sources.latencies
    for number, api in ALL_APIS.items():
        key = number & 0xFF  # As they are counted.
        if any(latencies.counts[key]):
            # A copy: rendering may pause, and buckets and their sum must be consistent.
            yield (api.key.name,), Histogram(list(latencies.counts[key]), latencies.nanoseconds[key])


def _clocks(sources: MetricSources) -> Iterator[Sample]:
    return (((str(broker),), ms / 1000) for broker, ms in sources.clocks.differences_ms.items())


def _certificates(sources: MetricSources) -> Iterator[Sample]:
    listeners = {} if sources.tls is None else sources.tls.listeners.by_name
    return (((name,), tls.contexts.expires_at_s) for name, tls in listeners.items())


def _handshakes(sources: MetricSources) -> Iterator[Sample]:
    if sources.tls is not None:
        yield ("completed",), sources.tls.handshakes.completed
        yield ("failed",), sources.tls.handshakes.failed


def _throttled_connections(sources: MetricSources) -> float:
    rates = sources.sockets.quotas.rates
    return 0 if rates is None else rates.throttled


def _failed_logins(sources: MetricSources) -> Iterable[Sample]:
    return (((name,), count) for name, count in list(sources.parts.security.login_events.failed.items()))


def _denials(sources: MetricSources) -> float:
    denials = sources.parts.security.access.denials
    return 0 if denials is None else denials.total


BROKER_FAMILIES = (
    gauge(
        "sordini_build_info",
        "Always 1; the labels say which Sordini runs on which Python and event loop.",
        _about,
        "version",
        "python",
        "loop",
    ),
    gauge("sordini_uptime_seconds", "Time since the broker was ready.", lambda sources: sources.uptime_ms() / 1000),
    gauge(
        "sordini_controller_active",
        "1 on the broker that is the cluster's controller, 0 on the others.",
        lambda sources: int(sources.controller.is_active),
    ),
    gauge(
        "sordini_store_silent_seconds",
        "For how long ZooKeeper has not answered, or has no registration of this broker; 0 while all is well.",
        lambda sources: sources.contact.silent_ms / 1000,
    ),
    gauge(
        "sordini_coordination_store_lost",
        "1 while the coordination store does not have this cluster's tree: the broker serves on, and is registered "
        "again once it is restored.",
        lambda sources: int(bool(sources.contact.lost_tree)),
    ),
    gauge("sordini_connections", "Connections that are open now.", _connections, "listener"),
    counter(
        "sordini_connections_accepted_total",
        "Connections taken in, those that have closed included.",
        _accepted,
        "listener",
    ),
    counter(
        "sordini_connections_refused_total",
        "Connections closed at once because their address had too many (max.connections.per.ip).",
        _refused,
        "listener",
    ),
    counter(
        "sordini_connections_throttled_total",
        "Connections closed because their address connected faster than its quota (connection_creation_rate).",
        _throttled_connections,
    ),
    counter(
        "sordini_client_responses_throttled_total",
        "Responses after which a client above its quota was muted.",
        lambda sources: sources.parts.quotas.throttled.responses,
    ),
    counter(
        "sordini_client_throttle_seconds_total",
        "Time for which connections of clients above their quotas were muted.",
        lambda sources: sources.parts.quotas.throttled.milliseconds / 1000,
    ),
    gauge(
        "sordini_tls_certificate_expiry_timestamp_seconds",
        "Unix time at which the certificate of a TLS listener expires.",
        _certificates,
        "listener",
    ),
    counter(
        "sordini_tls_handshakes_total",
        "TLS handshakes of accepted connections that have ended, by their result.",
        _handshakes,
        "result",
    ),
    counter(
        "sordini_logins_failed_total",
        "Logins that were refused: by SASL, and by TLS handshakes.",
        _failed_logins,
        "listener",
    ),
    counter(
        "sordini_denials_total", "Operations on one resource that the authorizer has denied to a client.", _denials
    ),
    counter(
        "sordini_audit_lines_dropped_total",
        "Lines of the audit log that were too many at once, or could not be written.",
        lambda sources: sources.parts.security.audit.lines_dropped,
    ),
    counter(
        "sordini_received_bytes_total",
        "Bytes received from clients, over all listeners.",
        lambda sources: sources.sockets.traffic[0],
    ),
    counter(
        "sordini_sent_bytes_total",
        "Bytes sent to clients, over all listeners.",
        lambda sources: sources.sockets.traffic[1],
    ),
    gauge(
        "sordini_request_memory_bytes",
        "Bytes of requests that have arrived in part (bounded by queued.max.request.bytes).",
        lambda sources: sources.sockets.memory.held_bytes,
    ),
    counter(
        "sordini_request_memory_closed_connections_total",
        "Connections closed because queued.max.request.bytes was reached and they progressed least.",
        lambda sources: sources.sockets.memory.connections_shed,
    ),
    gauge(
        "sordini_group_memory_bytes",
        "Memory of the members and offsets of all groups here (bounded by sordini.group.memory.bytes.max).",
        lambda sources: sources.parts.groups.memory.held_bytes,
    ),
    gauge(
        "sordini_deferred_partitions",
        "Partitions whose log is not created yet, for lack of a file descriptor or of disk space.",
        lambda sources: len(sources.parts.receiver.deferred),
    ),
    counter("sordini_requests_total", "Requests that were read, by API and version.", _requests, "api", "version"),
    counter(
        "sordini_request_errors_total",
        "Requests that failed as a whole; errors of single partitions are in their answers and not counted here.",
        _errors,
        "api",
        "version",
    ),
    MetricFamily(
        "sordini_request_duration_seconds",
        MetricKind.HISTOGRAM,
        "Time from a request's arrival at the dispatcher to its answer, waiting included (acks, long polls).",
        ("api",),
        _durations,
    ),
    gauge(
        "sordini_fetch_sessions",
        "Incremental fetch sessions that are kept (bounded by max.incremental.fetch.session.cache.slots).",
        lambda sources: len(sources.parts.fetch_sessions),
    ),
    gauge(
        "sordini_fetch_session_partitions",
        "Partitions of all fetch sessions together (bounded by sordini.fetch.session.partitions.max).",
        lambda sources: sources.parts.fetch_sessions.partitions,
    ),
    gauge(
        "sordini_loop_lag_seconds",
        "How much later than scheduled the event loop's last beat ran: the delay of every request before it is read.",
        lambda sources: sources.watchdog.lag_ms / 1000,
    ),
    gauge(
        "sordini_loop_lag_max_seconds",
        "The latest beat of the last 30 to 60 seconds.",
        lambda sources: sources.watchdog.lag_ms_worst / 1000,
    ),
    counter(
        "sordini_loop_lag_seconds_total",
        "The lag of all checks together; divided by sordini_loop_checks_total it is the mean.",
        lambda sources: sources.watchdog.lag_ms_total / 1000,
    ),
    counter(
        "sordini_loop_checks_total",
        "Checks of the event loop by its watchdog, ten a second when nothing is late.",
        lambda sources: sources.watchdog.checks,
    ),
    counter(
        "sordini_loop_stalls_total",
        "Times that one callback held the loop for longer than sordini.stall.threshold.ms.",
        lambda sources: sources.watchdog.stalls,
    ),
    gauge(
        "sordini_clock_difference_seconds",
        "By how much another broker's clock is ahead of this one's, as of their registrations; negative: behind.",
        _clocks,
        "broker",
    ),
    counter(
        "sordini_log_lines_dropped_total",
        "Log lines that were dropped: their reader did not keep up, or the disk was full.",
        lambda sources: sources.lines_lost(),
    ),
)
