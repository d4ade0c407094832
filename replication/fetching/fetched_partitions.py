"""The partitions of one fetcher, and what each of them wants to ask next.

Only those that something has happened to are looked at in a round (`touch`), so a round costs what its news cost,
however many partitions are followed. A partition is in one of these states:

    due ─► wanted (in the session) ─ answered ─► due
        ─► asks where an epoch ended (`epoch_questions`) ─► due
        ─► pauses, alone ─► due
        ─► asks nothing: its term is over, and the controller will say more
    wanted ─ out of range ─► `out_of_range` ─► due
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.protocol.types import NO_TOPIC_ID, Offset, TopicPartition
from sordini.replication.fetching.backoffs import Backoffs
from sordini.replication.fetching.session import FetchSessionHandler, FetchState, TopicIdPartition
from sordini.replication.follower import EpochEndRequest, Follower
from sordini.replication.partition import Partition
from sordini.replication.replica_quota import ReplicaQuota


class FetchedPartition:
    """A partition that a fetcher fetches, and its last question."""

    __slots__ = ("asked_offset", "early_count", "failure", "follower", "is_lagging", "partition", "place")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.place = _place_of(partition)
        self.follower: Follower | None = None
        """Whose question it is."""
        self.asked_offset = Offset(-1)
        self.early_count = 0
        """How often in a row the leader had not heard of its election yet."""
        self.failure = ""
        """Why what came was last not taken; empty once records were."""
        self.is_lagging = True
        """Whether the leader is known to have committed more, or nothing is known yet."""


class FetchedPartitions:
    """Who is fetched, and the fetch session in which that is told to the leader."""

    def __init__(self, fetch_version: int, quota: ReplicaQuota) -> None:
        self.session = FetchSessionHandler(fetch_version)
        self.epoch_questions: dict[FetchedPartition, EpochEndRequest] = {}
        self.out_of_range: dict[FetchedPartition, None] = {}
        self._quota = quota
        self._by_name: dict[tuple[str, int], FetchedPartition] = {}
        self._by_id: dict[tuple[bytes, int], FetchedPartition] = {}
        self._due: dict[FetchedPartition, None] = {}
        self._pauses: Backoffs[FetchedPartition] = Backoffs()

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._by_name

    def all(self) -> list[FetchedPartition]:
        """Everybody who is fetched."""
        return list(self._by_name.values())

    def find(self, topic: str, topic_id: bytes, index: int) -> FetchedPartition | None:
        """Whom an answer is for; `topic` is empty in those that name topics by id."""
        return self._by_name.get((topic, index)) if topic else self._by_id.get((topic_id, index))

    def is_past(self, followed: FetchedPartition, follower: Follower) -> bool:
        """Whether a partition has gone since `follower` asked, or is in another term."""
        known = self._by_name.get(followed.partition.name)
        return known is not followed or followed.partition.follower is not follower

    def add(self, partition: Partition) -> None:
        """Fetch a partition; for one that is fetched already, a new term has begun."""
        known = self._by_name.get(partition.name)
        if known is None or known.partition is not partition:
            if known is not None:
                self.drop(known)
            known = FetchedPartition(partition)
            self._by_name[partition.name] = known
            self._identify(known)
        self._pauses.drop(known)
        self.epoch_questions.pop(known, None)
        self.out_of_range.pop(known, None)
        self._due[known] = None

    def _identify(self, followed: FetchedPartition) -> None:
        if followed.place.topic_id != NO_TOPIC_ID:
            self._by_id[followed.place.topic_id, followed.place.partition] = followed

    def remove(self, name: TopicPartition, partition: Partition | None = None) -> bool:
        """Fetch what bears this name no longer, or only if it is `partition`; whether it was fetched."""
        known = self._by_name.get(name)
        if known is None or partition not in (None, known.partition):
            return False
        self.drop(known)
        return True

    def drop(self, followed: FetchedPartition) -> None:
        """Fetch it no longer."""
        place = followed.place
        del self._by_name[place.topic, place.partition]
        self._by_id.pop((place.topic_id, place.partition), None)
        self._due.pop(followed, None)
        self._pauses.drop(followed)
        self.epoch_questions.pop(followed, None)
        self.out_of_range.pop(followed, None)
        self.session.forget(place)

    def touch(self, followed: FetchedPartition) -> None:
        """Something happened to it: look what it asks now."""
        self._due[followed] = None

    def touch_all(self) -> None:
        """As `touch`, for everybody."""
        self._due.update(dict.fromkeys(self._by_name.values()))

    def pause(self, followed: FetchedPartition, until_ms: int) -> None:
        """Leave one partition out for a while."""
        self.session.forget(followed.place)
        self._pauses.begin(followed, until_ms)

    def next_ms(self) -> int | None:
        """When the first pause ends; None when nobody pauses."""
        return self._pauses.next_ms()

    def lose_place(self, followed: FetchedPartition) -> None:
        """Its offset is outside of the leader's log."""
        self.session.forget(followed.place)
        self.out_of_range[followed] = None

    def take_out_of_range(self) -> dict[FetchedPartition, Follower]:
        """Those who must be told where the leader's logs are, each with its term."""
        lost, self.out_of_range = self.out_of_range, {}
        return self._with_terms(lost)

    def take_epoch_questions(self) -> dict[FetchedPartition, tuple[Follower, EpochEndRequest]]:
        """Who asks where an epoch ended, each with its term."""
        asked, self.epoch_questions = self.epoch_questions, {}
        return {followed: (follower, asked[followed]) for followed, follower in self._with_terms(asked).items()}

    def _with_terms(self, some: Iterable[FetchedPartition]) -> dict[FetchedPartition, Follower]:
        for followed in some:
            self._due[followed] = None  # Whatever comes of it, look again.
        return {followed: followed.follower for followed in some if followed.follower is not None}

    def look(self, now_ms: int) -> None:
        """Find what the partitions to which something has happened ask now; `now_ms` is monotonic."""
        if self._pauses:
            self._due.update(dict.fromkeys(self._pauses.ended(now_ms)))
        due, self._due = self._due, {}
        for followed in due:
            if followed not in self._pauses and followed not in self.out_of_range:
                self._look_at(followed, now_ms)

    def _look_at(self, followed: FetchedPartition, now_ms: int) -> None:
        partition = followed.partition
        if partition.topic_id != followed.place.topic_id:
            # A topic that had no id was given one.
            self.session.forget(followed.place)
            followed.place = _place_of(partition)
            self._identify(followed)
        followed.follower = partition.follower
        question = partition.next_question()
        if question is None:
            self.session.forget(followed.place)
        elif isinstance(question, EpochEndRequest):
            self.epoch_questions[followed] = question  # Asked before any fetch: what is wanted is looked at after it.
        else:
            wait_ms = self._quota.wait_ms(partition.name, now_ms) if followed.is_lagging else 0
            if wait_ms:
                self.pause(followed, now_ms + wait_ms)
                return
            followed.asked_offset = question.fetch_offset
            wish = FetchState(*question, partition.log.log_start_offset)
            self.session.want(followed.place, wish)


def _place_of(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.name.topic, partition.topic_id, partition.name.partition)
