"""Metrics of the broker as a whole: its process, its network, its requests and its loop."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator

from sordini import __version__
from sordini.broker.metrics.families import Durations, Family, Kind, Row, Sources, one
from sordini.protocol.api import APIS


def _about(sources: Sources) -> Iterator[Row]:
    del sources
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    yield (__version__, platform.python_version(), loop), 1


def _connections(sources: Sources) -> Iterator[Row]:
    counts = sources.sockets.counts
    return (((name,), counts.of_listener(name)) for name in list(sources.sockets.acceptors))


def _accepted(sources: Sources) -> Iterator[Row]:
    return (((name,), acceptor.accepted) for name, acceptor in list(sources.sockets.acceptors.items()))


def _refused(sources: Sources) -> Iterator[Row]:
    return (((name,), acceptor.refused) for name, acceptor in list(sources.sockets.acceptors.items()))


def _requests(sources: Sources) -> Iterator[Row]:
    lanes = list(sources.parts.dispatcher.lanes)
    return (((lane.api.key.name, str(lane.version)), lane.requests) for lane in lanes)


def _errors(sources: Sources) -> Iterator[Row]:
    lanes = list(sources.parts.dispatcher.lanes)
    return (((lane.api.key.name, str(lane.version)), lane.errors) for lane in lanes)


def _durations(sources: Sources) -> Iterator[Row]:
    latencies = sources.latencies
    for key, api in APIS.items():
        if any(latencies.counts[key]):
            # A copy: rendering may pause, and buckets and their sum must be of one moment.
            yield (api.key.name,), Durations(list(latencies.counts[key]), latencies.nanoseconds[key])


def _clocks(sources: Sources) -> Iterator[Row]:
    return (((str(broker),), ms / 1000) for broker, ms in sources.clocks.differences_ms.items())


def _lag_max(sources: Sources) -> float:
    """Reading starts a new interval: the worst since the start would hide all that follows."""
    lag_ms, sources.watchdog.lag_ms_max = sources.watchdog.lag_ms_max, 0
    return lag_ms / 1000


BROKER_FAMILIES = (
    Family(
        "sordini_build_info",
        Kind.GAUGE,
        "Always 1; the labels say which Sordini runs on which Python and event loop.",
        ("version", "python", "loop"),
        _about,
    ),
    Family(
        "sordini_uptime_seconds",
        Kind.GAUGE,
        "Time since the broker was ready.",
        (),
        one(lambda sources: sources.uptime_ms() / 1000),
    ),
    Family(
        "sordini_controller_active",
        Kind.GAUGE,
        "1 on the broker that is the cluster's controller, 0 on the others.",
        (),
        one(lambda sources: int(sources.controller.is_active)),
    ),
    Family(
        "sordini_store_silent_seconds",
        Kind.GAUGE,
        "For how long ZooKeeper has not answered, or has no registration of this broker; 0 while all is well.",
        (),
        one(lambda sources: sources.contact.silent_ms / 1000),
    ),
    Family(
        "sordini_coordination_store_lost",
        Kind.GAUGE,
        "1 while the coordination store does not have this cluster's tree: the broker serves on, and is registered "
        "again once it is restored.",
        (),
        one(lambda sources: int(bool(sources.contact.lost_tree))),
    ),
    Family("sordini_connections", Kind.GAUGE, "Connections that are open now.", ("listener",), _connections),
    Family(
        "sordini_connections_accepted_total",
        Kind.COUNTER,
        "Connections taken in, those that have closed included.",
        ("listener",),
        _accepted,
    ),
    Family(
        "sordini_connections_refused_total",
        Kind.COUNTER,
        "Connections closed at once because their address had too many (max.connections.per.ip).",
        ("listener",),
        _refused,
    ),
    Family(
        "sordini_received_bytes_total",
        Kind.COUNTER,
        "Bytes received from clients, over all listeners.",
        (),
        one(lambda sources: sources.sockets.traffic[0]),
    ),
    Family(
        "sordini_sent_bytes_total",
        Kind.COUNTER,
        "Bytes sent to clients, over all listeners.",
        (),
        one(lambda sources: sources.sockets.traffic[1]),
    ),
    Family(
        "sordini_request_memory_bytes",
        Kind.GAUGE,
        "Bytes of requests that have arrived in part (bounded by queued.max.request.bytes).",
        (),
        one(lambda sources: sources.sockets.memory.held_bytes),
    ),
    Family(
        "sordini_request_memory_closed_connections_total",
        Kind.COUNTER,
        "Connections closed because queued.max.request.bytes was reached and they progressed least.",
        (),
        one(lambda sources: sources.sockets.memory.connections_shed),
    ),
    Family(
        "sordini_group_memory_bytes",
        Kind.GAUGE,
        "Memory of the members and offsets of all groups here (bounded by sordini.group.memory.bytes.max).",
        (),
        one(lambda sources: sources.parts.groups.memory.held_bytes),
    ),
    Family(
        "sordini_put_off_partitions",
        Kind.GAUGE,
        "Partitions whose log could not be made yet, for want of a descriptor or of room on the disk.",
        (),
        one(lambda sources: len(sources.parts.receiver.deferred)),
    ),
    Family(
        "sordini_requests_total",
        Kind.COUNTER,
        "Requests that were read, by API and version.",
        ("api", "version"),
        _requests,
    ),
    Family(
        "sordini_request_errors_total",
        Kind.COUNTER,
        "Requests that failed as a whole; errors of single partitions are in their answers and not counted here.",
        ("api", "version"),
        _errors,
    ),
    Family(
        "sordini_request_duration_seconds",
        Kind.HISTOGRAM,
        "Time from a request's arrival at the dispatcher to its answer, waiting included (acks, long polls).",
        ("api",),
        _durations,
    ),
    Family(
        "sordini_fetch_sessions",
        Kind.GAUGE,
        "Incremental fetch sessions that are kept (bounded by max.incremental.fetch.session.cache.slots).",
        (),
        one(lambda sources: len(sources.parts.fetch_sessions)),
    ),
    Family(
        "sordini_fetch_session_partitions",
        Kind.GAUGE,
        "Partitions of all fetch sessions together (bounded by sordini.fetch.session.partitions.max).",
        (),
        one(lambda sources: sources.parts.fetch_sessions.partitions),
    ),
    Family(
        "sordini_loop_lag_seconds",
        Kind.GAUGE,
        "How much later than asked the event loop's last beat came: what every request waits before it is looked at.",
        (),
        one(lambda sources: sources.watchdog.lag_ms / 1000),
    ),
    Family(
        "sordini_loop_lag_max_seconds",
        Kind.GAUGE,
        "The latest beat since the last scrape.",
        (),
        one(_lag_max),
    ),
    Family(
        "sordini_loop_lag_seconds_total",
        Kind.COUNTER,
        "The lag of all beats together; divided by sordini_loop_beats_total it is the mean.",
        (),
        one(lambda sources: sources.watchdog.lag_ms_total / 1000),
    ),
    Family(
        "sordini_loop_beats_total",
        Kind.COUNTER,
        "Beats of the event loop's watchdog, ten a second when nothing is late.",
        (),
        one(lambda sources: sources.watchdog.beats),
    ),
    Family(
        "sordini_loop_stalls_total",
        Kind.COUNTER,
        "Times that one callback held the loop for longer than sordini.stall.threshold.ms.",
        (),
        one(lambda sources: sources.watchdog.stalls),
    ),
    Family(
        "sordini_clock_difference_seconds",
        Kind.GAUGE,
        "By how much another broker's clock is ahead of this one's, as of their registrations; negative: behind.",
        ("broker",),
        _clocks,
    ),
    Family(
        "sordini_log_lines_lost_total",
        Kind.COUNTER,
        "Log lines that were dropped: their reader did not keep up, or the disk was full.",
        (),
        one(lambda sources: sources.lines_lost()),
    ),
)
