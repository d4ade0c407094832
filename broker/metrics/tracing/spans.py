"""A slow request as spans: one for the request, and below it one for each of its steps. Pure.

    PRODUCE v13                 ├───────────────────────────────────────────────┤
      handle                    ├──────┤
      wait for followers               ├────────────────────────────────────────┤

The steps of a request follow each other without a gap, from its first nanosecond to its last. Names of attributes are
those of OpenTelemetry's semantic conventions where they have one, and begin with `sordini.` otherwise. Text and lists
from the wire are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sordini.broker.metrics.tracing.message_rows import (
    TEXT_MAX,
    NameOf,
    Row,
    produce_acks,
    request_message,
    response_message,
    rows_of,
)
from sordini.broker.metrics.tracing.slow_request import MILLISECOND, SlowRequest
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import RequestHeader, read_request_header
from sordini.protocol.served_apis import ALL_APIS
from sordini.system.named_tuple import NamedTuple

LISTED_MAX: Final = 20
"""Partitions, and errors, that one span lists."""

Attribute = str | int | float | bool | list[str]


class Span(NamedTuple):
    """A span, without the ids that it gets when it is exported. Times are in nanoseconds since 1970."""

    name: str
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, Attribute] = {}
    error: str = ""
    """Why it failed; empty for one that did not."""
    children: Sequence[Span] = ()

    def as_json(self) -> dict[str, Any]:
        """A form that `json` writes."""
        return {
            "name": self.name,
            "began_ns": self.began_ns,
            "ended_ns": self.ended_ns,
            "attributes": dict(self.attributes),
            "error": self.error,
            "children": [child.as_json() for child in self.children],
        }


class _Messages(NamedTuple):
    """What could be read of a request and its response."""

    header: RequestHeader
    request: Any
    response: Any
    acks: int | None


def span_of(slow: SlowRequest, name_of: NameOf) -> Span | None:
    """The spans of a slow request; None when its frame has no header, and is no request then."""
    try:
        header, position = read_request_header(memoryview(slow.head))
    except WireError:
        return None
    api, version = ALL_APIS[header.api_key], header.api_version
    if version > api.max_version:  # ApiVersions of a client that is newer: answered in version 0.
        found = _Messages(header, None, response_message(api, 0, slow.answer), None)
    else:
        is_produce = api.key is ApiKey.PRODUCE
        found = _Messages(
            header,
            request_message(api, version, slow.head, position),
            response_message(api, version, slow.answer),
            produce_acks(version, slow.head, position) if is_produce else None,
        )
    rows = rows_of(found.response, name_of) or rows_of(found.request, name_of)
    errors = _errors(found.response, rows)
    return Span(
        f"{api.key.name} v{version}",
        slow.times.began_ns,
        slow.times.began_ns + slow.times.duration_ns,
        {**_of_client(slow, header), **_of_request(slow, found, rows, errors)},
        errors[0] if errors else "",
        _steps(slow, api.key, found.acks),
    )


def _of_client(slow: SlowRequest, header: RequestHeader) -> dict[str, Attribute]:
    origin = slow.origin
    software: dict[str, Attribute] = {"sordini.client.software": origin.software[:TEXT_MAX]} if origin.software else {}
    return software | {
        "messaging.system": "kafka",
        "messaging.client.id": (header.client_id or "")[:TEXT_MAX],
        "client.address": origin.address,
        "client.port": origin.port,
        "sordini.connection": origin.connection_id,
        "sordini.listener": origin.listener,
        "sordini.principal": origin.principal[:TEXT_MAX],
    }


def _of_request(slow: SlowRequest, found: _Messages, rows: list[Row], errors: list[str]) -> dict[str, Attribute]:
    header = found.header
    attributes: dict[str, Attribute] = {
        "sordini.api": ApiKey(header.api_key).name,
        "sordini.api.version": header.api_version,
        "sordini.correlation.id": header.correlation_id,
        "sordini.request.bytes": slow.request_bytes,
        "sordini.response.bytes": slow.answer_bytes,
    }
    if rows:
        attributes["sordini.partitions"] = [str(row) for row in rows[:LISTED_MAX]]
        attributes["sordini.partitions.count"] = len(rows)
    if errors:
        attributes["sordini.errors"] = errors[:LISTED_MAX]
    if found.acks is not None:
        attributes["sordini.produce.acks"] = found.acks
    throttle_ms = getattr(found.response, "throttle_time_ms", 0)
    if throttle_ms:
        attributes["sordini.throttle.ms"] = throttle_ms
    group = getattr(found.request, "group_id", None)
    if group:
        attributes["messaging.consumer.group.name"] = str(group)[:TEXT_MAX]
    return attributes


def _errors(response: Any, rows: list[Row]) -> list[str]:
    """The error codes of a response by name, each with what it is of; first that of the whole request."""
    whole = getattr(response, "error_code", 0)
    found = [_code_name(whole)] if whole else []
    return found + [f"{_code_name(row.error_code)} {row}" for row in rows if row.error_code]


def _code_name(code: int) -> str:
    known = ErrorCode._value2member_map_.get(code)
    return f"error {code}" if known is None else str(known.name)


def _steps(slow: SlowRequest, key: ApiKey, acks: int | None) -> tuple[Span, ...]:
    times = slow.times
    handled_ns = times.began_ns + times.handled_ns
    handle = Span("handle", times.began_ns, handled_ns)
    if not times.waited_ns:
        return (handle,)
    attributes: dict[str, Attribute] = {}
    if times.sliced_ns:
        attributes["sordini.slices.ms"] = round(times.sliced_ns / MILLISECOND, 3)
    name = _wait_name(key, acks, was_blocking=slow.was_blocking)
    return handle, Span(name, handled_ns, handled_ns + times.waited_ns, attributes)


def _wait_name(key: ApiKey, acks: int | None, *, was_blocking: bool) -> str:
    """What a delayed response waits for."""
    if key is ApiKey.PRODUCE:
        if was_blocking:  # Records that take long are validated by a child process, or a transaction is verified.
            return "validate, append and wait for followers" if acks == -1 else "validate and append"
        return "wait for followers" if acks == -1 else "wait for the disk"
    return _WAIT_NAMES.get(key, "wait")


_WAIT_NAMES: Final = {
    ApiKey.FETCH: "wait in purgatory",
    ApiKey.JOIN_GROUP: "wait for members",
    ApiKey.SYNC_GROUP: "wait for the assignment",
}
