"""A group's lag at one moment, partition by partition. Pure.

*Lag* is what Kafka's tools call so: offsets between the committed one and the high watermark. Offsets are not records:
compaction leaves gaps, and transaction markers take offsets. *Unread* is the oldest record that the group has yet to
read; its age is zero when there is none, whatever the lag.
"""

from __future__ import annotations

from enum import Enum

from sordini.client.lag.outlook import Outlook, OutlookKind, Rate, outlook_of_group
from sordini.system.named_tuple import NamedTuple


class Condition(Enum):
    """What is the case with a partition, as far as it is to be read."""

    CAUGHT_UP = "caught up"
    BEHIND = "behind"
    NO_OFFSET = "no committed offset"
    EXPIRED = "offset before the log start"
    """Records were deleted before the group has read them."""
    AHEAD = "offset after the log end"
    DELETED = "no such partition"
    UNAVAILABLE = "not available"


class Age(NamedTuple):
    """How long ago a record was appended, in milliseconds; a bound that is not known is None."""

    at_least_ms: int | None
    at_most_ms: int | None


class UnreadRecord(NamedTuple):
    """The oldest record that a group has not read."""

    offset: int
    is_exact: bool
    """Otherwise it is this one or a later one: what is before it was passed over, and the search ended."""
    timestamp_ms: int | None
    """Its own time."""
    is_log_append_time: bool
    own_age_ms: int | None
    """By its own time, compared with the leader's clock; with CreateTime the producer's clock decides."""
    appended: Age


class Owner(NamedTuple):
    """The member that has a partition."""

    member_id: str
    client_id: str
    host: str


class ClientLag(NamedTuple):
    """What the member that has a partition says of it (KIP-714)."""

    lag: int
    """Records that it has not fetched."""
    pushed_ms_ago: int


class PartitionLag(NamedTuple):
    """One partition of a group; None is what is not known."""

    topic: str
    partition: int
    condition: Condition
    committed: int | None
    start: int | None
    """The log start offset."""
    end: int | None
    """The high watermark."""
    stable_end: int | None
    """The last stable offset: below `end` while transactions are open."""
    lag: int | None
    unread: UnreadRecord | None
    rate_in: Rate | None
    rate_out: Rate | None
    commit_age_ms: int | None
    """Since the last commit."""
    owner: Owner | None
    lacks_owner: bool
    """The group has members, and none of them has this partition."""
    outlook: Outlook
    problem: str | None = None
    """Why it is not available."""
    client: ClientLag | None = None

    @property
    def expired(self) -> int:
        """Offsets that were deleted before the group has read them."""
        if self.condition is not Condition.EXPIRED or self.start is None or self.committed is None:
            return 0
        return self.start - self.committed

    @property
    def is_stuck(self) -> bool:
        """Whether a member has it and does not read it."""
        return self.owner is not None and self.outlook.kind is OutlookKind.NOT_READING


class GroupLag(NamedTuple):
    """One group, or one reader without a group, such as a checkpoint of Spark."""

    name: str
    kind: str | None
    """`classic`, `consumer`; `checkpoint`; None for one that is only offsets."""
    state: str
    members: int
    partitions: tuple[PartitionLag, ...]
    problem: str | None = None
    """Why nothing is known of it."""

    @property
    def lag(self) -> int:
        """The sum over its partitions."""
        return sum(row.lag or 0 for row in self.partitions)

    @property
    def behind(self) -> list[PartitionLag]:
        """The partitions with something to read."""
        return [row for row in self.partitions if row.unread is not None]

    @property
    def oldest(self) -> PartitionLag | None:
        """The partition whose oldest unread record was appended first, as far as known."""
        return max(self.behind, key=age_order, default=None)

    @property
    def rate_in(self) -> Rate | None:
        return _sum([row.rate_in for row in self.partitions])

    @property
    def rate_out(self) -> Rate | None:
        return _sum([row.rate_out for row in self.partitions])

    @property
    def outlook(self) -> Outlook:
        return outlook_of_group([row.outlook for row in self.partitions if row.unread is not None])


def age_order(row: PartitionLag) -> float:
    """A number that is higher for older unread records: by append time, else by the record's own; -1 for none."""
    unread = row.unread
    if unread is None:
        return -1
    known = [age for age in (unread.appended.at_least_ms, unread.own_age_ms) if age is not None]
    return known[0] if known else 0


def _sum(rates: list[Rate | None]) -> Rate | None:
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    return Rate(sum(rate.per_s for rate in known), min(rate.window_s for rate in known))
