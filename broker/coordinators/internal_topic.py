"""An internal topic with the state of a coordinator: its number of partitions, and its creation.

The topic is created by the first request that needs a coordinator. The number of partitions determines which partition,
and so which coordinator, a key belongs to. It is read from the topic once that exists, and is kept for the lifetime of
the topic: partitions added later would separate keys from their records. (Apache Kafka reads it once at start.)

All brokers must use the same number, or two of them coordinate one key. The metadata of this broker may be incomplete
(a controller that crashed while it created the topic), so any number but the configured one is verified in the store,
and until then nothing is coordinated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.broker.configuration.config import Config
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from sordini.protocol.types import TopicId
from sordini.replication.ports import Logger, Spawn
from sordini.system.named_tuple import NamedTuple

NOT_VERIFIED, NOT_CREATED = "internal topic's partition count not verified", "internal topic not created"
CREATION_TIMEOUT_MS = 5_000
"""How long the first requests wait for the topic; its creation takes a fraction of a second."""
MIN_ISR = "min.insync.replicas"


class InternalTopicSpec(NamedTuple):
    """The settings with which the topic is created."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]
    """Of the topic, by key; beside cleanup.policy=compact."""

    def creatable(self, brokers: int | None = None) -> CreatableTopic:
        """The topic as it is created; with at most so many replicas, if a number of brokers is given.

        Nor does it require more in-sync replicas than it has: an Apache Kafka 2.7 that continues with the files would
        refuse every write.
        """
        replicas = self.replication_factor if brokers is None else min(self.replication_factor, brokers)
        settings = {"cleanup.policy": "compact", **self.settings}
        if MIN_ISR in settings:
            settings[MIN_ISR] = str(min(int(settings[MIN_ISR]), replicas))
        return CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )


class InternalTopic:
    """What is known of one internal topic, and its creation."""

    def __init__(
        self,
        spec: InternalTopicSpec,
        config: Config,
        admin: TopicAdmin,
        metadata: MetadataCache,
        spawn: Spawn,
        log: Logger,
    ) -> None:
        self._spec = spec
        self._config = config
        self._admin = admin
        self._metadata = metadata
        self._spawn = spawn
        self._log = log
        self._verified_count: tuple[TopicId, int] | None = None
        self._is_verifying = False
        self._logged: dict[str, str] = {}
        """The reason in the last log line of a lasting failure."""
        self._on_created: list[Callable[[], None]] | None = None
        """Called when the creation has finished; None while none is running."""

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def exists(self) -> bool:
        return self._spec.name in self._metadata.topics

    def partition_count(self) -> int:
        """The number of partitions.

        Raises BrokerError COORDINATOR_NOT_AVAILABLE while the topic is not known here, or its number is not verified.
        """
        known = self._metadata.topics.get(self._spec.name)
        if known is None:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} is not known here")
        if self._verified_count is not None and self._verified_count[0] == known.topic_id:
            return self._verified_count[1]
        if len(known.partitions) != self._spec.partitions:
            if not self._is_verifying:
                self._is_verifying = True
                self._spawn(self._verify_count(known.topic_id))
            raise BrokerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the number of partitions of {self.name} is being verified"
            )
        self._verified_count = known.topic_id, len(known.partitions)
        return self._verified_count[1]

    async def _verify_count(self, topic_id: TopicId) -> None:
        try:
            self._verified_count = topic_id, await self._admin.partition_count(self.name)
        except BrokerError as error:
            self._log_failure(NOT_VERIFIED, error)  # The next request tries again.
        else:
            self._logged.pop(NOT_VERIFIED, None)
        finally:
            self._is_verifying = False

    def create(self, on_done: Callable[[], None] | None = None) -> None:
        """Create the topic, unless that is in progress; `on_done` is called when that has succeeded or failed."""
        if self._on_created is None:
            self._on_created = []
            self._spawn(self._create())
        if on_done is not None:
            self._on_created.append(on_done)

    async def _create(self) -> None:
        try:
            planned = self._admin.plan(self._creatable_topic(), needs_racks=False)
            await self._admin.create(planned, timeout_ms=CREATION_TIMEOUT_MS)
        except BrokerError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                # Another broker has created it, or this one has just started: UpdateMetadata from the controller
                # follows.
                await self._metadata.until(lambda: self.exists, CREATION_TIMEOUT_MS)
            else:
                self._log_failure(NOT_CREATED, error)
        else:
            self._logged.pop(NOT_CREATED, None)
        callbacks, self._on_created = self._on_created, None
        for on_done in callbacks or ():
            on_done()

    def _log_failure(self, event: str, error: BrokerError) -> None:
        """One line for each reason, however often clients retry."""
        if self._logged.get(event) != str(error):
            self._logged[event] = str(error)
            self._log.warning(event, topic=self.name, reason=str(error))

    def _creatable_topic(self) -> CreatableTopic:
        # A cluster on the embedded store may be a single broker; on ZooKeeper the configured number is required.
        return self._spec.creatable(None if self._config.zookeeper_connect else len(self._metadata.brokers))
