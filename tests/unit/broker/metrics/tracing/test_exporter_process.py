"""The process that exports spans: what it sends, and what becomes of one that dies, lies or hangs."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.metrics.tracing.exporter_process import (
    HEADERS_MAX,
    SpanExporterProcess,
    read_headers,
    traces_url,
)
from sordini.broker.metrics.tracing.spans import Span
from sordini.storage.disk import SystemDisk
from tests.support.trace_collector import Manner, TraceCollector

DIES = (sys.executable, "-c", "import sys; sys.exit(3)")
LIES = (
    sys.executable,
    "-c",
    "import os, struct, time; os.read(0, 10); os.write(1, struct.pack('>II', 2, 0) + b'[]'); time.sleep(60)",
)
HANGS = (sys.executable, "-c", "import time; time.sleep(600)")
RESOURCE = {"service.name": "sordini"}
CHILD = Span("handle", 5, 7)
ROOT = Span("FETCH v12", 5, 9, {"sordini.partitions": ["a-0"], "sordini.request.bytes": 5}, "", (CHILD,))


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with TraceCollector() as made:
        yield made


async def test_a_request_is_one_trace_and_two_requests_are_two(collector: TraceCollector) -> None:
    exporter = SpanExporterProcess(collector.url, "", SystemDisk())
    try:
        await exporter.check()
        assert await exporter.export(RESOURCE, [ROOT, ROOT._replace(error="it failed", children=())]) is None
    finally:
        await exporter.close()
    first, handle, second = collector.spans
    assert (first.name, first.began_ns, first.ended_ns) == (ROOT.name, 5, 9)
    assert (first.parent_id, handle.parent_id) == (b"", first.span_id)
    assert first.trace_id == handle.trace_id != second.trace_id
    assert (first.is_error, second.is_error, first.is_server, handle.is_server) == (False, True, True, False)
    assert first.attributes == {"sordini.partitions": ["a-0"], "sordini.request.bytes": 5}
    assert first.resource["service.name"] == "sordini"


async def test_a_collector_that_refuses_is_a_failure_with_its_status(collector: TraceCollector) -> None:
    collector.manner = Manner.REFUSE
    exporter = SpanExporterProcess(collector.url, "", SystemDisk())
    try:
        failure = await exporter.export(RESOURCE, [ROOT])
        assert failure is not None
        assert "403" in failure
    finally:
        await exporter.close()


async def test_a_collector_that_hangs_or_is_not_there_is_a_failure_in_bounded_time(collector: TraceCollector) -> None:
    collector.manner = Manner.HANG
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for url in (collector.url, f"http://127.0.0.1:{unused.getsockname()[1]}"):
            exporter = SpanExporterProcess(url, "", SystemDisk(), timeout_s=0.3)
            try:
                assert await exporter.export(RESOURCE, [ROOT])
            finally:
                await exporter.close()


@pytest.mark.parametrize(("command", "reason"), [(DIES, "status 3"), (LIES, "failed"), (HANGS, "did not answer")])
async def test_a_process_that_dies_lies_or_hangs_is_a_failure(command: tuple[str, ...], reason: str) -> None:
    exporter = SpanExporterProcess("http://127.0.0.1:1", "", SystemDisk(), command, patience_s=1.0)
    try:
        failure = await exporter.export(RESOURCE, [ROOT])
        assert failure is not None
        assert reason in failure
    finally:
        await exporter.close()


async def test_headers_are_read_again_for_each_export_and_a_lost_file_is_a_failure(
    collector: TraceCollector, tmp_path: Path
) -> None:
    file = tmp_path / "headers"
    exporter = SpanExporterProcess(collector.url, str(file), SystemDisk())
    try:
        with pytest.raises(ConfigError, match=r"sordini\.tracing\.headers\.file=.*No such file"):
            await exporter.check()
        for value in ("one", "two"):
            file.write_text(f"X-Key={value}\n")
            assert await exporter.export(RESOURCE, [ROOT]) is None
        file.unlink()
        failure = await exporter.export(RESOURCE, [ROOT])
        assert failure is not None
        assert "No such file" in failure
    finally:
        await exporter.close()
    assert [headers["x-key"] for headers in collector.headers] == ["one", "two"]


def test_headers_that_http_does_not_have_are_refused_without_their_values() -> None:
    assert read_headers(b"# a comment\nAuthorization=Bearer a=b\nX-Empty=\n") == {
        "Authorization": "Bearer a=b",
        "X-Empty": "",
    }
    for data in (b"two words=secret\n", b"=secret\n", "X=secret\u0001\n".encode(), "X=secret\u2603".encode(), b"\xff"):
        with pytest.raises(ConfigError) as refused:
            read_headers(data)
        assert "secret" not in str(refused.value)
    assert len(read_headers(b"".join(b"h%d=1\n" % number for number in range(HEADERS_MAX)))) == HEADERS_MAX
    with pytest.raises(ConfigError, match="more than"):
        read_headers(b"".join(b"h%d=1\n" % number for number in range(HEADERS_MAX + 1)))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example/", "https://otel.example/v1/traces"),
        ("https://otel.example/in/traces", "https://otel.example/in/traces"),
    ],
)
def test_the_path_of_otlp_is_appended_where_there_is_none(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url
