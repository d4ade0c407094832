"""What the printers of Apache Kafka's text share: what they yield, what they collect, how bytes become text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LISTED_MAX: Final = 100_000
"""So many pairs of a file are kept for the list after all files; a compacted log may have millions."""
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class Line(NamedTuple):
    """One line of standard output, without its end."""

    text: str


class DamageAt(NamedTuple):
    """What Apache Kafka's text cannot say: damage at a byte of the file, for standard error."""

    position: int
    reason: str


DumpOutput = Line | DamageAt


class Pairs:
    """Pairs of numbers found in one file, in the order they were found; of too many the last ones."""

    def __init__(self) -> None:
        self.found: deque[tuple[int, int]] = deque(maxlen=LISTED_MAX)
        self.count = 0

    def add(self, first: int, second: int) -> None:
        self.found.append((first, second))
        self.count += 1


@dataclass
class Findings:
    """What the tool lists on standard error when it has read every file, by absolute path."""

    index_mismatches: dict[str, Pairs] = field(default_factory=dict)
    time_mismatches: dict[str, Pairs] = field(default_factory=dict)
    times_out_of_order: dict[str, Pairs] = field(default_factory=dict)
    offsets_not_found: dict[str, Pairs] = field(default_factory=dict)
    gaps: dict[str, Pairs] = field(default_factory=dict)
    """Offsets that do not follow one another: what compaction leaves, and no damage."""

    are_damage: bool = False
    """Whether something among them is wrong: neither gaps are, nor the zeros of an index that has no entry yet."""

    def lines(self) -> list[str]:
        """The lists in Apache Kafka's words, newest pair first where it has them so."""
        told = []
        for path, pairs in self.index_mismatches.items():
            told.append(f"Mismatches in :{path}")
            told += _listed(pairs, lambda index, log: f"  Index offset: {index}, log offset: {log}", newest_first=True)
        for path, pairs in self.time_mismatches.items():
            told.append(f"Found timestamp mismatch in :{path}")
            told += _listed(pairs, lambda index, log: f"  Index timestamp: {index}, log timestamp: {log}")
        for path, pairs in self.times_out_of_order.items():
            told.append(f"Found out of order timestamp in :{path}")
            told += _listed(
                pairs, lambda index, before: f"  Index timestamp: {index}, Previously indexed timestamp: {before}"
            )
        for pairs in self.offsets_not_found.values():
            told.append("The following indexed offsets are not found in the log.")
            told += _listed(pairs, lambda index, log: f"Indexed offset: {index}, found log offset: {log}")
        for path, pairs in self.gaps.items():
            told.append(f"Non-consecutive offsets in {path}")
            told += _listed(pairs, lambda first, second: f"  {first} is followed by {second}", newest_first=True)
        return told


def _listed(pairs: Pairs, words: Callable[[int, int], str], *, newest_first: bool = False) -> list[str]:
    listed = [words(*pair) for pair in pairs.found]
    if newest_first:
        listed.reverse()
    if pairs.count > len(listed):
        listed.append(f"  and {pairs.count - len(listed)} that were found before these")
    return listed


def java_text(data: bytes) -> str:
    """Bytes as Java reads UTF-8: what is not UTF-8 becomes a replacement character.

    Java and Python agree where one such character stands for several bytes, bar one case: Java takes a surrogate, or
    the beginning of one, for one mistake, Python for one of each byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return REPLACEMENT.join(part.decode(errors="replace") for part in _SURROGATE.split(data))


def optional_long(value: int | None) -> str:
    """As Java shows an `OptionalLong`."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
