"""Every situation: importing the modules registers what they hold."""

from tests.compat.consumer_groups import (  # noqa: F401  (imported for what they register)
    classic_calls,
    conversions,
    epochs,
    joining,
    listings,
    offsets,
    reconciling,
    regexes,
    requests,
    share_listings,
    share_members,
    share_offsets,
    static_members,
    timers,
    topics_changed,
    transactions,
)
from tests.compat.consumer_groups.registry import SITUATIONS

__all__ = ["SITUATIONS"]
