"""How a line of the audit log looks: one JSON object. Pure.

    {"time": "2026-11-25T22:02:46.120Z", "event": "denied", "broker": 1, "principal": "User:alice", ...}

The fields stand in the order of docs/security.md. Text of a peer is truncated and escaped: JSON has no line break
within a string, and what is not ASCII is written as `\\uXXXX`, so that no peer forges a line or controls a terminal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

TEXT_CHARACTERS_MAX: Final = 256
"""Of one string."""
TRUNCATED: Final = "..."


class AuditEvent(StrEnum):
    """What a line is about."""

    LOGIN_FAILED = "login failed"
    LOGIN = "login"
    DENIED = "denied"
    CHANGE = "change"
    DROPPED = "lines dropped"


def audit_line(time: str, broker_id: int, event: AuditEvent, fields: Mapping[str, Any]) -> str:
    """One line, its newline included; the time is in UTC, as ISO 8601."""
    shown = {"time": time, "event": event.value, "broker": broker_id, **fields}
    return json.dumps(shown, ensure_ascii=True, separators=(", ", ": ")) + "\n"


def clipped(text: str) -> str:
    """Text of a peer, of TEXT_CHARACTERS_MAX characters at most and a mark that some are missing."""
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + TRUNCATED


def shown_id(data: bytes) -> str:
    """An id of 16 bytes as Apache Kafka's tools print it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
