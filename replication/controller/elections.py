"""Who leads next: an election is one expression over assignment, in-sync set and live brokers.

It walks the assignment in its order, so the preferred replica wins where it may. None means nobody can.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sordini.protocol.types import BrokerId


def offline(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId], *, unclean: bool = False
) -> BrokerId | None:
    """After the leader was lost. `unclean` lets a replica lead that may lack acknowledged records."""
    in_sync = next((r for r in assignment if r in live and r in isr), None)
    return next((r for r in assignment if r in live), None) if in_sync is None and unclean else in_sync
