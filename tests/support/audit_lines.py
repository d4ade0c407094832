"""Where the lines of a broker's audit log go in tests."""

from __future__ import annotations

import json
from typing import Any


class AuditLines:
    """An `AuditOutput` in memory."""

    def __init__(self) -> None:
        self.text = ""
        self.lines_lost = 0

    def write(self, text: str, /) -> int:
        self.text += text
        return len(text)

    def all(self) -> list[dict[str, Any]]:
        """Every line so far."""
        return [json.loads(line) for line in self.text.splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        """Those of one event."""
        return [line for line in self.all() if line["event"] == event]

    def clear(self) -> None:
        self.text = ""
