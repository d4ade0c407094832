"""The Python calls of a connection's slices of work, from the readable socket to the sent answer."""

from __future__ import annotations

from types import FrameType
from typing import Any

from sordini.broker.network.channel import Channel

SLICE = Channel._on_readable.__code__


class SliceCalls:
    """A profile hook that lists the calls of Python functions inside of each slice of a connection."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._is_inside = False

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if frame.f_code is SLICE and event in ("call", "return"):
            self._is_inside = event == "call"
        if self._is_inside and event == "call":
            self.calls.append(frame.f_code.co_qualname)
