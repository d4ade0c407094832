"""A seeded administrator: describes and deletes groups and offsets, changes topics, and reads on its own account.

It also is a simple consumer: it commits for a group without members, which is what it mostly deletes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import consumer_group_describe
from sordini.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address, SimNetwork
from tests.sim.client import Connection
from tests.sim.group_client import TIMEOUT_S, TryAgain, partition_counts
from tests.sim.group_history import FOREVER, Forgetting, Listed, Outcome
from tests.sim.history import History
from tests.sim.offsets_client import LATER, OffsetsClient, Who

SIMPLE_GROUP = "simple"
BRIEF_GROUP = "brief"
"""Its member is mostly away, so that it can be deleted."""
FIXED_TOPIC = "work"
GROWING_TOPIC = "jobs"
PASSING_TOPIC = "drafts"
PARTITIONS_MAX = 5
FORGOTTEN_WITHIN_S = 2.0
"""How long after the deletion of a topic its offsets may yet go."""
TOPIC = 2
NOT_DELETED = (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
GONE = (*NOT_DELETED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
FINE_OF_TOPICS = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
PLACES = [TopicPartition(FIXED_TOPIC, 0), TopicPartition(PASSING_TOPIC, 0), TopicPartition(PASSING_TOPIC, 1)]


class GroupAdmin:
    """Does one thing after the other, each over a connection of its own."""

    def __init__(self, network: SimNetwork, address: Address, history: History, groups: list[str], seed: int) -> None:
        self._network = network
        self._loop = network.loop
        self._address = address
        self._all = history
        self._history = history.groups
        self._groups = [*groups, SIMPLE_GROUP]
        self._random = random.Random(f"group admin {seed}")
        self._simple = OffsetsClient("simple", network, history.groups, SIMPLE_GROUP)
        self.connection: Connection | None = None

    async def run(self, until: float, gap_s: float) -> None:
        actions = [
            self._commit,
            self._commit,
            self._commit,
            self._read,
            self._read,
            self._describe,
            self._delete_offsets,
            self._delete_offsets,
            self._delete_group,
            self._delete_group,
            self._grow,
            self._delete_records,
            self._alter,
            self._rebuild,
        ]
        while True:
            await asyncio.sleep(self._random.expovariate(1 / gap_s))
            if self._loop.time() >= until:
                return
            action = self._random.choice(actions)
            try:
                self.connection = await Connection.open(self._network, self._address, "admin")
                await action(self.connection)
            except (OSError, TryAgain, TimeoutError):
                continue
            finally:
                if self.connection is not None:
                    self.connection.close()
                    self.connection = None

    async def describe(self, connection: Connection, names: list[str] | None = None) -> DescribeGroupsResponse:
        request = DescribeGroupsRequest(groups=self._groups if names is None else names)
        answer: DescribeGroupsResponse = await self._ask(connection, ApiKey.DESCRIBE_GROUPS, 5, request)
        return answer

    async def describe_consumers(
        self, connection: Connection, names: set[str]
    ) -> Sequence[consumer_group_describe.DescribedGroup]:
        """Groups whose coordinator assigns; a classic group has the error GROUP_ID_NOT_FOUND."""
        request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=sorted(names))
        answer = await self._ask(connection, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)
        groups: Sequence[consumer_group_describe.DescribedGroup] = answer.groups
        return groups

    # As a simple consumer.

    async def _commit(self, connection: Connection) -> None:
        partitions = self._random.sample(PLACES, self._random.randint(1, len(PLACES)))
        code = await self._simple.commit(connection, self._random.choice((2, 5, 7, 9)), Who(), sorted(partitions))
        self._check("OffsetCommit", code, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT))

    async def _read(self, connection: Connection) -> None:
        named = PLACES if self._random.random() < 0.5 else []
        await self._simple.fetch(connection, self._random.choice((2, 5, 7, 9)), named)

    # Groups.

    async def _describe(self, connection: Connection) -> None:
        began = self._loop.time()
        for group in (await self.describe(connection)).groups:
            self._check("DescribeGroups", group.error_code, LATER)
            ids = [member.member_id for member in group.members]
            if len(set(ids)) < len(ids):
                self._history.strange.append(f"{group.group_id} has a member twice: {ids}")
            self._history.listed.append(Listed(group.group_id, frozenset(ids), began, self._loop.time()))

    async def _delete_offsets(self, connection: Connection) -> None:
        group_id = self._random.choice((*self._groups, SIMPLE_GROUP, BRIEF_GROUP, BRIEF_GROUP))
        place = self._random.choice(PLACES)
        began = self._loop.time()
        outcome: Outcome = "info"
        topic = OffsetDeleteRequestTopic(
            name=place.topic, partitions=[OffsetDeleteRequestPartition(partition_index=place.partition)]
        )
        try:
            request = OffsetDeleteRequest(group_id=group_id, topics=[topic])
            answer = await self._ask(connection, ApiKey.OFFSET_DELETE, 0, request)
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            self._check("OffsetDelete", code, (*GONE, *LATER, ErrorCode.REQUEST_TIMED_OUT))
            outcome = "no" if code in GONE else "ok" if not code else "info"
        finally:
            self._forget(group_id, frozenset([place]), began, outcome)

    async def _delete_group(self, connection: Connection) -> None:
        group_id = self._random.choice((*self._groups, SIMPLE_GROUP, BRIEF_GROUP, BRIEF_GROUP))
        began = self._loop.time()
        outcome: Outcome = "info"
        try:
            request = DeleteGroupsRequest(groups_names=[group_id])
            answer = await self._ask(connection, ApiKey.DELETE_GROUPS, self._random.choice((0, 1, 2)), request)
            code = answer.results[0].error_code
            self._check("DeleteGroups", code, (*NOT_DELETED, *LATER, ErrorCode.REBALANCE_IN_PROGRESS))
            outcome = "no" if code in NOT_DELETED else "ok" if not code else "info"
        finally:
            self._forget(group_id, None, began, outcome)

    def _forget(
        self,
        group_id: str | None,
        partitions: frozenset[TopicPartition] | None,
        began: float,
        outcome: Outcome,
        latest: float = FOREVER,
    ) -> None:
        self._network.trace.note("admin", "forget", group_id, outcome)
        gone = Forgetting(group_id, partitions, began, self._loop.time(), outcome, latest)
        self._history.forgettings.append(gone)

    # Topics.

    async def _grow(self, connection: Connection) -> None:
        counts = await partition_counts(connection, [GROWING_TOPIC])
        if counts[GROWING_TOPIC] < PARTITIONS_MAX:
            topic = CreatePartitionsTopic(name=GROWING_TOPIC, count=counts[GROWING_TOPIC] + 1, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=3_000)
            answer = await self._ask(connection, ApiKey.CREATE_PARTITIONS, 3, request)
            self._check("CreatePartitions", answer.results[0].error_code, FINE_OF_TOPICS)

    async def _delete_records(self, connection: Connection) -> None:
        """Write a record, and delete all there are."""
        value = f"admin-{len(self._all.attempted)}"
        self._all.attempted.add(value)
        batch = build_batch([Record(0, 1, b"", value.encode())])
        data = TopicProduceData(
            name=GROWING_TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))]
        )
        produced = await self._ask(
            connection, ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[data])
        )
        reported = produced.responses[0].partition_responses[0]
        if reported.error_code:
            return
        partition = DeleteRecordsPartition(partition_index=0, offset=-1)
        topic = DeleteRecordsTopic(name=GROWING_TOPIC, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=3_000)
        answer = await self._ask(connection, ApiKey.DELETE_RECORDS, 2, request)
        deleted = answer.topics[0].partitions[0]
        self._check("DeleteRecords", deleted.error_code, FINE_OF_TOPICS)
        if not deleted.error_code and deleted.low_watermark <= reported.base_offset:
            self._history.strange.append(
                f"records deleted up to @{deleted.low_watermark}, @{reported.base_offset} was there"
            )

    async def _alter(self, connection: Connection) -> None:
        """Make the segments of __consumer_offsets smaller or larger."""
        size = str(self._random.choice((3_000, 30_000, 1_000_000)))
        resource = AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="__consumer_offsets",
            configs=[AlterableConfig(name="segment.bytes", config_operation=0, value=size)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self._ask(connection, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        self._check("IncrementalAlterConfigs", answer.responses[0].error_code, FINE_OF_TOPICS)

    async def _rebuild(self, connection: Connection) -> None:
        """Delete a topic, whose offsets go with it, and make it again."""
        began = self._loop.time()
        outcome: Outcome = "info"
        try:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=PASSING_TOPIC)], timeout_ms=3_000)
            answer = await self._ask(connection, ApiKey.DELETE_TOPICS, 6, request)
            code = answer.responses[0].error_code
            self._check("DeleteTopics", code, FINE_OF_TOPICS)
            outcome = "info" if code else "later"
        finally:
            places = frozenset(place for place in PLACES if place.topic == PASSING_TOPIC)
            self._forget(None, places, began, outcome, self._loop.time() + FORGOTTEN_WITHIN_S)
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name=PASSING_TOPIC, num_partitions=2, replication_factor=1)], timeout_ms=3_000
        )
        answer = await self._ask(connection, ApiKey.CREATE_TOPICS, 7, create)
        self._check("CreateTopics", answer.topics[0].error_code, FINE_OF_TOPICS)
        await asyncio.sleep(FORGOTTEN_WITHIN_S)
        await self._simple.fetch(connection, 7, PLACES)

    async def _ask(self, connection: Connection, api_key: ApiKey, version: int, request: Any) -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return await connection.request(api_key, version, request)

    def _check(self, what: str, code: int, allowed: tuple[ErrorCode, ...]) -> None:
        if code and code not in allowed:
            text = f"the administrator's {what} was answered with {ErrorCode(code).name} at {self._loop.time():.3f}"
            self._history.strange.append(text)
