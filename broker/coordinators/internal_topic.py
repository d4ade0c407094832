"""The topic __consumer_offsets: how many partitions it has, and how it comes into being.

It is made when somebody asks for the first group's coordinator. The number of its partitions says where each group is
looked after, so it is read from the topic once that exists, and stays for as long as the topic lives: partitions added
later would take groups away from their records. (Apache Kafka reads it once, when the broker starts.)

All brokers have to count the same, or two of them look after one group. What this broker was told of the topic may be
but a part (a controller that died while it made the topic): so any number but the configured one is looked up in the
store, and until then nobody is looked after.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.configuration.config import Config
from sordini.broker.coordinators.ports import Spawn
from sordini.broker.network.ports import Log
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from sordini.protocol.types import TopicId

OFFSETS_TOPIC = "__consumer_offsets"
NOT_COUNTED, NOT_MADE = "__consumer_offsets not counted", "__consumer_offsets not made"
MADE_WITHIN_MS = 5_000
"""How long whoever asked first waits for the topic; it takes a fraction of a second."""


class OffsetsTopic:
    """What is known of __consumer_offsets, and its making."""

    def __init__(self, config: Config, admin: TopicAdmin, metadata: MetadataCache, spawn: Spawn, log: Log) -> None:
        self._config = config
        self._admin = admin
        self._metadata = metadata
        self._spawn = spawn
        self._log = log
        self._counted: tuple[TopicId, int] | None = None
        self._is_counting = False
        self._told: dict[str, str] = {}
        """The reason that was last written for a failure that lasts."""
        self._waiting: list[Callable[[], None]] | None = None
        """Those to be told when the making has ended; None while nobody makes it."""

    def partition_count(self) -> int:
        """How many partitions it has.

        Raises BrokerError COORDINATOR_NOT_AVAILABLE while it does not exist, as far as is known here, or is not counted
        yet.
        """
        known = self._metadata.topics.get(OFFSETS_TOPIC)
        if known is None:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} is not known here")
        if self._counted is not None and self._counted[0] == known.topic_id:
            return self._counted[1]
        if len(known.partitions) != self._config.offsets_topic_num_partitions:
            if not self._is_counting:
                self._is_counting = True
                self._spawn(self._count(known.topic_id))
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} is being counted")
        self._counted = known.topic_id, len(known.partitions)
        return self._counted[1]

    async def _count(self, topic_id: TopicId) -> None:
        try:
            self._counted = topic_id, await self._admin.partition_count(OFFSETS_TOPIC)
        except BrokerError as error:
            self._failed(NOT_COUNTED, error)  # The next request has it tried again.
        else:
            self._told.pop(NOT_COUNTED, None)
        finally:
            self._is_counting = False

    @property
    def exists(self) -> bool:
        return OFFSETS_TOPIC in self._metadata.topics

    def make(self, ended: Callable[[], None] | None = None) -> None:
        """Make the topic unless somebody does already; `ended` is called when that has succeeded or failed."""
        if self._waiting is None:
            self._waiting = []
            self._spawn(self._make())
        if ended is not None:
            self._waiting.append(ended)

    def auto_create(self, name: str) -> ErrorCode:
        """As TopicAdmin's, but that this one topic is made with its own settings."""
        if name != OFFSETS_TOPIC or not self._config.auto_create_topics_enable:
            return self._admin.auto_create(name)
        self.make()
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _make(self) -> None:
        try:
            planned = self._admin.plan(self._wanted(), needs_racks=False)
            await self._admin.create(planned, timeout_ms=MADE_WITHIN_MS)
        except BrokerError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                # Another broker was asked, too, or this one has only started: the controller tells of it soon.
                await self._metadata.until(lambda: self.exists, MADE_WITHIN_MS)
            else:
                self._failed(NOT_MADE, error)
        else:
            self._told.pop(NOT_MADE, None)
        waiting, self._waiting = self._waiting, None
        for ended in waiting or ():
            ended()

    def _failed(self, event: str, error: BrokerError) -> None:
        """Written once for each reason, however often clients have it tried again."""
        if self._told.get(event) != str(error):
            self._told[event] = str(error)
            self._log.warning(event, reason=str(error))

    def _wanted(self) -> CreatableTopic:
        config = self._config
        replication_factor = config.offsets_topic_replication_factor
        if not config.zookeeper_connect:
            # A broker of its own cannot have three copies; one that joins others is told how many it shall have.
            replication_factor = min(replication_factor, len(self._metadata.brokers))
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        return CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )
