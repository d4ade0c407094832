"""When a segment is rolled: the active one is closed, and a new one begins. Pure.

Before an append, if the active segment would become

    larger than `segment.bytes`
    older than `segment.ms`, less a jitter of up to `segment.jitter.ms`
    wider than an int32: its index holds offsets less its base
    fuller than its indexes, whose size is `segment.index.bytes`

and before segments are deleted, if the active one is due, too. A segment's age counts from the timestamp of its first
batch, or of its file where that has none, to the largest timestamp of the append, or to now.

The comparison stands in `LogState.append_bytes`, inlined: as a function it cost 3 % of a batched produce.
`LogState.roll` rolls.
"""

from __future__ import annotations

from collections.abc import Callable

OFFSETS_MAX = 2**31 - 1
"""Index entries hold an offset less the segment's base in an int32."""
UNDATED = -(2**63)
"""Stands for the timestamp of a segment whose first batch has none: its age is then that of its file."""


def age_from(timestamp: int) -> int:
    """The time (ms) from which a segment's age counts, from the timestamp of its first batch."""
    return timestamp if timestamp >= 0 else UNDATED


def age_max(segment_ms: int, jitter_ms: int, getrandbits: Callable[[int], int]) -> int:
    """The age (ms) at which one segment is rolled. Drawn for each, so that not all partitions roll at the same time."""
    return segment_ms - (getrandbits(48) % jitter_ms if jitter_ms > 0 else 0)
