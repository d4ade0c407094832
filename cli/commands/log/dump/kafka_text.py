"""Shared by the printers of Apache Kafka's text: output lines, findings, Java's decoding of bytes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sordini.system.named_tuple import NamedTuple

LISTED_MAX: Final = 100_000
"""Pairs kept per file for the list at the end; a compacted log may have millions."""
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class Line(NamedTuple):
    """One line of standard output, without its end."""

    text: str


class DamageAt(NamedTuple):
    """Damage at a byte of the file, for standard error, which Apache Kafka's text does not show."""

    position: int
    reason: str


DumpOutput = Line | DamageAt


class Pairs:
    """Pairs of numbers found in one file, in order; at most LISTED_MAX, the last ones."""

    def __init__(self) -> None:
        self.found: deque[tuple[int, int]] = deque(maxlen=LISTED_MAX)
        self.count = 0

    def add(self, first: int, second: int) -> None:
        self.found.append((first, second))
        self.count += 1


@dataclass
class Findings:
    """The lists that the tool prints to standard error after all files, by absolute path."""

    index_mismatches: dict[str, Pairs] = field(default_factory=dict)
    time_mismatches: dict[str, Pairs] = field(default_factory=dict)
    times_out_of_order: dict[str, Pairs] = field(default_factory=dict)
    offsets_not_found: dict[str, Pairs] = field(default_factory=dict)
    gaps: dict[str, Pairs] = field(default_factory=dict)
    """Gaps between offsets: left by compaction, and not damage."""

    are_damage: bool = False
    """Whether any finding is damage: gaps are not, nor the zeros of an index without entries."""

    def lines(self) -> list[str]:
        """The lists in Apache Kafka's text, newest pair first where its tool does so."""
        listed = []
        for path, pairs in self.index_mismatches.items():
            listed.append(f"Mismatches in :{path}")
            listed += _listed(
                pairs, lambda index, log: f"  Index offset: {index}, log offset: {log}", newest_first=True
            )
        for path, pairs in self.time_mismatches.items():
            listed.append(f"Found timestamp mismatch in :{path}")
            listed += _listed(pairs, lambda index, log: f"  Index timestamp: {index}, log timestamp: {log}")
        for path, pairs in self.times_out_of_order.items():
            listed.append(f"Found out of order timestamp in :{path}")
            listed += _listed(
                pairs, lambda index, before: f"  Index timestamp: {index}, Previously indexed timestamp: {before}"
            )
        for pairs in self.offsets_not_found.values():
            listed.append("The following indexed offsets are not found in the log.")
            listed += _listed(pairs, lambda index, log: f"Indexed offset: {index}, found log offset: {log}")
        for path, pairs in self.gaps.items():
            listed.append(f"Non-consecutive offsets in {path}")
            listed += _listed(pairs, lambda first, second: f"  {first} is followed by {second}", newest_first=True)
        return listed


def _listed(pairs: Pairs, words: Callable[[int, int], str], *, newest_first: bool = False) -> list[str]:
    listed = [words(*pair) for pair in pairs.found]
    if newest_first:
        listed.reverse()
    if pairs.count > len(listed):
        listed.append(f"  and {pairs.count - len(listed)} found before these")
    return listed


def java_text(data: bytes) -> str:
    """Bytes decoded as Java decodes UTF-8: invalid bytes become a replacement character.

    Java and Python agree on which bytes one replacement character covers, except for surrogates: Java writes one for a
    surrogate or its beginning, Python one for each byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return REPLACEMENT.join(part.decode(errors="replace") for part in _SURROGATE.split(data))


def optional_long(value: int | None) -> str:
    """The text of a Java `OptionalLong`."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
