"""Metrics of the broker as a whole: its process, its network, its requests and its loop."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator

from sordini import __version__
from sordini.broker.metrics.families import Histogram, Kind, MetricFamily, MetricSources, Sample, single
from sordini.protocol.api import ALL_APIS


def _about(sources: MetricSources) -> Iterator[Sample]:
    del sources
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    yield (__version__, platform.python_version(), loop), 1


def _connections(sources: MetricSources) -> Iterator[Sample]:
    quotas = sources.sockets.quotas
    return (((name,), quotas.of_listener(name)) for name in list(sources.sockets.acceptors))


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


def _lag_max(sources: MetricSources) -> float:
    """Reading starts a new interval: the maximum since the start would hide all later ones."""
    lag_ms, sources.watchdog.lag_ms_max = sources.watchdog.lag_ms_max, 0
    return lag_ms / 1000


BROKER_FAMILIES = (
    MetricFamily(
        "sordini_build_info",
        Kind.GAUGE,
        "Always 1; the labels say which Sordini runs on which Python and event loop.",
        ("version", "python", "loop"),
        _about,
    ),
    MetricFamily(
        "sordini_uptime_seconds",
        Kind.GAUGE,
        "Time since the broker was ready.",
        (),
        single(lambda sources: sources.uptime_ms() / 1000),
    ),
    MetricFamily(
        "sordini_controller_active",
        Kind.GAUGE,
        "1 on the broker that is the cluster's controller, 0 on the others.",
        (),
        single(lambda sources: int(sources.controller.is_active)),
    ),
    MetricFamily(
        "sordini_store_silent_seconds",
        Kind.GAUGE,
        "For how long ZooKeeper has not answered, or has no registration of this broker; 0 while all is well.",
        (),
        single(lambda sources: sources.contact.silent_ms / 1000),
    ),
    MetricFamily(
        "sordini_coordination_store_lost",
        Kind.GAUGE,
        "1 while the coordination store does not have this cluster's tree: the broker serves on, and is registered "
        "again once it is restored.",
        (),
        single(lambda sources: int(bool(sources.contact.lost_tree))),
    ),
    MetricFamily("sordini_connections", Kind.GAUGE, "Connections that are open now.", ("listener",), _connections),
    MetricFamily(
        "sordini_connections_accepted_total",
        Kind.COUNTER,
        "Connections taken in, those that have closed included.",
        ("listener",),
        _accepted,
    ),
    MetricFamily(
        "sordini_connections_refused_total",
        Kind.COUNTER,
        "Connections closed at once because their address had too many (max.connections.per.ip).",
        ("listener",),
        _refused,
    ),
    MetricFamily(
        "sordini_connections_throttled_total",
        Kind.COUNTER,
        "Connections closed because their address connected faster than its quota (connection_creation_rate).",
        (),
        single(_throttled_connections),
    ),
    MetricFamily(
        "sordini_client_responses_throttled_total",
        Kind.COUNTER,
        "Responses after which a client above its quota was muted.",
        (),
        single(lambda sources: sources.parts.quotas.throttled.responses),
    ),
    MetricFamily(
        "sordini_client_throttle_seconds_total",
        Kind.COUNTER,
        "Time for which connections of clients above their quotas were muted.",
        (),
        single(lambda sources: sources.parts.quotas.throttled.milliseconds / 1000),
    ),
    MetricFamily(
        "sordini_tls_certificate_expiry_timestamp_seconds",
        Kind.GAUGE,
        "Unix time at which the certificate of a TLS listener expires.",
        ("listener",),
        _certificates,
    ),
    MetricFamily(
        "sordini_tls_handshakes_total",
        Kind.COUNTER,
        "TLS handshakes of accepted connections that have ended, by their result.",
        ("result",),
        _handshakes,
    ),
    MetricFamily(
        "sordini_logins_failed_total",
        Kind.COUNTER,
        "Logins that were refused: by SASL, and by TLS handshakes.",
        ("listener",),
        _failed_logins,
    ),
    MetricFamily(
        "sordini_denials_total",
        Kind.COUNTER,
        "Operations on one resource that the authorizer has denied to a client.",
        (),
        single(_denials),
    ),
    MetricFamily(
        "sordini_audit_lines_dropped_total",
        Kind.COUNTER,
        "Lines of the audit log that were too many at once, or could not be written.",
        (),
        single(lambda sources: sources.parts.security.audit.lines_dropped),
    ),
    MetricFamily(
        "sordini_received_bytes_total",
        Kind.COUNTER,
        "Bytes received from clients, over all listeners.",
        (),
        single(lambda sources: sources.sockets.traffic[0]),
    ),
    MetricFamily(
        "sordini_sent_bytes_total",
        Kind.COUNTER,
        "Bytes sent to clients, over all listeners.",
        (),
        single(lambda sources: sources.sockets.traffic[1]),
    ),
    MetricFamily(
        "sordini_request_memory_bytes",
        Kind.GAUGE,
        "Bytes of requests that have arrived in part (bounded by queued.max.request.bytes).",
        (),
        single(lambda sources: sources.sockets.memory.held_bytes),
    ),
    MetricFamily(
        "sordini_request_memory_closed_connections_total",
        Kind.COUNTER,
        "Connections closed because queued.max.request.bytes was reached and they progressed least.",
        (),
        single(lambda sources: sources.sockets.memory.connections_shed),
    ),
    MetricFamily(
        "sordini_group_memory_bytes",
        Kind.GAUGE,
        "Memory of the members and offsets of all groups here (bounded by sordini.group.memory.bytes.max).",
        (),
        single(lambda sources: sources.parts.groups.memory.held_bytes),
    ),
    MetricFamily(
        "sordini_put_off_partitions",
        Kind.GAUGE,
        "Partitions whose log could not be made yet, for want of a descriptor or of room on the disk.",
        (),
        single(lambda sources: len(sources.parts.receiver.deferred)),
    ),
    MetricFamily(
        "sordini_requests_total",
        Kind.COUNTER,
        "Requests that were read, by API and version.",
        ("api", "version"),
        _requests,
    ),
    MetricFamily(
        "sordini_request_errors_total",
        Kind.COUNTER,
        "Requests that failed as a whole; errors of single partitions are in their answers and not counted here.",
        ("api", "version"),
        _errors,
    ),
    MetricFamily(
        "sordini_request_duration_seconds",
        Kind.HISTOGRAM,
        "Time from a request's arrival at the dispatcher to its answer, waiting included (acks, long polls).",
        ("api",),
        _durations,
    ),
    MetricFamily(
        "sordini_fetch_sessions",
        Kind.GAUGE,
        "Incremental fetch sessions that are kept (bounded by max.incremental.fetch.session.cache.slots).",
        (),
        single(lambda sources: len(sources.parts.fetch_sessions)),
    ),
    MetricFamily(
        "sordini_fetch_session_partitions",
        Kind.GAUGE,
        "Partitions of all fetch sessions together (bounded by sordini.fetch.session.partitions.max).",
        (),
        single(lambda sources: sources.parts.fetch_sessions.partitions),
    ),
    MetricFamily(
        "sordini_loop_lag_seconds",
        Kind.GAUGE,
        "How much later than scheduled the event loop's last beat ran: the delay of every request before it is read.",
        (),
        single(lambda sources: sources.watchdog.lag_ms / 1000),
    ),
    MetricFamily(
        "sordini_loop_lag_max_seconds",
        Kind.GAUGE,
        "The latest beat since the last scrape.",
        (),
        single(_lag_max),
    ),
    MetricFamily(
        "sordini_loop_lag_seconds_total",
        Kind.COUNTER,
        "The lag of all beats together; divided by sordini_loop_beats_total it is the mean.",
        (),
        single(lambda sources: sources.watchdog.lag_ms_total / 1000),
    ),
    MetricFamily(
        "sordini_loop_beats_total",
        Kind.COUNTER,
        "Beats of the event loop's watchdog, ten a second when nothing is late.",
        (),
        single(lambda sources: sources.watchdog.beats),
    ),
    MetricFamily(
        "sordini_loop_stalls_total",
        Kind.COUNTER,
        "Times that one callback held the loop for longer than sordini.stall.threshold.ms.",
        (),
        single(lambda sources: sources.watchdog.stalls),
    ),
    MetricFamily(
        "sordini_clock_difference_seconds",
        Kind.GAUGE,
        "By how much another broker's clock is ahead of this one's, as of their registrations; negative: behind.",
        ("broker",),
        _clocks,
    ),
    MetricFamily(
        "sordini_log_lines_lost_total",
        Kind.COUNTER,
        "Log lines that were dropped: their reader did not keep up, or the disk was full.",
        (),
        single(lambda sources: sources.lines_lost()),
    ),
)
