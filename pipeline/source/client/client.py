"""The interface of the client; the other modules here implement it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from sordini.pipeline.source.client.connection_pool import ConnectionPool
from sordini.pipeline.source.client.groups import commit, committed
from sordini.pipeline.source.client.offsets import OffsetLookup
from sordini.pipeline.source.client.reading import Range, Reading
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.topics import Topic, Topics
from sordini.pipeline.source.client.transactions import Session, TransactionalProducer, notes
from sordini.pipeline.source.client.transport import SYSTEM, ClientPorts
from sordini.pipeline.source.client.types import Fetched
from sordini.protocol.types import TopicPartition


class Client:
    """Topics, offsets and records of one cluster.

    Every method retries what fails temporarily (a leader that moves, a broker that restarts) until
    `default.api.timeout.ms` is over, and then raises the last error. All raise Unreachable, Unauthorized,
    NotServed, and Refused for an error of the cluster that has no class of its own.
    """

    def __init__(self, settings: ClientSettings, ports: ClientPorts = SYSTEM) -> None:
        """The first request connects. Tests bring ports of their own."""
        self.settings = settings
        self._pool = ConnectionPool(settings, ports)
        self._topics = Topics(self._pool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; iterators of `read` can no longer be used."""
        self._pool.close()

    def check(self) -> None:
        """Check with one attempt that a broker answers and accepts the credentials, for callers that do not wait.

        Raises Unreachable, Unauthorized, BadSetting for certificates that cannot be read.
        """
        self._topics.all(internal=False)

    def topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics that we are authorized to see, sorted; with `internal` also `__consumer_offsets`."""
        return self._pool.retry(lambda: self._topics.all(internal=internal))

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The numbers of each topic's partitions. Raises UnknownTopic, which names all that are missing."""
        return {name: list(topic.leaders) for name, topic in self._find(topics).items()}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Each topic's id in 22 characters, "" from a broker without topic ids; a recreated topic has another id.

        Raises UnknownTopic.
        """
        return {name: topic.id_text for name, topic in self._find(topics).items()}

    def offsets(self, at: Mapping[TopicPartition, int], *, read_committed: bool = False) -> dict[TopicPartition, int]:
        """The first offset at or after a time, in ms since 1970; EARLIEST and LATEST stand for the ends.

        NO_OFFSET (-1) where no record is that recent. With `read_committed` the latest is the last stable offset, the
        first of an open transaction. Raises UnknownTopic.
        """
        return self._pool.retry(OffsetLookup(self._pool, self._topics, at, read_committed=read_committed).attempt)

    def read(
        self, partition: TopicPartition, start: int, end: int, *, read_committed: bool = False, topic_id: str = ""
    ) -> Iterator[Fetched]:
        """The records of the offsets [start, end), in order; one fetch ahead of the caller.

        `end` must be an offset that the log has reached (from `offsets`). Offsets that compaction removed, or that hold
        transaction markers, are skipped: the last `next_offset` is at or beyond `end`. With `topic_id` the topic must
        have this id; without, the id that it has when the reading begins.

        Raises OffsetLost when retention has passed `start` or the log ends before `end`, TopicRecreated,
        UnknownTopic, and NoProgress.
        """
        wanted = Range(partition, start, end, read_committed, topic_id)
        return Reading(self._pool, self._topics, wanted).fetches()

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of a consumer group; empty for a group without any."""
        return self._pool.retry(lambda: committed(self._pool, group))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members.

        Raises Refused for a group with members: its consumers would lose their positions. Raises UnknownTopic.
        """
        self._pool.retry(lambda: commit(self._pool, group, offsets))

    def notes(self, group: str) -> dict[TopicPartition, str]:
        """The metadata of a group's committed offsets; waits for transactions that are being ended."""
        return self._pool.retry(lambda: notes(self._pool, group))

    def producer(self, session: Session) -> TransactionalProducer:
        """A transactional producer on this client's connections; its session is open already, or by its `open`."""
        return TransactionalProducer(self._pool, self._topics, session)

    def create_missing(self, topics: Iterable[str]) -> None:
        """Let brokers with auto.create.topics.enable create the topics that do not exist. Raises nothing for them."""
        self._pool.retry(lambda: self._topics.create(list(topics)))

    def _find(self, topics: Iterable[str]) -> dict[str, Topic]:
        """From the broker, not from the cache."""
        names = list(topics)
        return self._pool.retry(lambda: self._topics.find(names, fresh=True))
