"""The port to the process that exports spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sordini.broker.metrics.tracing.spans import Span


class SpanExporter(Protocol):
    """Exports spans, some at a time."""

    async def check(self) -> None:
        """Raise ConfigError when spans cannot be exported with this configuration."""

    async def export(self, resource: Mapping[str, str], spans: Sequence[Span]) -> str | None:
        """Export spans with their children, in bounded time; returns why that failed, or None.

        `resource` describes the broker.
        """

    async def close(self) -> None:
        """End the process. No `export` may be in progress."""
