"""Validation of topic names and partition numbers.

A topic's name becomes the name of a directory, of a znode, and a word in a line of a checkpoint. So there is one rule,
which is checked twice: where a name is received, and where a path is made of it.
"""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249
PARTITION_MAX: Final = 2**31 - 1
"""The largest number on the wire."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """Why a topic name is invalid; None for a valid one."""
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return "'.' and '..' are directories"
    if len(name) > NAME_LENGTH_MAX:
        return f"it is longer than {NAME_LENGTH_MAX} characters"
    if _NAME.fullmatch(name) is None:
        return "only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


def partition_error(name: str, partition: int) -> str | None:
    """Why a partition number or topic name is invalid; None when both are valid."""
    if not 0 <= partition <= PARTITION_MAX:
        return f"a partition's number is 0 to {PARTITION_MAX}"
    return topic_name_error(name)
