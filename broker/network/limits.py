"""Limits of one connection, one processor and the whole broker. Pure.

Where Apache Kafka has a key, the default is its default; -1 switches a limit off.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordini.system.named_tuple import NamedTuple

UNBOUNDED = 2**31 - 1


class ConnectionLimits(NamedTuple):
    """Limits of one connection."""

    frame_bytes_max: int = 104_857_600
    """socket.request.max.bytes"""
    idle_ms_max: int = 600_000
    """connections.max.idle.ms"""
    pending_max: int = 64
    pending_bytes_max: int = 16 * 1024 * 1024
    """At either, no further Produce starts behind pending ones."""
    slice_requests_max: int = 16
    slice_bytes_max: int = 1024 * 1024
    """At either, the slice of a connection ends."""
    queued_bytes_max: int = 1024 * 1024
    """Responses that the peer has not read: at this limit, its requests are neither read nor started."""
    stall_ms_max: int = 30_000
    """The connection is closed when no byte of a response could be sent for this long."""
    first_request_ms_max: int = -1
    """From accept to the end of the first request."""
    frame_bytes_per_s_min: int = -1
    """The least rate at which the rest of a frame must arrive."""


class NetworkLimits(NamedTuple):
    """Limits of the whole broker."""

    processors: int = 3
    """num.network.threads"""
    processor_connections_max: int = UNBOUNDED
    """sordini.processor.connections.max"""
    connections_max: int = UNBOUNDED
    """max.connections"""
    descriptors_max: int = UNBOUNDED
    """Descriptors reserved for connections, those of brokers included."""
    connections_by_listener: Mapping[str, int] = {}
    """listener.name.X.max.connections, by listener; no entry is no limit"""
    connections_per_address_max: int = UNBOUNDED
    """max.connections.per.ip"""
    connections_per_address_overrides: Mapping[str, int] = {}
    """max.connections.per.ip.overrides, by address"""
    request_memory_bytes_max: int = -1
    """queued.max.request.bytes"""
    tick_ms: int = 500
    """Interval at which idle, slow and stalled connections are closed."""
