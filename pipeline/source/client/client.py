"""The client as its users see it; how, is in the modules beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from sordini.pipeline.source.client.connection_pool import Cluster
from sordini.pipeline.source.client.groups import commit, committed
from sordini.pipeline.source.client.offsets import Search
from sordini.pipeline.source.client.reading import Range, Reading
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.topics import SourceTopics, Topic
from sordini.pipeline.source.client.transport import OUTSIDE, Outside
from sordini.pipeline.source.client.types import Fetched
from sordini.protocol.types import TopicPartition


class Client:
    """One cluster, asked about its topics, offsets and records.

    Every method repeats what fails in passing (a leader that moves, a broker that restarts) until
    `default.api.timeout.ms` is over, and then raises what stood in the way. All raise Unreachable, Unauthorized,
    NotServed, and Refused for an error of the cluster that has no class of its own.
    """

    def __init__(self, settings: ClientSettings, outside: Outside = OUTSIDE) -> None:
        """Nothing is connected to until something is asked. Tests bring an outside of their own."""
        self.settings = settings
        self._cluster = Cluster(settings, outside)
        self._topics = SourceTopics(self._cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; iterators of `read` can be used no longer."""
        self._cluster.close()

    def check(self) -> None:
        """See at once, with one attempt, that a broker answers and lets us in: for whoever should not wait in vain.

        Raises Unreachable, Unauthorized, BadSetting for certificates that cannot be read.
        """
        self._topics.all(internal=False)

    def topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics we may see, sorted; internal ones (`__consumer_offsets`) only if asked for."""
        return self._cluster.persist(lambda: self._topics.all(internal=internal))

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The numbers of each topic's partitions. Raises UnknownTopic, which names all that are missing."""
        return {name: list(topic.leaders) for name, topic in self._find(topics).items()}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Each topic's id in 22 characters, "" where the broker tells none; a topic made anew has another.

        Raises UnknownTopic.
        """
        return {name: topic.id_text for name, topic in self._find(topics).items()}

    def offsets(self, at: Mapping[TopicPartition, int], *, read_committed: bool = False) -> dict[TopicPartition, int]:
        """The first offset at or after a time, in ms since 1970; EARLIEST and LATEST ask for the ends.

        NO_OFFSET (-1) where no record is that young. With `read_committed` the latest is the last stable offset, the
        first of an open transaction. Raises UnknownTopic.
        """
        return self._cluster.persist(Search(self._cluster, self._topics, at, read_committed=read_committed).attempt)

    def read(
        self, partition: TopicPartition, start: int, end: int, *, read_committed: bool = False, topic_id: str = ""
    ) -> Iterator[Fetched]:
        """What the log holds of the offsets [start, end), in order; one fetch ahead of the caller.

        `end` is to be an offset that was there already (of `offsets`). Offsets that compaction emptied, or that hold
        transaction markers, are passed over in silence: the last `next_offset` is at or behind `end`. With `topic_id`
        the topic must be in that life; without, in the one it has when the reading begins.

        Raises OffsetLost when retention has passed `start` or the log ends before `end`, TopicRecreated,
        UnknownTopic, and NoProgress.
        """
        wanted = Range(partition, start, end, read_committed, topic_id)
        return Reading(self._cluster, self._topics, wanted).fetches()

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The offsets a consumer group has committed; empty for a group that never did."""
        return self._cluster.persist(lambda: committed(self._cluster, group))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members of its own.

        Raises Refused when it has some: consumers of that group would be put off their course. Raises UnknownTopic.
        """
        self._cluster.persist(lambda: commit(self._cluster, group, offsets))

    def _find(self, topics: Iterable[str]) -> dict[str, Topic]:
        """As they are now, not as they were."""
        names = list(topics)
        return self._cluster.persist(lambda: self._topics.find(names, fresh=True))
