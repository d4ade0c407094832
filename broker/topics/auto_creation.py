"""Auto-creation of topics: whether a Metadata request for an unknown topic creates it (`auto.create.topics.enable`).

The client receives LEADER_NOT_AVAILABLE meanwhile, and repeats its request. Whether the principal may create the topic
was decided before (`topic_rules.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.broker.configuration.config import Config
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin, TopicPlan
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic
from sordini.replication.metadata_store import topics
from sordini.replication.ports import Spawn

AUTO_CREATING_MAX = 100
"""Topics being auto-created at a time: each takes the broker some milliseconds."""


class AutoCreation:
    """Creates requested topics, a bounded number at a time."""

    def __init__(
        self,
        admin: TopicAdmin,
        metadata: MetadataCache,
        config: Config,
        spawn: Spawn,
        internal: Mapping[str, Callable[[], None]],
    ) -> None:
        """`internal` starts the creation of each internal topic, which has its own settings."""
        self._admin = admin
        self._metadata = metadata
        self._config = config
        self._spawn = spawn
        self._internal = internal
        self._creating: set[str] = set()

    def start(self, name: str) -> ErrorCode:
        """Start to create a topic that a client requested, if enabled; the error code for the client meanwhile."""
        if not self._config.auto_create_topics_enable:
            return topics.unknown_topic_code(name)
        if name in self._internal:
            self._internal[name]()
            return ErrorCode.LEADER_NOT_AVAILABLE
        if name in self._creating or not self._metadata.brokers:
            return ErrorCode.LEADER_NOT_AVAILABLE  # No broker is known before the controller's first command.
        creating = len(self._creating) + 1
        if (
            creating > AUTO_CREATING_MAX
            or creating * self._config.num_partitions > self._config.create_topic_partitions_max
        ):
            return ErrorCode.LEADER_NOT_AVAILABLE  # Created when the client repeats the request.
        try:
            planned = self._admin.plan(
                CreatableTopic(
                    name=name, num_partitions=topics.USE_BROKER_DEFAULT, replication_factor=topics.USE_BROKER_DEFAULT
                ),
                needs_racks=False,
            )
        except BrokerError as error:
            return error.code
        self._creating.add(name)
        self._spawn(self._create(planned))
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _create(self, planned: TopicPlan) -> None:
        try:
            await self._admin.create(planned, timeout_ms=self._config.zookeeper_session_timeout_ms)
        except BrokerError:
            pass  # The client repeats its request.
        finally:
            self._creating.discard(planned.name)
