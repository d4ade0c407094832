"""Whether the pattern of `patternProperties` matches a name, in time that a hostile pattern cannot choose. Pure.

A pattern runs only if it has no repetition inside another, no reference back and no look around, and two unbounded
repetitions at most: then the search takes the square of the name's length. Another one is taken to match nothing, which
makes a comparison refuse more, never less.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

PATTERN_CHARACTERS_MAX: Final = 200
NAME_CHARACTERS_MAX: Final = 500
REPETITIONS_MAX: Final = 2
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?[^\]]*\]")
_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")
_REPETITION: Final = re.compile(r"[*+]|\{")
_BACK: Final = re.compile(r"\\[0-9k]")


def matches_name(pattern: str, name: str) -> bool:
    """A match anywhere in the name, as JSON Schema has it."""
    compiled = _compiled(pattern)
    return compiled is not None and len(name) <= NAME_CHARACTERS_MAX and compiled.search(name) is not None


@lru_cache(maxsize=1_000)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > PATTERN_CHARACTERS_MAX or _BACK.search(pattern):
        return None
    bare = _CLASS.sub("c", _ESCAPE.sub("e", pattern))
    if "(?" in bare or _REPEATED_GROUP.search(bare) or len(_REPETITION.findall(bare)) > REPETITIONS_MAX:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
