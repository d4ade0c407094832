"""Produce: append record batches of clients.

A request is validated and appended at once, within a `WorkBudget`. When that is spent, a coroutine does the rest:
records that must be decompressed or decoded are validated by a child process (`record_jobs`), and between partitions
the loop serves other clients. No other request of the connection starts before all is appended, so appends stay in
order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from sordini.broker.dispatch import Call, RespondLater, Route
from sordini.broker.handlers.acknowledging import respond_when_finished
from sordini.broker.handlers.produce_verification import Beginning, ProduceVerification, finish
from sordini.broker.membership.store_contact import NO_DOUBT, Doubt
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.record_jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.broker.transactions.verification import TransactionGate, Verification
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused, WireError
from sordini.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.records.jobs import CheckJob
from sordini.protocol.records.legacy_validation import OffsetMessages, Storable, WrongBaseOffset
from sordini.protocol.records.peek import first_header, is_transactional
from sordini.protocol.records.produce_validation import CheckedBatches, check_produced
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from sordini.protocol.types import TopicId
from sordini.replication.acks import PartitionAppend, UnfinishedAppends, finish_appends
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater, Clock
from sordini.replication.refused_batches import RefusedBatches
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

ADMIN_CLIENT_ID = "__admin_client"

BEFORE_THE_LOG = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors that are answered without the log start offset, as by Apache Kafka."""

PARTITION_STEPS: Final = 20
"""The cost of each partition in a request with more than one, whatever its records are."""
ROW_STEPS: Final = 1_000
"""What one partition may cost on the loop once a request has cost too much; records that cost more become a job."""
ROWS_PER_SLICE: Final = 10
CHECKS_MAX: Final = 5
"""How often records are validated again because the topic, its configuration or the log end changed meanwhile."""

Checked = CheckedBatches | OffsetMessages


