"""Produce: record batches from clients to the ends of logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sordini.broker.clock import Clock
from sordini.broker.dispatch import Call, Route
from sordini.broker.network.ports import Pending
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sordini.protocol.records.produced import check_produced
from sordini.protocol.types import TopicId
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

ADMIN_CLIENT_ID = "__admin_client"

Later = Callable[[Call, Awaitable[Any]], Pending]


class ProduceHandler:
    """Appends what producers send. Every partition has an error code of its own; one failing disturbs no other."""

    def __init__(self, replicas: ReplicaSet, clock: Clock, later: Later) -> None:
        self._replicas = replicas
        self._clock = clock
        self._later = later

    def route(self) -> Route:
        return Route(ApiKey.PRODUCE, self.handle, self.refuse)

    def handle(self, call: Call) -> ProduceResponse | Pending | None:
        request: ProduceRequest = call.body
        acks = request.acks
        if acks not in (1, -1, 0):
            return self.refuse(request, ErrorCode.INVALID_REQUIRED_ACKS)
        now_ms = self._clock.now_ms()
        grown: list[Partition] = []
        response = ProduceResponse()
        refused = 0
        for topic in request.topic_data:
            answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            response.responses.append(answered)
            for data in topic.partition_data:
                answer = self._append(call, topic, data, now_ms, grown)
                refused += answer.error_code != 0
                answered.partition_responses.append(answer)
        needs_flush = False
        for partition in grown:
            partition.tell_waiters()
            needs_flush = needs_flush or partition.log.needs_flush
        if needs_flush:
            return self._later(call, self._flush(grown, response))
        if acks == 0:
            if refused:
                # There is no answer that could carry the error: a closed connection is how Kafka tells it.
                raise WireError(f"produce with acks=0 was refused for {refused} partitions")
            return None
        return response

    def _append(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        grown: list[Partition],
    ) -> PartitionProduceResponse:
        try:
            if call.version >= 13:
                partition = self._replicas.partition_by_id(TopicId(topic.topic_id), data.index)
            else:
                partition = self._replicas.partition(topic.name, data.index)
            if partition.is_internal and call.client_id != ADMIN_CLIENT_ID:
                raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not produce to internal topics")
            if data.records is None:
                raise BrokerError(ErrorCode.INVALID_RECORD, "a produce request must bring records")
            checked = check_produced(data.records, partition.settings.rules, now_ms, produce_version=call.version)
            appended = partition.append(checked, now_ms, all_replicas=call.body.acks == -1)
        except BrokerError as error:
            return PartitionProduceResponse(
                index=data.index, error_code=error.code, base_offset=-1, error_message=str(error)
            )
        except StorageError as error:
            return PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.KAFKA_STORAGE_ERROR, base_offset=-1, error_message=str(error)
            )
        if not appended.duplicate:
            grown.append(partition)
        return PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    async def _flush(self, grown: list[Partition], response: ProduceResponse) -> ProduceResponse:
        for partition in grown:
            if partition.log.needs_flush:
                await partition.log.flush()
        return response

    @staticmethod
    def refuse(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
        """The same code for every partition asked for."""
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )
