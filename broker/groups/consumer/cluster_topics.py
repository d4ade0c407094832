"""The cluster's topics, as consumer groups see them: names, ids, partition counts and hashes, of the metadata cache."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import Topic
from sordini.broker.groups.consumer.machine.topic_hashes import topic_hash
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.types import TopicId


class ClusterTopics:
    """A `Topics`."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    @property
    def version(self) -> int:
        """New leaders, in-sync replicas and live brokers do not change it: groups look at nothing again for them."""
        return self._metadata.placement_epoch

    def get(self, name: str) -> Topic | None:
        known = self._metadata.topics.get(name)
        return None if known is None else Topic(known.topic_id, len(known.partitions))

    def id_of(self, name: str) -> TopicId | None:
        known = self._metadata.topics.get(name)
        return None if known is None else known.topic_id

    def hash_of(self, name: str) -> int | None:
        """It is computed once for all groups, until it changes."""
        known = self._metadata.topics.get(name)
        if known is None:
            return None
        found = self._metadata.placement_hashes.get(name)
        if found is None:
            racks = [self._metadata.replica_racks(known, index) for index in range(len(known.partitions))]
            found = self._metadata.placement_hashes[name] = topic_hash(name, known.topic_id, racks)
        return found

    def name_of(self, topic_id: TopicId) -> str | None:
        return self._metadata.name_of(topic_id)
