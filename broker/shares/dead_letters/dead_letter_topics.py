"""Which partition gets the dead letters of a share partition, and why there is none (KIP-1191).

The topic is the group's errors.deadletterqueue.topic.name. Its name begins with the broker's
errors.deadletterqueue.topic.name.prefix, and it has errors.deadletterqueue.group.enable=true. If it does not exist it
is created where errors.deadletterqueue.auto.create.topics.enable is true. The dead letters of one partition go to one
partition of it: that of their partition's number, modulo the number of partitions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from sordini.broker.configuration.topic_config import DEAD_LETTERS, TopicConfig
from sordini.broker.requests.store_error_codes import store_errors
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.topics import USE_BROKER_DEFAULT
from sordini.system.named_tuple import NamedTuple

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Of dead letters, whatever max.message.bytes allows."""
CREATION_TIMEOUT_MS: Final = 5_000


class DeadLetterSettings(NamedTuple):
    """What is configured now."""

    topic: str | None
    """The group's; None: it has no dead letters."""
    copies: bool
    """errors.deadletterqueue.copy.record.enable"""
    prefix: str
    creates_topics: bool


SettingsOf = Callable[[str], DeadLetterSettings]
"""By group id."""


class KnownTopicConfigs(Protocol):
    """`TopicConfigs`."""

    def knows(self, topic: str) -> bool: ...
    def load(self, topics: Iterable[str]) -> Awaitable[None]: ...
    def config_of(self, topic: str) -> TopicConfig: ...


class NoTopic(Exception):
    """Dead letters cannot be written now; the text says why."""


class DeadLetterTarget(NamedTuple):
    """Where the dead letters of a share partition go."""

    partition: TopicPartition
    batch_bytes_max: int
    copies: bool


class DeadLetterTopics:
    """The topics of all groups."""

    def __init__(
        self, settings_of: SettingsOf, metadata: MetadataCache, configs: KnownTopicConfigs, admin: TopicAdmin
    ) -> None:
        self.settings_of = settings_of
        self._metadata = metadata
        self._configs = configs
        self._admin = admin
        self._creating: set[str] = set()

    async def target(self, group_id: str, partition: int) -> DeadLetterTarget | None:
        """The target; None if the group has no dead letters. Raises NoTopic."""
        settings = self.settings_of(group_id)
        name = settings.topic
        if name is None:
            return None
        if not name.startswith(settings.prefix):
            raise NoTopic(f"the name of topic {name} does not begin with {settings.prefix}")
        if name not in self._metadata.topics:
            if not settings.creates_topics:
                raise NoTopic(f"there is no topic {name}, and it is not created automatically")
            await self._create(name)
        if not self._configs.knows(name):
            # This broker may have no replica of it. From now on it is notified of changes.
            with store_errors():
                await self._configs.load([name])
        config = self._configs.config_of(name)
        if not config[DEAD_LETTERS]:
            raise NoTopic(f"topic {name} does not have {DEAD_LETTERS}=true")
        known = self._metadata.topics.get(name)
        if known is None or not known.partitions:
            raise NoTopic(f"topic {name} has no partitions yet")
        target = TopicPartition(name, partition % len(known.partitions))
        return DeadLetterTarget(target, min(config["max.message.bytes"], BATCH_BYTES_MAX), settings.copies)

    async def _create(self, name: str) -> None:
        if name in self._creating:
            raise NoTopic(f"topic {name} is being created")
        self._creating.add(name)
        try:
            configs = {DEAD_LETTERS: "true", "message.timestamp.type": "CreateTime"}  # As Apache Kafka creates it.
            topic = CreatableTopic(
                name=name,
                num_partitions=USE_BROKER_DEFAULT,
                replication_factor=USE_BROKER_DEFAULT,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            await self._admin.create(self._admin.plan(topic, needs_racks=False), timeout_ms=CREATION_TIMEOUT_MS)
        except BrokerError as error:
            raise NoTopic(f"topic {name} could not be created: {error}") from error
        finally:
            self._creating.discard(name)
