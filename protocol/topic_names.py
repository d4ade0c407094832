"""Which names a topic may bear, and which numbers a partition.

A topic's name becomes the name of a directory, of a node in the coordination store, and a word in a line of a
checkpoint. So the rule is one, and it is checked twice: where a name comes in, and where a path is made of it.
"""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249
PARTITION_MAX: Final = 2**31 - 1
"""The largest number that the wire can carry."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def why_no_topic(name: str) -> str | None:
    """Why no topic may bear this name; None when one may."""
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return "'.' and '..' are directories"
    if len(name) > NAME_LENGTH_MAX:
        return f"it is longer than {NAME_LENGTH_MAX} characters"
    if _NAME.fullmatch(name) is None:
        return "only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


def why_no_partition(name: str, partition: int) -> str | None:
    """Why there can be no partition of this number of a topic of this name; None when there can."""
    if not 0 <= partition <= PARTITION_MAX:
        return f"a partition's number is 0 to {PARTITION_MAX}"
    return why_no_topic(name)
