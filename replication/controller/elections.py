"""Who leads next: the four elections, each one expression over assignment, in-sync set and live brokers.

Every one walks the assignment in its order, so the preferred replica wins where it may. None means nobody can.
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


def reassigned(target: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]) -> BrokerId | None:
    """When the replicas of a partition were changed to `target`."""
    return next((r for r in target if r in live and r in isr), None)


def preferred(assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]) -> BrokerId | None:
    """To give the first replica its partition back; nobody else will do."""
    return next((r for r in assignment[:1] if r in live and r in isr), None)


def controlled_shutdown(
    assignment: Sequence[BrokerId],
    isr: Collection[BrokerId],
    live: Collection[BrokerId],
    leaving: Collection[BrokerId],
) -> BrokerId | None:
    """When a leader has announced that it will leave."""
    return next((r for r in assignment if r in live and r in isr and r not in leaving), None)
