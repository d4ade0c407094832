"""The partitions of one fetcher, and what is requested next for each.

A round examines only partitions that were marked (`mark_updated`), so its cost follows the changes and not the number
of partitions. A partition is in one of these states:

    updated ─► fetched (in the session) ─ response ─► updated
            ─► needs the end of an epoch (`epoch_end_requests`) ─► updated
            ─► delayed ─► updated
            ─► idle: its term is fenced, until the next LeaderAndIsr
    fetched ─ OFFSET_OUT_OF_RANGE ─► `out_of_range` ─► updated
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.protocol.types import NO_TOPIC_ID, Offset, TopicPartition
from sordini.replication.fetching.backoffs import Backoffs
from sordini.replication.fetching.session import FetchSessionHandler, FetchState, TopicIdPartition
from sordini.replication.follower import EpochEndRequest, Follower
from sordini.replication.partition import Partition
from sordini.replication.replica_throttling import ReplicaQuota


class FetchedPartition:
    """A partition that a fetcher fetches, and its last request."""

    __slots__ = (
        "failure",
        "follower",
        "is_lagging",
        "not_leader_count",
        "partition",
        "requested_offset",
        "topic_id_partition",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.topic_id_partition = _topic_id_partition(partition)
        self.follower: Follower | None = None
        """The term in which the last request was made."""
        self.requested_offset = Offset(-1)
        self.not_leader_count = 0
        """How many times in a row the leader did not know of its election yet."""
        self.failure = ""
        """Why the last records were not appended; empty once some were."""
        self.is_lagging = True
        """Whether the leader is known to have committed more, or nothing is known yet."""


class FetchedPartitions:
    """All partitions of one fetcher, and the fetch session with the leader."""

    def __init__(self, fetch_version: int, quota: ReplicaQuota) -> None:
        self.session = FetchSessionHandler(fetch_version)
        self.changes = 0
        """Counts all that may make another request than the last one with other offsets."""
        self.epoch_end_requests: dict[FetchedPartition, EpochEndRequest] = {}
        self.out_of_range: dict[FetchedPartition, None] = {}
        self._quota = quota
        self._by_name: dict[tuple[str, int], FetchedPartition] = {}
        self._by_id: dict[tuple[bytes, int], FetchedPartition] = {}
        self._updated: dict[FetchedPartition, None] = {}
        self._backoffs: Backoffs[FetchedPartition] = Backoffs()

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._by_name

    def all(self) -> list[FetchedPartition]:
        return list(self._by_name.values())

    def find(self, topic: str, topic_id: bytes, index: int) -> FetchedPartition | None:
        """The partition of a row in a response; `topic` is empty in versions that name topics by id."""
        return self._by_name.get((topic, index)) if topic else self._by_id.get((topic_id, index))

    def is_stale(self, fetched: FetchedPartition, follower: Follower) -> bool:
        """Whether the partition was removed, or is in another term, since `follower` made its request."""
        known = self._by_name.get(fetched.partition.name)
        return known is not fetched or fetched.partition.follower is not follower

    def add(self, partition: Partition) -> None:
        """Fetch a partition; if it is fetched already, a new term has begun."""
        known = self._by_name.get(partition.name)
        if known is None or known.partition is not partition:
            if known is not None:
                self._drop(known)
            known = FetchedPartition(partition)
            self._by_name[partition.name] = known
            self._index_by_id(known)
        self._backoffs.remove(known)
        self.epoch_end_requests.pop(known, None)
        self.out_of_range.pop(known, None)
        self.mark_updated(known)

    def _index_by_id(self, fetched: FetchedPartition) -> None:
        if fetched.topic_id_partition.topic_id != NO_TOPIC_ID:
            self._by_id[fetched.topic_id_partition.topic_id, fetched.topic_id_partition.partition] = fetched

    def remove(self, name: TopicPartition, partition: Partition | None = None) -> bool:
        """Stop fetching the partition of this name, or only if it is `partition`; whether it was fetched."""
        known = self._by_name.get(name)
        if known is None or partition not in (None, known.partition):
            return False
        self._drop(known)
        return True

    def _drop(self, fetched: FetchedPartition) -> None:
        self.changes += 1
        topic, topic_id, index = fetched.topic_id_partition
        del self._by_name[topic, index]
        self._by_id.pop((topic_id, index), None)
        self._updated.pop(fetched, None)
        self._backoffs.remove(fetched)
        self.epoch_end_requests.pop(fetched, None)
        self.out_of_range.pop(fetched, None)
        self.session.remove(fetched.topic_id_partition)

    def mark_updated(self, fetched: FetchedPartition) -> None:
        """Examine the partition in the next round."""
        self.changes += 1
        self._updated[fetched] = None

    def mark_all_updated(self) -> None:
        self.changes += 1
        self._updated.update(dict.fromkeys(self._by_name.values()))

    def delay(self, fetched: FetchedPartition, until_ms: int) -> None:
        """Do not fetch the partition before this time."""
        self.changes += 1
        self.session.remove(fetched.topic_id_partition)
        self._backoffs.delay(fetched, until_ms)

    def next_due_ms(self) -> int | None:
        """When the first delay ends; None when no partition is delayed."""
        return self._backoffs.next_due_ms()

    def mark_out_of_range(self, fetched: FetchedPartition) -> None:
        """The partition's offset is outside the leader's log."""
        self.changes += 1
        self.session.remove(fetched.topic_id_partition)
        self.out_of_range[fetched] = None

    def take_out_of_range(self) -> dict[FetchedPartition, Follower]:
        """The partitions for which the bounds of the leader's log are needed, each with its term."""
        taken, self.out_of_range = self.out_of_range, {}
        return self._with_terms(taken)

    def take_epoch_end_requests(self) -> dict[FetchedPartition, tuple[Follower, EpochEndRequest]]:
        """The partitions that need the end of an epoch, each with its term."""
        taken, self.epoch_end_requests = self.epoch_end_requests, {}
        return {fetched: (follower, taken[fetched]) for fetched, follower in self._with_terms(taken).items()}

    def _with_terms(self, taken: Iterable[FetchedPartition]) -> dict[FetchedPartition, Follower]:
        for fetched in taken:
            self._updated[fetched] = None  # Whatever the response is, the partition is examined after it.
        return {fetched: fetched.follower for fetched in taken if fetched.follower is not None}

    def prepare_requests(self, now_ms: int) -> None:
        """Find what is requested next for the partitions that were marked; `now_ms` is monotonic."""
        has_delayed = bool(self._backoffs)
        if has_delayed:
            self._updated.update(dict.fromkeys(self._backoffs.take_due(now_ms)))
        updated, self._updated = self._updated, {}
        for fetched in updated:
            if not (has_delayed and fetched in self._backoffs) and fetched not in self.out_of_range:
                self._prepare_request(fetched, now_ms)

    def _prepare_request(self, fetched: FetchedPartition, now_ms: int) -> None:
        partition = fetched.partition
        if partition.topic_id != fetched.topic_id_partition.topic_id:
            # The topic had no id and was given one.
            self.session.remove(fetched.topic_id_partition)
            fetched.topic_id_partition = _topic_id_partition(partition)
            self._index_by_id(fetched)
        fetched.follower = partition.follower
        request = partition.next_request()
        if request is None:
            self.session.remove(fetched.topic_id_partition)
        elif isinstance(request, EpochEndRequest):
            self.epoch_end_requests[fetched] = request  # Sent before any fetch; examined again after the response.
        else:
            wait_ms = self._quota.wait_ms(partition.name, now_ms) if fetched.is_lagging else 0
            if wait_ms:
                self.delay(fetched, now_ms + wait_ms)
                return
            fetched.requested_offset = request.fetch_offset
            self.session.add(fetched.topic_id_partition, FetchState(*request, partition.log.log_start_offset))


def _topic_id_partition(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.name.topic, partition.topic_id, partition.name.partition)
