"""When a lag is gone, if records come and are read as fast as in the last minute. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from sordini.system.named_tuple import NamedTuple

WINDOW_S_MIN: Final = 10.0
"""Consumers commit every five seconds by default: over less than two commits a rate says nothing."""
NOISE: Final = 0.1
"""Of the faster rate: commits come in steps, so a smaller difference is none."""

STUCK_MS: Final = 30_000
"""A member that has a partition with unread records, and whose offset has not moved for so long, does not read."""


class Rate(NamedTuple):
    """Offsets per second, over a time."""

    per_s: float
    window_s: float


class OutlookKind(Enum):
    """What becomes of a lag if the rates stay."""

    CAUGHT_UP = "caught up"
    CATCHING_UP = "catching up"
    KEEPING_PACE = "keeping pace"
    FALLING_BEHIND = "falling behind"
    NOT_READING = "not reading"
    UNKNOWN = "unknown"


class Outlook(NamedTuple):
    """When a lag is gone (`seconds`, when catching up), or how fast it grows (`per_s`, when falling behind)."""

    kind: OutlookKind
    seconds: float | None = None
    per_s: float | None = None


CAUGHT_UP: Final = Outlook(OutlookKind.CAUGHT_UP)
UNKNOWN: Final = Outlook(OutlookKind.UNKNOWN)


def outlook_of(
    lag: int | None, rate_in: Rate | None, rate_out: Rate | None, *, has_unread: bool, unread_ms: int | None = None
) -> Outlook:
    """Of one partition. `unread_ms` is for how long there was certainly something to read, if that is known."""
    if not has_unread:
        return CAUGHT_UP
    if lag is None or rate_in is None or rate_out is None:
        return UNKNOWN
    window_s = min(rate_in.window_s, rate_out.window_s)
    if rate_out.per_s <= 0:
        is_stuck = rate_out.window_s * 1000 >= STUCK_MS and (unread_ms is None or unread_ms >= STUCK_MS)
        if is_stuck:
            return Outlook(OutlookKind.NOT_READING, per_s=rate_in.per_s)
        return UNKNOWN
    if window_s < WINDOW_S_MIN:
        return UNKNOWN
    gain = rate_out.per_s - rate_in.per_s
    if abs(gain) <= NOISE * max(rate_in.per_s, rate_out.per_s):
        return Outlook(OutlookKind.KEEPING_PACE)
    if gain > 0:
        return Outlook(OutlookKind.CATCHING_UP, seconds=lag / gain)
    return Outlook(OutlookKind.FALLING_BEHIND, per_s=-gain)


def outlook_of_group(behind: Sequence[Outlook]) -> Outlook:
    """Of all partitions with unread records: a group has caught up when the last of them has."""
    if not behind:
        return CAUGHT_UP
    kinds = {outlook.kind for outlook in behind}
    losing = kinds & {OutlookKind.NOT_READING, OutlookKind.FALLING_BEHIND}
    if losing:
        per_s = sum(outlook.per_s or 0 for outlook in behind)
        is_read = kinds != {OutlookKind.NOT_READING} and per_s > 0
        return Outlook(OutlookKind.FALLING_BEHIND if is_read else OutlookKind.NOT_READING, per_s=per_s)
    if OutlookKind.UNKNOWN in kinds:
        return UNKNOWN
    if OutlookKind.CATCHING_UP in kinds:
        return Outlook(OutlookKind.CATCHING_UP, seconds=max(outlook.seconds or 0 for outlook in behind))
    return Outlook(OutlookKind.KEEPING_PACE)
