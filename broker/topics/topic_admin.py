"""Creates, grows and deletes topics: requests become writes to the store, and the controller does the rest.

Requests are answered once the metadata has the result: new partitions have leaders, a deleted topic is gone. On timeout
the answer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.schema_libraries import check_schema_libraries
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.configuration.topic_config import TopicConfig, check_topic_configs
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.requests.store_error_codes import store_errors
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_partitions import CreatePartitionsTopic
from sordini.protocol.messages.create_topics import CreatableTopic
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import TopicAssignment
from sordini.replication.metadata_store import topics
from sordini.replication.ports import Session
from sordini.replication.replica_placement import Racks, brokers_without_rack, without_racks
from sordini.system.named_tuple import NamedTuple


class TopicPlan(NamedTuple):
    """A valid new topic: the replicas of its partitions and its resolved configuration."""

    name: str
    replicas: Mapping[int, tuple[BrokerId, ...]]
    config: TopicConfig


class TopicAdmin:
    """Creates, grows and deletes topics through the store."""

    def __init__(
        self,
        broker_id: BrokerId,
        session: Session,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        config: Config,
        new_topic_id: Callable[[], TopicId],
    ) -> None:
        self._broker_id = broker_id
        self._session = session
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._config = config
        self._new_topic_id = new_topic_id

    def check_controller(self) -> None:
        """Raise BrokerError NOT_CONTROLLER unless this broker is the controller."""
        if self._metadata.controller_id != self._broker_id:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, f"broker {self._metadata.controller_id} is the controller")

    def check_size(self, wanted: Sequence[CreatableTopic]) -> None:
        """Reject a request for more partitions than sordini.create.partitions.max."""
        defaults = self._config.num_partitions
        self.check_count(
            # A negative number is rejected later, and counts as one partition here.
            sum(
                defaults
                if topic.num_partitions == topics.USE_BROKER_DEFAULT and not topic.assignments
                else max(topic.num_partitions, len(topic.assignments), 1)
                for topic in wanted
            )
        )

    def check_count(self, count: int) -> None:
        """Reject a request that creates or deletes too many."""
        if count > self._config.create_topic_partitions_max:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION,
                f"{count} are too many for one request; "
                f"sordini.create.partitions.max is {self._config.create_topic_partitions_max}",
            )

    def plan(self, topic: CreatableTopic, *, needs_racks: bool = True) -> TopicPlan:
        """Validate a new topic; raises BrokerError with Apache Kafka's error code.

        Without `needs_racks`, where only some brokers have a rack, racks are ignored instead of raising: auto-creation
        must not fail because of that.
        """
        configs = {entry.name: entry.value for entry in topic.configs}
        racks: Racks = self._metadata.racks
        if not needs_racks and brokers_without_rack(racks):
            racks = without_racks(racks)
        replicas = topics.plan_topic(
            topic.name,
            num_partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignments=[(row.partition_index, row.broker_ids) for row in topic.assignments],
            racks=racks,
            existing=self._metadata.topics,
            default_partitions=self._config.num_partitions,
            default_replication_factor=self._config.default_replication_factor,
        )
        try:
            check_topic_configs(configs)
            check_schema_libraries(configs)
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
        given = {key: value for key, value in configs.items() if value is not None}
        return TopicPlan(topic.name, replicas, self._topic_configs.resolve(given))

    async def partition_count(self, name: str) -> int:
        """The number of a topic's partitions in the store; raises BrokerError for an unknown topic."""
        with store_errors():
            return await topics.count_partitions(self._session, name)

    async def check_absent(self, name: str) -> None:
        """Raise TOPIC_ALREADY_EXISTS if the store has the topic; the metadata drops a deleted one earlier."""
        with store_errors():
            await topics.check_absent(self._session, name)

    async def create(self, planned: TopicPlan, *, timeout_ms: int) -> TopicId:
        """Create a topic and wait until it has leaders.

        Raises BrokerError: TOPIC_ALREADY_EXISTS, REQUEST_TIMED_OUT (the topic may be created all the same).
        """
        topic_id = self._new_topic_id()
        with store_errors():
            await topics.create_topic(self._session, planned.name, planned.replicas, topic_id, planned.config.overrides)
        await self._until(lambda: self._has_leaders(planned.name, planned.replicas), timeout_ms)
        return topic_id

    def check_growth(self, wanted: Iterable[CreatePartitionsTopic]) -> None:
        """Reject a request for more new partitions than sordini.create.partitions.max."""
        self.check_count(sum(max(topic.count - self._partitions_of(topic.name), 1) for topic in wanted))

    async def grow(
        self,
        wanted: CreatePartitionsTopic,
        *,
        timeout_ms: int,
        validate_only: bool,
        spend: Callable[[int], None] | None = None,
    ) -> None:
        """Add partitions to a topic and wait until they have leaders.

        `spend` is called once with their number before they are written; it may refuse by BrokerError.
        Raises BrokerError with Apache Kafka's error code, and REQUEST_TIMED_OUT (they may be created all the same).
        """
        assignments = None if wanted.assignments is None else [row.broker_ids for row in wanted.assignments]
        if topics.unknown_topic_code(wanted.name) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # An invalid name must not become a path in the store.
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {wanted.name!r} does not exist.")
        spends = [spend] if spend is not None else []

        def plan(topic: TopicAssignment) -> topics.Replicas:
            more = topics.plan_more_partitions(topic, wanted.count, assignments, self._metadata.racks)
            while spends:  # Once, though another writer may be faster and the plan is made again.
                spends.pop()(len(more))
            return more

        with store_errors():
            more = await topics.add_partitions(self._session, wanted.name, plan, validate_only=validate_only)
        if not validate_only:
            await self._until(lambda: self._has_leaders(wanted.name, more), timeout_ms)

    async def delete(self, name: str, *, timeout_ms: int) -> None:
        """Delete a topic and wait until it is gone.

        Raises BrokerError: TOPIC_DELETION_DISABLED, REQUEST_TIMED_OUT (it will be deleted all the same).
        """
        if not self._config.delete_topic_enable:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        with store_errors():
            await topics.delete_topic(self._session, name)
        await self._until(lambda: name not in self._metadata.topics, timeout_ms)

    def _partitions_of(self, name: str) -> int:
        known = self._metadata.topics.get(name)
        return 0 if known is None else len(known.partitions)

    def _has_leaders(self, name: str, partitions: Iterable[int]) -> bool:
        known = self._metadata.topics.get(name)
        return known is not None and all(
            index in known.partitions and known.partitions[index].leader >= 0 for index in partitions
        )

    async def _until(self, true: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until `true` holds in the metadata; raises BrokerError REQUEST_TIMED_OUT."""
        if timeout_ms <= 0:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, "the request has no time left to wait")
        if not await self._metadata.until(true, timeout_ms):
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, "not completed yet")
