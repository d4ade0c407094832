"""Work for the slice scheduler that is done already. Pure."""

from __future__ import annotations

from typing import Any

from sordini.broker.requests.slice_scheduler import Work


def finished(message: Any) -> Work[Any]:
    """Work that returns a finished message."""
    yield 0
    return message


def no_result(_result: None) -> None:
    """For work that completes its response itself."""
