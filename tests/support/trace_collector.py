"""A receiver of OTLP over HTTP, as a collector is one: it keeps the spans that brokers export, or misbehaves."""

from __future__ import annotations

import gzip
import threading
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.polling import eventually


class Manner(Enum):
    """How requests are answered."""

    KEEP = "with 200, and their spans are kept"
    REFUSE = "with 403"
    HANG = "not at all"


class ReceivedSpan(NamedTuple):
    """A span as it came, with the attributes of its resource."""

    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    is_error: bool
    is_server: bool


class TraceCollector:
    """An HTTP server on loopback."""

    def __init__(self) -> None:
        self.manner = Manner.KEEP
        self.spans: list[ReceivedSpan] = []
        self.headers: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self._released = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.received(self)

            def log_message(self, *_words: Any) -> None:
                """Nothing: tests read what was received."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def received(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.add(request.path)
        if self.manner is Manner.HANG:
            self._released.wait()
            return
        if self.manner is Manner.REFUSE:
            request.send_response(403)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.spans += _spans(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        request.send_response(200)
        request.send_header("Content-Type", "application/x-protobuf")
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)

    def trace(self, name: str, **attributes: Any) -> list[ReceivedSpan]:
        """The first trace whose root has this name and these attributes (`_` for `.`), as soon as it is there: its root
        and the root's children in order."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}

        def found() -> list[ReceivedSpan] | None:
            for root in list(self.spans):
                if root.name == name and not root.parent_id and wanted.items() <= root.attributes.items():
                    below = [span for span in list(self.spans) if span.parent_id == root.span_id]
                    return [root, *sorted(below, key=lambda span: span.began_ns)]
            return None

        return eventually(found, f"a trace of {name} {wanted}; there are {sorted({one.name for one in self.spans})}")


def _spans(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            span.name,
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            _attributes(of_one.resource.attributes),
            span.status.code == Status.STATUS_CODE_ERROR,
            span.kind == ProtoSpan.SPAN_KIND_SERVER,
        )
        for of_one in request.resource_spans
        for scope in of_one.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)
