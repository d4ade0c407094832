"""The share partitions of this broker, by group and partition.

Each is made at the first fetch of its group, and forgotten when this broker leads its partition no longer. They are
bounded: when one more would be too many, one that is not used is forgotten, the longest unused first, and loaded again
when it is fetched again. So are those of a group whose last member here has gone.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sordini.broker.coordinators.deadline_timer import DeadlineTimer
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.led_share_partition import Leadership, LedSharePartition, ShareDeps
from sordini.broker.shares.machine.sessions import Target
from sordini.broker.shares.woken_fetches import WokenFetches
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId
from sordini.replication.partition import Partition

SHARE_PARTITIONS_MAX: Final = 20_000
"""At about 4 KiB each, with nothing in flight."""
EXPIRY_STEPS: Final = 1_000
"""Share partitions, and parts of them that are released, in one iteration of the loop."""
UNUSED_SEARCHED: Final = 32
"""How many are looked at, from the longest unused one on, for one that can be forgotten."""
ENDED_AT_ONCE: Final = 100
"""With the leadership of their partition; of more, the rest is cleared away in slices."""
END_STEPS: Final = 2
"""The cost of one."""


class SharePartitions:
    """All of them."""

    def __init__(
        self,
        leaders: KnownLeaders,
        deps: ShareDeps,
        slices: SliceScheduler,
        partitions_max: int = SHARE_PARTITIONS_MAX,
    ) -> None:
        self.leaders = leaders
        self.deps = deps
        self._partitions_max = partitions_max
        self._by_key: OrderedDict[SharePartitionKey, LedSharePartition] = OrderedDict()
        """In the order of their last use."""
        self._leaderships: dict[tuple[TopicId, int], Leadership] = defaultdict(Leadership)
        """Of the partitions with share partitions."""
        self._slices = slices
        self.woken = WokenFetches(slices)
        self._due: deque[SharePartitionKey] = deque()
        """Those of whose locks some have ended."""
        self._steps_left = EXPIRY_STEPS
        """In this iteration of the loop."""
        self._keys: dict[str, dict[SharePartitionKey, None]] = defaultdict(dict)
        """Those of each group."""
        self._timer = DeadlineTimer[SharePartitionKey](deps.clock, deps.call_later, self._on_due)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._by_key.values())

    def find(self, group_id: str, target: Target) -> LedSharePartition | None:
        """One that is here already."""
        found = self._by_key.get(SharePartitionKey(group_id, *target))
        return None if found is None or found.leadership.is_over else found

    def of_group(self, group_id: str) -> list[LedSharePartition]:
        found = [self._by_key[key] for key in self._keys.get(group_id, ())]
        return [one for one in found if not one.leadership.is_over]

    def retire(self, group_id: str) -> None:
        """No member of a group fetches here: its share partitions end when what was begun of them is written."""
        for found in self.of_group(group_id):
            found.retire()

    def open(self, group_id: str, target: Target) -> LedSharePartition:
        """One that is here, or is loaded from now on.

        Raises BrokerError as `ReplicaSet.partition_by_id` and `Partition.require_leader`, and UNKNOWN_SERVER_ERROR when
        there are too many.
        """
        key = SharePartitionKey(group_id, *target)
        found = self._by_key.get(key)
        if found is not None and not found.leadership.is_over and found.resume():
            self._by_key.move_to_end(key)
            return found
        partition = self.leaders.replicas.partition_by_id(target.topic_id, target.partition)
        partition.require_leader()
        self._make_room()
        if found is not None:
            found.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        leadership = self._leaderships[key.topic_id, key.partition]
        made = LedSharePartition(key, partition, leadership, self.deps, self._timer.schedule, self._forget)
        self._by_key[key] = leadership.groups[group_id] = made
        self._keys[group_id][key] = None
        made.load()
        return made

    def require(self, group_id: str, target: Target) -> LedSharePartition:
        """One that is here already.

        Raises BrokerError as `ReplicaSet.partition_by_id` and `Partition.require_leader`, and
        UNKNOWN_TOPIC_OR_PARTITION for one that no member has fetched since this broker leads the partition.
        """
        found = self.find(group_id, target)
        if found is None:
            self.leaders.replicas.partition_by_id(target.topic_id, target.partition).require_leader()
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"nothing is held of {target}")
        return found

    def _make_room(self) -> None:
        """Raises BrokerError UNKNOWN_SERVER_ERROR when all that are searched are in use."""
        if len(self._by_key) < self._partitions_max:
            return
        for found in list(islice(self._by_key.values(), UNUSED_SEARCHED)):
            if found.is_unused:
                found.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return
            self._by_key.move_to_end(found.key)
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(self._by_key)} share partitions are in use")

    def _forget(self, ended: LedSharePartition) -> None:
        key = ended.key
        if self._by_key.get(key) is not ended:
            return
        del self._by_key[key]
        self._timer.cancel(key)
        leadership = ended.leadership
        leadership.groups.pop(key.group_id, None)
        if not leadership.groups and not leadership.is_over:
            del self._leaderships[key.topic_id, key.partition]
        del self._keys[key.group_id][key]
        if not self._keys[key.group_id]:
            del self._keys[key.group_id]

    # Locks that end. Many may end at the same time: then other work of the loop is done in between.

    def _on_due(self, key: SharePartitionKey, _late_ms: int) -> None:
        self._due.append(key)
        if self._steps_left == EXPIRY_STEPS:
            self.deps.call_later(0, self._continue)
        self._expire_due()

    def _continue(self) -> None:
        self._steps_left = EXPIRY_STEPS
        if self._due:
            self.deps.call_later(0, self._continue)
            self._expire_due()

    def _expire_due(self) -> None:
        while self._due and self._steps_left > 0:
            found = self._by_key.get(self._due.popleft())
            if found is not None:
                self._steps_left -= 1 + found.expire()

    # As a LeadershipListener: a new leader epoch begins with what is stored, too.

    def became_leader(self, partition: Partition) -> None:
        self._end_all(partition)

    def resigned(self, partition: Partition) -> None:
        self._end_all(partition)

    def _end_all(self, partition: Partition) -> None:
        """All end at once; what waits for them is answered, and they are cleared away, many of them in slices."""
        leadership = self._leaderships.pop((partition.topic_id, partition.name.partition), None)
        if leadership is None:
            return
        leadership.is_over = True
        clearing = _cleared(list(leadership.groups.values()))
        if len(leadership.groups) <= ENDED_AT_ONCE:
            for _ in clearing:
                pass
        else:
            self._slices.add(clearing, _ignore, _raise)


def _cleared(ended: list[LedSharePartition]) -> Work[None]:
    for one in ended:
        one.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        yield END_STEPS


def _ignore(_result: None) -> None:
    """Nothing is left to do."""


def _raise(error: Exception) -> None:
    raise error
