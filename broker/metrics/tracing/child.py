"""The child process that exports spans: some spans in, one answer out, until its input ends.

    to it      JSON size int32 | 0 int32 | {"endpoint": ..., "headers": {...}, "timeout_s": ..., "resource": {...},
                                            "spans": [...]}
    from it    the same: {"failure": null}, or why they were not exported

Each request is a trace of its own: Kafka's protocol carries no context of a client's trace. OpenTelemetry's own
exporter encodes, compresses and sends, and repeats what the collector asks to be repeated, within the time given.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from sordini.system.child_requests import serve_requests

SCOPE: Final = InstrumentationScope("sordini")
REASONS_MAX: Final = 2
"""Of the exporter's log lines, which are all that it says of a failure."""
REASON_CHARACTERS_MAX: Final = 500
IDS: Final = RandomIdGenerator()


class LastLines(logging.Handler):
    """The newest lines of the exporter's log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=REASONS_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage()[:REASON_CHARACTERS_MAX])


class Exporting:
    """The exporter for one endpoint with its headers, made again when these change."""

    def __init__(self, reasons: LastLines) -> None:
        self._reasons = reasons
        self._made_for: object = None
        self._exporter: OTLPSpanExporter | None = None

    def answer(self, about: dict[str, Any]) -> dict[str, Any]:
        """Export the spans of one request of the broker."""
        self._reasons.lines.clear()
        resource = Resource.create(about["resource"])
        spans = [span for tree in about["spans"] for span in made_spans(tree, resource)]
        if self._exporter_for(about).export(spans) is SpanExportResult.SUCCESS:
            return {"failure": None}
        return {"failure": "; ".join(self._reasons.lines) or "the exporter gave no reason"}

    def _exporter_for(self, about: dict[str, Any]) -> OTLPSpanExporter:
        wanted = about["endpoint"], about["headers"], about["timeout_s"]
        if self._exporter is None or self._made_for != wanted:
            endpoint, headers, timeout_s = self._made_for = wanted
            self._exporter = OTLPSpanExporter(
                endpoint=endpoint, headers=headers, timeout=timeout_s, compression=Compression.Gzip
            )
        return self._exporter


def made_spans(tree: Mapping[str, Any], resource: Resource) -> Iterator[ReadableSpan]:
    """A request's span and those of its steps, as one trace."""
    yield from _made(tree, resource, IDS.generate_trace_id(), None)


def _made(
    tree: Mapping[str, Any], resource: Resource, trace_id: int, parent: SpanContext | None
) -> Iterator[ReadableSpan]:
    context = SpanContext(trace_id, IDS.generate_span_id(), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    yield ReadableSpan(
        name=tree["name"],
        context=context,
        parent=parent,
        resource=resource,
        attributes=tree["attributes"],
        kind=SpanKind.SERVER if parent is None else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, tree["error"]) if tree["error"] else Status(),
        start_time=tree["began_ns"],
        end_time=tree["ended_ns"],
        instrumentation_scope=SCOPE,
    )
    for child in tree["children"]:
        yield from _made(child, resource, trace_id, context)


def main() -> None:
    reasons = LastLines()
    logging.basicConfig(handlers=[reasons], level=logging.WARNING)
    exporting = Exporting(reasons)
    serve_requests(lambda about, _data: (exporting.answer(about), b""))


if __name__ == "__main__":
    main()
