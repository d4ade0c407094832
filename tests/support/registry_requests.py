"""Requests to a registry as transcripts have them: a method, an address and JSON, in which texts may have names.

`@name: {...}` names a text; `"@name"` in a later request is that text as JSON has it.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

NAMED = re.compile(r'"@(\w+)"')


class Request(NamedTuple):
    method: str
    target: str
    body: str | None


class Texts:
    """The names of texts, in the order of the lines."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def request(self, line: str) -> Request | None:
        """The request of a line; None if it names a text, or is a comment."""
        if line.startswith("@"):
            name, _, text = line[1:].partition(": ")
            self._texts[name] = text
            return None
        if not line or line.startswith("#"):
            return None
        method, target, *rest = line.split(" ", 2)
        body = NAMED.sub(lambda found: json.dumps(self._texts[found[1]]), rest[0]) if rest else None
        return Request(method, target, body)
