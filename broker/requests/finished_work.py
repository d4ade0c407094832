"""Work for the slice scheduler that is done already, or may be. Pure."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from sordini.broker.requests.slice_scheduler import Work


def finished(message: Any) -> Work[Any]:
    """Work that returns a finished message."""
    yield 0
    return message


def handled(handle: Callable[[Any], Any], call: Any) -> Work[Any]:
    """Work that returns what a handler returns, in steps or at once; what it raises, the work raises."""
    answer = handle(call)
    return (yield from answer) if type(answer) is GeneratorType else answer


def no_result(_result: None) -> None:
    """For work that completes its response itself."""
