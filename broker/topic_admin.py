"""Making and deleting topics: requests become writes to the coordination store, and the controller does the rest.

What a client is answered is what the cluster then knows: a created topic is reported once its partitions have
leaders here, a deleted one once it is gone from the metadata, or with REQUEST_TIMED_OUT when that takes too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from sordini.broker.config import Config
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.settings import ConfigError
from sordini.broker.topic_config import TopicConfig, check_topic_configs
from sordini.broker.topic_configs import TopicConfigs
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.controller.topics import (
    TopicPlan,
    check_topic_name,
    create_topic,
    delete_topic,
    plan_topic,
)
from sordini.replication.ports import CoordinationStore

NewTopicId = Callable[[], TopicId]
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Planned(NamedTuple):
    """A topic that may be made: where its partitions go and what its configuration comes out as."""

    plan: TopicPlan
    config: TopicConfig


class TopicAdmin:
    """Creates and deletes topics through the store."""

    def __init__(
        self,
        store: CoordinationStore,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        config: Config,
        new_topic_id: NewTopicId,
        spawn: Spawn,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._config = config
        self._new_topic_id = new_topic_id
        self._spawn = spawn
        self._being_made: set[str] = set()

    def plan(self, topic: CreatableTopic) -> Planned:
        """Check all that is asked for a topic; raises BrokerError with Apache Kafka's code for what is wrong."""
        check_topic_name(topic.name)
        plan = plan_topic(
            topic.name,
            num_partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments={row.partition_index: row.broker_ids for row in topic.assignments},
            brokers=self._metadata.brokers,
            existing=self._metadata.topics,
            default_partitions=self._config.num_partitions,
            default_replication_factor=self._config.default_replication_factor,
        )
        return Planned(plan, self._resolve(topic))
