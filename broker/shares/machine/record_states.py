"""What may be the case with a record in flight, and what a member may say of it (KIP-932, KIP-1191, KIP-1222)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The numbers are those of `__share_group_state`; ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """On its way to the dead letters."""
    ARCHIVED = 4


DONE: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
"""States that a record does not leave."""


class DeathReason(IntEnum):
    """Why a record becomes a dead letter (KIP-1191)."""

    REJECTED = 0
    """By a member."""
    DELIVERIES_EXCEEDED = 1
    """It came back from its last delivery."""


class AckType(IntEnum):
    """The numbers are those of the requests."""

    GAP = 0
    """There is no record for consumers at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


AFTER: Final = {
    AckType.GAP: RecordState.ARCHIVED,
    AckType.ACCEPT: RecordState.ACKNOWLEDGED,
}
"""Of types after which the state does not depend on the group's settings or the number of deliveries."""