class ProduceHandler:
    """Appends the batches of produce requests. Each partition has its own error code."""

    def __init__(
        self,
        replicas: ReplicaSet,
        clock: Clock,
        later: RespondLater,
        call_later: CallLater,
        gate: TransactionGate,
        jobs: JobQueue,
        doubt: Doubt = NO_DOUBT,
    ) -> None:
        """While there is `doubt` whether this broker still leads, requests with acks=0 and acks=1 are refused."""
        self._doubt = doubt
        self._transactions = ProduceVerification(replicas, gate)
        self._replicas = replicas
        self._clock = clock
        self._later = later
        self._refused_batches = RefusedBatches()
        self._call_later = call_later
        self._jobs = jobs
        self._budget = WorkBudget()
        """Of the current request; one object for all requests, since each is handled without an await."""

    def route(self) -> Route:
        return Route(ApiKey.PRODUCE, self.handle, self.error_response)

    def handle(self, call: Call) -> ProduceResponse | DelayedResponse | None:
        request: ProduceRequest = call.body
        acks = request.acks
        if acks not in (1, -1, 0):
            return self.error_response(request, ErrorCode.INVALID_REQUIRED_ACKS)
        if self._doubt.is_doubtful and acks != -1:
            if acks == 0:
                raise WireError("produce with acks=0 was refused: another broker may lead by now")
            return self.error_response(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topics = request.topic_data
        has_many = len(topics) != 1 or len(topics[0].partition_data) > 1
        if has_many and _has_duplicates(request):
            if acks == 0:
                raise WireError("produce with acks=0 names a partition twice")
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.now_ms()
        appends: list[PartitionAppend] = []
        response = ProduceResponse()
        verification = None if request.transactional_id is None else self._transactions.begin(call)
        if isinstance(verification, Beginning) or (verification is not None and not verification.is_done):
            return self._continue_later(call, response, appends, verification)
        refused = 0
        budget = self._budget
        budget.left = INLINE_STEPS
        try:
            for topic in topics:
                if not topic.partition_data:
                    continue
                answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
                response.responses.append(answered)
                for data in topic.partition_data:
                    if has_many:
                        budget.spend(PARTITION_STEPS)
                    answer = self._append(call, topic, data, now_ms, appends, verification)
                    refused += answer.error_code != 0
                    answered.partition_responses.append(answer)
        except BudgetExceeded:
            return self._continue_later(call, response, appends, verification)
        unfinished = finish_appends(appends, all_replicas=acks == -1)
        if refused > 1:
            _bound_record_errors(response)
        if acks == 0 and refused:
            # There is no response that could carry the error: like Apache Kafka, close the connection.
            raise WireError(f"produce with acks=0 was refused for {refused} partitions")
        if unfinished is None:
            return response if acks else None
        if acks == 0:
            return self._later(call, self._flush_unacknowledged(unfinished))
        return respond_when_finished(call, response, unfinished, self._later, self._call_later, request.timeout_ms)

    def _append(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        appends: list[PartitionAppend],
        verification: Verification | None,
        checked: Checked | BrokerError | None = None,
    ) -> PartitionProduceResponse:
        """Append the records for one partition; `checked` is the result of their validation, if that is done.

        Raises BudgetExceeded when it takes too long, and WrongBaseOffset when it was done for another log end offset.
        """
        partition: Partition | None = None
        try:
            if call.version >= 13:
                partition = self._replicas.partition_by_id(TopicId(topic.topic_id), data.index)
            else:
                partition = self._replicas.partition(topic.name, data.index)
            if partition.is_internal and call.client_id != ADMIN_CLIENT_ID:
                raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not produce to internal topics")
            if data.records is None:
                raise BrokerError(ErrorCode.INVALID_RECORD, "a produce request must have records")
            if is_transactional(data.records) and (header := first_header(data.records)) is not None:
                self._transactions.check(call, partition, header, verification)
            ready: Storable
            if checked is None:
                ready = check_produced(
                    data.records, partition.settings.rules, now_ms, produce_version=call.version, budget=self._budget
                )
            elif isinstance(checked, BrokerError):
                raise checked
            else:
                ready = checked
            appended = partition.append(ready, now_ms, all_replicas=call.body.acks == -1)
        except (BrokerError, StorageError) as problem:
            error = problem if isinstance(problem, BrokerError) else _storage_error(problem)
            if (header := first_header(data.records)) is not None:
                # As the request names it: a broker that has just started may not know the partition yet.
                name = topic.topic_id if call.version >= 13 else topic.name
                error = self._refused_batches.error_for(
                    (name, data.index), header, error, self._clock.monotonic_ms(), _new_term(partition, header)
                )
            return _refused(data.index, error, partition)
        if not ready.batches:  # Old clients may send an empty message set: nothing was appended.
            return PartitionProduceResponse(index=data.index, base_offset=-1)
        # A duplicate, too, is answered only when it is flushed: its first response may never have been sent.
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        appends.append(PartitionAppend(partition, partition.require_leader(), appended.end_offset, answer))
        return answer

    def _continue_later(
        self,
        call: Call,
        response: ProduceResponse,
        appends: list[PartitionAppend],
        verification: Verification | Beginning | None,
    ) -> DelayedResponse:
        """Append the remaining partitions in a coroutine, without blocking the loop."""

        def unblock_pipeline() -> None:
            pending.unblock_pipeline()

        work = self._append_rest(call, response, appends, verification, unblock_pipeline)
        pending = self._later(call, work, blocks_pipeline=True)
        return pending

    async def _append_rest(
        self,
        call: Call,
        response: ProduceResponse,
        appends: list[PartitionAppend],
        beginning: Verification | Beginning | None,
        unblock_pipeline: Callable[[], None],
    ) -> ProduceResponse | None:
        request: ProduceRequest = call.body
        verification = await finish(beginning)
        rows = [(topic, data) for topic in request.topic_data for data in topic.partition_data]
        allowance = CpuAllowance(sum(len(data.records or b"") for _, data in rows))
        done = sum(len(topic.partition_responses) for topic in response.responses)
        answered, current = TopicProduceResponse(), None
        if response.responses:
            answered, current = response.responses[-1], rows[done][0]
        for number, (topic, data) in enumerate(rows[done:], 1):
            if topic is not current:
                answered, current = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id), topic
                response.responses.append(answered)
            answer = await self._append_slowly(call, topic, data, appends, verification, allowance)
            answered.partition_responses.append(answer)
            if number % ROWS_PER_SLICE == 0:
                finish_appends(appends, all_replicas=False)
                await asyncio.sleep(0)
        unfinished = finish_appends(appends, all_replicas=request.acks == -1)
        refused = sum(answer.error_code != 0 for topic in response.responses for answer in topic.partition_responses)
        _bound_record_errors(response)
        if request.acks == 0 and refused:
            raise WireError(f"produce with acks=0 was refused for {refused} partitions")
        unblock_pipeline()
        if request.acks == 0:
            if unfinished is not None:
                await self._flush_unacknowledged(unfinished)
            return None
        if unfinished is not None:
            await unfinished.wait(self._call_later, request.timeout_ms)
        return response

    async def _append_slowly(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        appends: list[PartitionAppend],
        verification: Verification | None,
        allowance: CpuAllowance,
    ) -> PartitionProduceResponse:
        """As `_append`, but records that take too long are validated by a child process."""
        checked: Checked | BrokerError | None = None
        now_ms = self._clock.now_ms()
        for _ in range(CHECKS_MAX):
            self._budget.left = ROW_STEPS
            try:
                return self._append(call, topic, data, now_ms, appends, verification, checked)
            except (BudgetExceeded, WrongBaseOffset):
                finish_appends(appends, all_replicas=False)
                now_ms = self._clock.now_ms()
                checked = await self._check(call, topic, data, now_ms, allowance)
        problem = BrokerError(RETRY, "the topic keeps changing")
        return self._append(call, topic, data, now_ms, appends, verification, problem)

    async def _check(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        allowance: CpuAllowance,
    ) -> Checked | BrokerError | None:
        """Have records validated; the result or the error. None: the topic has changed meanwhile."""
        assert data.records is not None
        try:
            partition = self._partition(call, topic, data)
            rules = partition.settings.rules
            job = CheckJob(data.records, rules, now_ms, call.version, partition.log.log_end_offset)
            outcome = await self._jobs.run(job, allowance, call.peer.address)
            is_same = self._partition(call, topic, data) is partition and partition.settings.rules == rules
        except BrokerError as error:
            return error
        assert isinstance(outcome, (CheckedBatches, OffsetMessages))
        return outcome if is_same else None

    def _partition(self, call: Call, topic: TopicProduceData, data: PartitionProduceData) -> Partition:
        if call.version >= 13:
            return self._replicas.partition_by_id(TopicId(topic.topic_id), data.index)
        return self._replicas.partition(topic.name, data.index)

    async def _flush_unacknowledged(self, unfinished: UnfinishedAppends) -> None:
        """Flush after acks=0; there is no response that could carry an error."""
        with contextlib.suppress(BrokerError):
            await unfinished.wait(self._call_later, 0)

    @staticmethod
    def error_response(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
        """The same code for every partition of the request.

        Raises WireError for acks=0: such a request has no response, and the next one would be taken for it.
        """
        if request.acks == 0:
            raise WireError(f"produce with acks=0 was refused: {code.name}")
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


def _has_duplicates(request: ProduceRequest) -> bool:
    """Whether a partition is named twice: Apache Kafka silently drops the first one's records."""
    seen: set[tuple[str, bytes, int]] = set()
    count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            seen.add((topic.name, topic.topic_id, data.index))
            count += 1
    return len(seen) != count


def _bound_record_errors(response: ProduceResponse) -> None:
    """List no more invalid records in a response than for one partition; the error messages have the counts."""
    left = RecordsRefused.LISTED_MAX
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.record_errors:
                del answer.record_errors[left:]
                left -= len(answer.record_errors)


def _new_term(partition: Partition | None, header: BatchHeader) -> int | None:
    """The leader epoch, when this broker leads and has appended nothing of a known producer in it; else None."""
    if partition is None or partition.leader is None:
        return None
    is_new = 0 <= partition.log.producers.last_offset_of(header.producer_id) < partition.leader.epoch_start_offset
    return partition.leader_epoch if is_new else None


def _storage_error(problem: Exception) -> BrokerError:
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))


def _refused(index: int, error: BrokerError, partition: Partition | None) -> PartitionProduceResponse:
    """One partition's error, with the log start offset if the error is about the log."""
    has_log_start = partition is not None and error.code not in BEFORE_THE_LOG
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log.log_start_offset if partition is not None and has_log_start else -1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=why)
            for batch_index, why in (error.records if isinstance(error, RecordsRefused) else ())
        ],
        error_message=str(error),
    )
