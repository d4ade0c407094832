"""The `SpanExporter` of a broker: one child process (`child.py`), which ends after some idle time.

Protobuf and HTTP are the child's, so that neither costs the loop time, nor a collector that hangs a thread. Headers are
read from their file for each export: credentials may be replaced while the broker runs.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

from sordini.broker.configuration.properties_file import decode_properties, read_properties
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.metrics.tracing.spans import Span
from sordini.storage.disk import Disk
from sordini.system.child_processes import IDLE_S, ChildFailed, Children

EXPORTER: Final = (sys.executable, "-m", "sordini.broker.metrics.tracing.child")
NICENESS: Final = 5
"""No client waits for it."""
TIMEOUT_S: Final = 10.0
"""For one export, with the attempts of the exporter: OpenTelemetry's default."""
PATIENCE_S: Final = 30.0
"""A child that has not answered by then hangs; with its start on a busy machine."""
ANSWER_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 32
PACKAGE: Final = "opentelemetry.exporter.otlp.proto.http"
TRACES_PATH: Final = "/v1/traces"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")


class SpanExporterProcess:
    """Exports spans beside the broker, by OTLP over HTTP."""

    def __init__(
        self,
        endpoint: str,
        headers_file: str,
        disk: Disk,
        command: Sequence[str] = EXPORTER,
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`headers_file` is empty where no headers are sent."""
        self._endpoint = traces_url(endpoint)
        self._headers_file = headers_file
        self._disk = disk
        self._children = Children(command, IDLE_S, NICENESS)
        self._timeout_s = timeout_s
        self._patience_s = patience_s

    async def check(self) -> None:
        """Raise ConfigError when the package is not installed, or the headers cannot be read."""
        if not _is_available():
            raise ConfigError(
                f"sordini.tracing.endpoint={self._endpoint} needs the package opentelemetry-exporter-otlp-proto-http, "
                "which the extra sordini[tracing] installs (docs/monitoring.md)"
            )
        await self._headers()

    async def export(self, resource: Mapping[str, str], spans: Sequence[Span]) -> str | None:
        try:
            headers = await self._headers()
            child = await self._children.take()
        except ConfigError as error:
            return str(error)
        except OSError as error:
            return f"no process could be started: {error}"
        about = {
            "endpoint": self._endpoint,
            "headers": headers,
            "timeout_s": self._timeout_s,
            "resource": dict(resource),
            "spans": [span.as_json() for span in spans],
        }
        try:
            async with asyncio.timeout(self._patience_s):
                answer, _ = await child.exchange(about, b"", ANSWER_BYTES_MAX)
            failure = answer["failure"]
        except TimeoutError:
            await self._children.lose(child)
            return f"the exporting process did not answer for {self._patience_s:g} s"
        except (ChildFailed, KeyError, TypeError) as error:
            await self._children.lose(child)
            return f"the exporting process failed: {error}"
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        self._children.give_back(child)
        return None if failure is None else str(failure)

    async def close(self) -> None:
        """End the child, and wait until the system has reaped it. No `export` may be in progress."""
        await self._children.close()

    async def _headers(self) -> dict[str, str]:
        """Raises ConfigError, whose text shows no value."""
        if not self._headers_file:
            return {}
        try:
            data = await self._disk.offload(lambda: self._disk.read(self._headers_file))
            return read_headers(data)
        except (OSError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"sordini.tracing.headers.file={self._headers_file}: {reason}") from None


def traces_url(endpoint: str) -> str:
    """The URL that spans are posted to: as configured, with OTLP's path where that has none."""
    scheme, _, rest = endpoint.partition("://")
    host, slash, path = rest.partition("/")
    return endpoint if slash and path else f"{scheme}://{host}{TRACES_PATH}"


def read_headers(data: bytes) -> dict[str, str]:
    """HTTP headers from a properties file. Raises ConfigError, whose text shows no value."""
    headers = read_properties(decode_properties(data))
    if len(headers) > HEADERS_MAX:
        raise ConfigError(f"more than {HEADERS_MAX} headers")
    for number, (name, value) in enumerate(headers.items(), 1):
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(f"header {number} is not one of HTTP; a line is name=value")
    return headers


def _is_available() -> bool:
    try:
        return find_spec(PACKAGE) is not None
    except ModuleNotFoundError:
        return False
