"""What a journal is configured with. Pure."""

from __future__ import annotations

from typing import Final

from sordini.registry.journal.membership import GROUP, Identity
from sordini.system.named_tuple import NamedTuple

TOPIC: Final = "_schemas"
"""The default of other registries."""


class JournalSettings(NamedTuple):
    """All times are in ms."""

    identity: Identity
    """How other registries of the group reach this one."""
    topic: str = TOPIC
    group: str = GROUP
    replication_factor: int = 3
    """Of the topic when it is created; fewer where there are fewer brokers."""
    session_timeout_ms: int = 10_000
    """After so long without a heartbeat another registry is elected."""
    heartbeat_ms: int = 500
    """Between heartbeats, whose answers say that a new election is due, such as when the writer left."""
    rebalance_timeout_ms: int = 10_000
    """How long an election waits for members that do not join again."""
    append_ms: int = 15_000
    """For one record to be appended, committed and read; attempts are repeated until then."""
    read_ms: int = 30_000
    """For `wait_until_current`."""
    start_ms: int = 60_000
    """For the topic to be found or created."""
    renewal_ms: int = 6 * 60 * 60 * 1000
    """A term is followed by another one of the same writer, so that brokers keep its epoch: they forget a producer that
    wrote nothing for a day, and a transactional id that was not used for a week."""

    @property
    def transactional_id(self) -> str:
        """By which the terms of all writers of the group are numbered."""
        return f"{self.group}-{self.topic}-writer"
