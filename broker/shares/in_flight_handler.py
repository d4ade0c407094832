"""DescribeShareInFlight: the records of share partitions in flight, who holds them, and for how long yet.

Sordini's own request, to the leaders. A share partition that was not fetched since this broker leads it has nothing in
flight here. A response has a bound of runs; that there are more is told by `has_more`, and the next request begins
behind the last one. What changes between two requests may be told twice or not at all.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, on_group, on_topics
from sordini.broker.shares.led_share_partition import LedSharePartition, Phase
from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import RecordState
from sordini.broker.shares.machine.sessions import Target
from sordini.broker.shares.machine.share_partition import ShareLimits
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_share_in_flight import (
    DescribeShareInFlightRequest,
    DescribeShareInFlightResponse,
    ShareInFlightPartition,
    ShareInFlightRun,
    ShareInFlightTopicResult,
)
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock

RUNS_MAX: Final = 10_000
"""Of one response."""
RUNS_PER_STEP: Final = 5


class ShareInFlightHandler:
    """Reads the machines of share partitions; it changes nothing."""

    def __init__(self, partitions: SharePartitions, clock: Clock, runs_max: int = RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._partitions = partitions
        self._clock = clock

    def route(self) -> Route:
        rule = Both(on_group(AclOperation.DESCRIBE), on_topics(AclOperation.DESCRIBE))
        return Route(ApiKey.DESCRIBE_SHARE_IN_FLIGHT, self.describe, self.error_response, rule)

    def describe(self, call: Call) -> Work[DescribeShareInFlightResponse]:
        request: DescribeShareInFlightRequest = call.body
        left = self._runs_max
        limits = self._partitions.deps.settings_of(request.group_id).limits
        response = DescribeShareInFlightResponse()
        for topic in request.topics:
            answered = ShareInFlightTopicResult(name=topic.name)
            response.topics.append(answered)
            yield 1
            for index in topic.partitions:
                try:
                    found = self._described(request, limits, topic.name, index, left)
                except BrokerError as error:
                    found = _refused(index, error.code)
                yield 1 + len(found.runs) // RUNS_PER_STEP
                answered.partitions.append(found)
                left -= len(found.runs)
        return response

    def _described(
        self, request: DescribeShareInFlightRequest, limits: ShareLimits, topic: str, index: int, runs_left: int
    ) -> ShareInFlightPartition:
        """Raises BrokerError."""
        partition = self._partitions.leaders.replicas.partition(topic, index)
        partition.require_leader()
        row = ShareInFlightPartition(partition_index=index)
        shared = self._partitions.find(request.group_id, Target(partition.topic_id, index))
        row.lock_duration_ms, row.delivery_count_limit = limits.lock_ms, limits.delivery_count_max
        if shared is None or shared.phase is not Phase.LOADED:
            return row
        row.start_offset, row.end_offset = shared.machine.start, shared.machine.end
        runs_max = min(max(request.runs_max, 0), runs_left)
        for part in shared.machine.batches.parts_from(request.from_offset):
            if len(row.runs) >= runs_max:
                row.has_more = True
                break
            row.runs.append(self._run(shared, part))
        return row

    def _run(self, shared: LedSharePartition, part: Part) -> ShareInFlightRun:
        run = ShareInFlightRun(
            first_offset=part.first, last_offset=part.end - 1, state=part.state, delivery_count=part.deliveries
        )
        if part.state is RecordState.ACQUIRED:
            left_ms = part.deadline_ms - self._clock.monotonic_ms()
            run.member_id, run.lock_left_ms = part.member, max(left_ms, 0)
            run.acquired_ago_ms = max(shared.machine.limits.lock_ms - left_ms, 0)
        return run

    @staticmethod
    def error_response(request: DescribeShareInFlightRequest, code: ErrorCode) -> DescribeShareInFlightResponse:
        return DescribeShareInFlightResponse(
            error_code=code,
            topics=[
                ShareInFlightTopicResult(
                    name=topic.name, partitions=[_refused(index, code) for index in topic.partitions]
                )
                for topic in request.topics
            ],
        )


def _refused(index: int, code: ErrorCode) -> ShareInFlightPartition:
    return ShareInFlightPartition(partition_index=index, error_code=code)
