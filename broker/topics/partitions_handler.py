"""CreatePartitions, ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.quotas.mutation_quota import MutationQuota, MutationQuotas
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.security.rules.simple_rules import on_cluster, on_topics
from sordini.broker.topics.partition_admin import Outcomes, PartitionAdmin
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from sordini.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from sordini.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from sordini.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.metadata_store.acl_model import AclOperation

REFUSED = "The request as a whole was refused."

TOPIC_STEPS = 50
"""Steps to start with one topic."""


class PartitionsHandler:
    """Creates, elects and reassigns partitions by way of the controller."""

    def __init__(
        self,
        topics: TopicAdmin,
        partitions: PartitionAdmin,
        later: RespondLater,
        slices: SliceScheduler,
        quotas: MutationQuotas,
    ) -> None:
        self._slices = slices
        self._quotas = quotas
        self._topics = topics
        self._partitions = partitions
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.CREATE_PARTITIONS,
                self.create,
                self.create_error_response,
                on_topics(AclOperation.ALTER, rows="results"),
            ),
            Route(
                ApiKey.ELECT_LEADERS,
                lambda call: self._later(call, self._elect(call.body)),
                self.elect_error_response,
                on_cluster(AclOperation.ALTER),
            ),
            Route(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                lambda call: self._later(call, self._reassign(call.body)),
                self.refuse_reassign,
                on_cluster(AclOperation.ALTER),
            ),
            Route(
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                self.list_reassignments,
                self.list_error_response,
                on_cluster(AclOperation.DESCRIBE),
            ),
        ]

    # CreatePartitions.

    def create(self, call: Call) -> DelayedResponse:
        quota = self._quotas.of(ApiKey.CREATE_PARTITIONS, call.version, call.peer, call.client_id)
        return self._later(call, self._create(call.body, quota))

    async def _create(self, request: CreatePartitionsRequest, quota: MutationQuota) -> CreatePartitionsResponse:
        self._topics.check_controller()
        self._topics.check_growth(request.topics)
        counts = Counter(topic.name for topic in request.topics)
        once = {topic.name: topic for topic in request.topics}
        results = await self._slices.gather(
            once.values(), lambda topic: self._grow(request, topic, counts, quota), steps_each=TOPIC_STEPS
        )
        return CreatePartitionsResponse(throttle_time_ms=quota.throttle(), results=results)

    async def _grow(
        self,
        request: CreatePartitionsRequest,
        topic: CreatePartitionsTopic,
        counts: Counter[str],
        quota: MutationQuota,
    ) -> CreatePartitionsTopicResult:
        try:
            if counts[topic.name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the topic is named more than once in this request")
            spend = None if request.validate_only else quota.spend
            await self._topics.grow(
                topic, timeout_ms=request.timeout_ms, validate_only=request.validate_only, spend=spend
            )
        except BrokerError as error:
            return CreatePartitionsTopicResult(
                name=topic.name,
                error_code=error.code,
                error_message=None if error.code == ErrorCode.REQUEST_TIMED_OUT else str(error),
            )
        return CreatePartitionsTopicResult(name=topic.name)

    @staticmethod
    def create_error_response(request: CreatePartitionsRequest, code: ErrorCode) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=REFUSED)
                for topic in request.topics
            ]
        )

    # ElectLeaders.

    async def _elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        try:
            election = ElectionType(request.election_type)
        except ValueError:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"unknown election type {request.election_type}") from None
        wanted = None
        if request.topic_partitions is not None:
            wanted = [
                TopicPartition(topic.topic, index)
                async for topic in self._slices.paced(request.topic_partitions)
                async for index in self._slices.paced(topic.partitions)
            ]
        outcomes = await self._partitions.elect(election, wanted, timeout_ms=request.timeout_ms)
        return await self._slices.run(_elected(outcomes))

    @staticmethod
    def elect_error_response(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
        response = ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        PartitionResult(partition_id=index, error_code=code, error_message=REFUSED)
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ]
        )
        response.error_code = code
        return response

    # AlterPartitionReassignments and ListPartitionReassignments.

    async def _reassign(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        targets = {
            TopicPartition(topic.name, row.partition_index): None
            if row.replicas is None
            else tuple(BrokerId(broker) for broker in row.replicas)
            async for topic in self._slices.paced(request.topics)
            async for row in self._slices.paced(topic.partitions)
        }
        outcomes = await self._partitions.reassign(
            targets, timeout_ms=request.timeout_ms, keep_factor=not request.allow_replication_factor_change
        )
        response = await self._slices.run(_reassigned(outcomes))
        response.allow_replication_factor_change = request.allow_replication_factor_change
        return response

    @staticmethod
    def refuse_reassign(
        request: AlterPartitionReassignmentsRequest, code: ErrorCode
    ) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            error_code=code,
            error_message=REFUSED,
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        ReassignablePartitionResponse(
                            partition_index=row.partition_index, error_code=code, error_message=REFUSED
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def list_reassignments(self, call: Call) -> Work[ListPartitionReassignmentsResponse]:
        request: ListPartitionReassignmentsRequest = call.body
        ongoing = self._partitions.ongoing_reassignments()
        if request.topics is not None:
            wanted = set()
            for topic in request.topics:
                yield 1
                for index in topic.partition_indexes:
                    wanted.add((topic.name, index))
                    yield 1
            ongoing = [one for one in ongoing if one.topic_partition in wanted]
        return ListPartitionReassignmentsResponse(
            topics=[
                OngoingTopicReassignment(
                    name=name,
                    partitions=[
                        OngoingPartitionReassignment(
                            partition_index=one.topic_partition.partition,
                            replicas=list(one.replicas),
                            adding_replicas=list(one.adding),
                            removing_replicas=list(one.removing),
                        )
                        for one in of_topic
                    ],
                )
                for name, of_topic in groupby(ongoing, key=lambda reassigned: reassigned.topic_partition.topic)
            ]
        )

    @staticmethod
    def list_error_response(
        _request: ListPartitionReassignmentsRequest, code: ErrorCode
    ) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_code=code, error_message=REFUSED)


def _elected(outcomes: Outcomes) -> Work[ElectLeadersResponse]:
    response = ElectLeadersResponse()
    for name, rows in (yield from _by_topic(outcomes)):
        result = ReplicaElectionResult(topic=name)
        response.replica_election_results.append(result)
        for index, code, text in rows:
            result.partition_result.append(PartitionResult(partition_id=index, error_code=code, error_message=text))
            yield 1
    return response


def _reassigned(outcomes: Outcomes) -> Work[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse()
    for name, rows in (yield from _by_topic(outcomes)):
        topic = ReassignableTopicResponse(name=name)
        response.responses.append(topic)
        for index, code, text in rows:
            row = ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=text)
            topic.partitions.append(row)
            yield 1
    return response


def _by_topic(outcomes: Outcomes) -> Work[Iterable[tuple[str, list[tuple[int, int, str | None]]]]]:
    """Rows of partition, error code and message, by topic."""
    rows: dict[str, list[tuple[int, int, str | None]]] = {}
    for (name, index), rejection in outcomes.items():
        row = (index, 0, None) if rejection is None else (index, int(rejection.code), rejection.reason)
        rows.setdefault(name, []).append(row)
        yield 1
    return rows.items()
