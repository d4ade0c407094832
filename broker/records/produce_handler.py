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

from sordini.broker.cluster.store_contact import NO_DOUBT, SessionDoubt
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.produce_verification import ProduceVerification, SlicedVerification, finish
from sordini.broker.records.produced_rows import bound_record_errors, names_a_partition_twice, refused_row
from sordini.broker.records.record_rules import ProduceRule
from sordini.broker.records.schemas.schema_check import SchemaCheck, SchemasNotCurrent
from sordini.broker.requests.acknowledging import respond_when_finished
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.transactions.verification import TransactionGate, Verification
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.produce import (
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
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from sordini.protocol.types import TopicId
from sordini.replication.acks import PartitionAppend, UnfinishedAppends, finish_appends
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater, Clock
from sordini.replication.refused_batches import PartitionKey
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple

ADMIN_CLIENT_ID = "__admin_client"

PARTITION_STEPS: Final = 20
"""The cost of each partition in a request with more than one, whatever its records are."""
ROW_STEPS: Final = 1_000
"""What one partition may cost on the loop once a request has cost too much; records that cost more become a job."""
ROWS_PER_SLICE: Final = 10
CHECKS_MAX: Final = 5
"""How often records are validated again because the topic, its configuration or the log end changed meanwhile."""

Checked = CheckedBatches | OffsetMessages


class RecordChecks(NamedTuple):
    """What validates records, beside the loop and beyond their format."""

    jobs: JobQueue
    schemas: SchemaCheck


class ProduceHandler:
    """Appends the batches of produce requests. Each partition has its own error code."""

    def __init__(
        self,
        leaders: KnownLeaders,
        clock: Clock,
        later: RespondLater,
        call_later: CallLater,
        gate: TransactionGate,
        checks: RecordChecks,
        doubt: SessionDoubt = NO_DOUBT,
    ) -> None:
        """While there is `doubt` whether this broker still leads, requests with acks=0 and acks=1 are refused."""
        self._doubt = doubt
        self._leaders = leaders
        replicas = leaders.replicas
        self._transactions = ProduceVerification(replicas, gate)
        self._replicas = replicas
        self._clock = clock
        self._later = later
        self._refused_batches = replicas.refused_batches
        self._call_later = call_later
        self._jobs, self._schemas = checks
        self._budget = WorkBudget()
        """Of the current request; one object for all requests, since each is handled without an await."""

    def route(self) -> Route:
        return Route(ApiKey.PRODUCE, self.handle, self.error_response, ProduceRule())

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
        if has_many and names_a_partition_twice(request):
            if acks == 0:
                raise WireError("produce with acks=0 names a partition twice")
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.now_ms()
        appends: list[PartitionAppend] = []
        response = ProduceResponse()
        verification = None if request.transactional_id is None else self._transactions.begin(call)
        if isinstance(verification, SlicedVerification) or (verification is not None and not verification.is_done):
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
        if refused:
            self._leaders.name_in_produce(call)
            bound_record_errors(response)
        if acks == 0 and refused:
            # There is no response that could carry the error: like Apache Kafka, close the connection.
            raise WireError(f"produce with acks=0 was refused for {refused} partitions")
        if unfinished is None:
            return response if acks else None
        if acks == 0:
            return self._later(call, self._flush_unacknowledged(unfinished))
        # Where rows were refused already, the leaders are named whatever comes.
        when_refused = None if refused else self._leaders.name_in_produce
        return respond_when_finished(
            call, response, unfinished, self._later, self._call_later, request.timeout_ms, when_refused
        )

    def _append(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        appends: list[PartitionAppend],
        verification: Verification | None,
        checked: Checked | BrokerError | None = None,
        *,
        has_schemas: bool = False,
    ) -> PartitionProduceResponse:
        """Append the records for one partition; `checked` is the result of their validation, if that is done.

        With `has_schemas` all schema ids were read that there are. Raises SchemasNotCurrent when they have to be,
        BudgetExceeded when it takes too long, and WrongBaseOffset when it was done for another log end offset.
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
                rules, version = partition.settings.rules, call.version
                misfit = None
                if rules.check_schema_ids:
                    misfit = self._schemas.misfit(partition, data.records, self._budget, has_schemas=has_schemas)
                ready = check_produced(data.records, rules, now_ms, produce_version=version, budget=self._budget)
                if misfit is not None:
                    raise misfit
            elif isinstance(checked, BrokerError):
                raise checked
            else:
                ready = checked
            if self._refused_batches.by_producer:
                self._check_order(call, topic, data, partition)
            appended = partition.append(ready, now_ms, all_replicas=call.body.acks == -1)
        except (BrokerError, StorageError) as problem:
            error = problem if isinstance(problem, BrokerError) else _storage_error(problem)
            if (header := first_header(data.records)) is not None:
                key, now = _key(call, topic, data), self._clock.monotonic_ms()
                error = self._refused_batches.error_for(key, header, error, now, _new_term(partition, header))
            return refused_row(data.index, error, partition)
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

    def _check_order(
        self, call: Call, topic: TopicProduceData, data: PartitionProduceData, partition: Partition
    ) -> None:
        """Raise BrokerError for the first batch of a producer here when an earlier one was refused."""
        header = first_header(data.records)
        if header is None or header.producer_id < 0:
            return
        if partition.log.producers.takes_any_sequence(header.producer_id):
            self._refused_batches.check_order(_key(call, topic, data), header, self._clock.monotonic_ms())

    def _continue_later(
        self,
        call: Call,
        response: ProduceResponse,
        appends: list[PartitionAppend],
        verification: Verification | SlicedVerification | None,
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
        beginning: Verification | SlicedVerification | None,
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
        bound_record_errors(response)
        self._leaders.name_in_produce(call)
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
        has_schemas = False
        now_ms = self._clock.now_ms()
        for _ in range(CHECKS_MAX):
            self._budget.left = ROW_STEPS
            try:
                return self._append(call, topic, data, now_ms, appends, verification, checked, has_schemas=has_schemas)
            except SchemasNotCurrent:
                finish_appends(appends, all_replicas=False)
                checked, has_schemas = await self._schemas.read(), True
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
            if rules.check_schema_ids:
                await self._schemas.check_later(partition, data.records, self._jobs, allowance, call.peer.address)
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


def _key(call: Call, topic: TopicProduceData, data: PartitionProduceData) -> PartitionKey:
    """A partition as the request names it: a broker that has just started may not know it yet."""
    return topic.topic_id if call.version >= 13 else topic.name, data.index


def _new_term(partition: Partition | None, header: BatchHeader) -> int | None:
    """The leader epoch, when this broker leads and has appended nothing of a known producer in it; else None."""
    if partition is None or partition.leader is None:
        return None
    is_new = 0 <= partition.log.producers.last_offset_of(header.producer_id) < partition.leader.epoch_start_offset
    return partition.leader_epoch if is_new else None


def _storage_error(problem: Exception) -> BrokerError:
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
