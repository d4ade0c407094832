"""Produce: record batches from clients to the ends of logs.

A request is checked and appended at once, within a `WorkBudget`. Where that is spent, the rest of it goes on in a
coroutine: records that have to be opened are checked by a child process (`record_jobs`), and between others the loop
serves other clients. Until all of it is appended no request of that connection starts, so appends stay in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sordini.broker.clock import Clock
from sordini.broker.dispatch import Call, RespondLater, Route
from sordini.broker.membership.store_contact import NO_DOUBT, Doubt
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.record_jobs.queue import RETRY, CpuAllowance, JobQueue
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
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader, read_header
from sordini.protocol.records.jobs import CheckJob
from sordini.protocol.records.legacy_validation import OffsetMessages, Storable, WrongBaseOffset
from sordini.protocol.records.produce_validation import CheckedBatches, check_produced
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from sordini.protocol.types import TopicId
from sordini.replication.acks import CallLater, PartitionAppend, answer_when_committed, committed
from sordini.replication.partition import Partition
from sordini.replication.refused_batches import RefusedBatches
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

ADMIN_CLIENT_ID = "__admin_client"
BATCH_MAGIC = 16
BATCH_ATTRIBUTES = 22  # The low byte of the two.
TRANSACTIONAL_BIT = 0x10

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
"""RefusedBatches that say nothing of the log, as Apache Kafka tells them."""

PARTITION_STEPS: Final = 20
"""What each partition of a request that names several is charged, whatever its records are."""
ROW_STEPS: Final = 1_000
"""What each partition may take on the loop once a request has taken too long: records that take more are a job."""
ROWS_PER_SLICE: Final = 10
CHECKS_MAX: Final = 5
"""So often a record set is checked anew because the topic, its configuration or the log's end changed meanwhile."""

Checked = CheckedBatches | OffsetMessages


class ProduceHandler:
    """Appends what producers send. Every partition has an error code of its own; one failing disturbs no other."""

    def __init__(
        self,
        replicas: ReplicaSet,
        clock: Clock,
        later: RespondLater,
        call_later: CallLater,
        has_coordinators: Callable[[], bool],
        jobs: JobQueue,
        doubt: Doubt = NO_DOUBT,
    ) -> None:
        """`has_coordinators` tells whether brokers of this cluster coordinate transactions; while there is `doubt`
        whether this broker still leads, writes with acks=0 and acks=1 are refused.
        """
        self._doubt = doubt
        self._has_coordinators = has_coordinators
        self._replicas = replicas
        self._clock = clock
        self._later = later
        self._refusals = RefusedBatches()
        self._call_later = call_later
        self._jobs = jobs
        self._budget = WorkBudget()
        """Of the request that is served; one object for all, since each is served in one go."""

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
        several = len(topics) != 1 or len(topics[0].partition_data) > 1
        if several and _names_one_twice(request):
            if acks == 0:
                raise WireError("produce with acks=0 names a partition twice")
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.now_ms()
        written: list[PartitionAppend] = []
        response = ProduceResponse()
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
                    if several:
                        budget.spend(PARTITION_STEPS)
                    answer = self._append(call, topic, data, now_ms, written)
                    refused += answer.error_code != 0
                    answered.partition_responses.append(answer)
        except BudgetExceeded:
            return self._go_on(call, response, written)
        needs_flush = False
        for partition, *_ in written:
            if partition.has_delayed_operations:
                partition.notify_purgatory()
            needs_flush = needs_flush or partition.log.needs_flush
        if refused > 1:
            _bound_record_errors(response)
        if acks == 0 and refused:
            # There is no answer that could carry the error: a closed connection is how Kafka tells it.
            raise WireError(f"produce with acks=0 was refused for {refused} partitions")
        if needs_flush:
            return self._later(call, self._flush(call, written, response if acks else None))
        if acks == -1:
            waiting = [part for part in written if not part.is_committed]
            if waiting:
                return answer_when_committed(call, response, waiting, self._call_later, request.timeout_ms)
        return response if acks else None

    def _append(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        written: list[PartitionAppend],
        checked: Checked | BrokerError | None = None,
    ) -> PartitionProduceResponse:
        """Append what one partition was sent; `checked` is what checking it came to, where that was done before.

        Raises BudgetExceeded where it was not, and WrongBaseOffset where it was done for another end of the log.
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
                raise BrokerError(ErrorCode.INVALID_RECORD, "a produce request must bring records")
            if _is_transactional(data.records):
                self._check_transaction(call.body)
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
            if (header := _first_header(data.records)) is not None:
                # By what the request calls it: a broker that has just started may not know the partition yet.
                name = topic.topic_id if call.version >= 13 else topic.name
                error = self._refused_batches.error_for((name, data.index), header, error, self._clock.monotonic_ms())
            return _refused(data.index, error, partition)
        if not ready.batches:  # Old clients may send an empty message set: nothing was written anywhere.
            return PartitionProduceResponse(index=data.index, base_offset=-1)
        # A duplicate, too, is answered only when it is flushed: its first answer may never have been sent.
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        written.append(PartitionAppend(partition, partition.require_leader(), appended.end_offset, answer))
        return answer

    def _go_on(self, call: Call, response: ProduceResponse, written: list[PartitionAppend]) -> DelayedResponse:
        """Append the partitions that are not answered yet, without keeping the loop."""

        def unblock_pipeline() -> None:
            pending.unblock_pipeline()

        pending = self._later(call, self._append_rest(call, response, written, unblock_pipeline), blocks_pipeline=True)
        return pending

    async def _append_rest(
        self,
        call: Call,
        response: ProduceResponse,
        written: list[PartitionAppend],
        unblock_pipeline: Callable[[], None],
    ) -> ProduceResponse | None:
        request: ProduceRequest = call.body
        rows = [(topic, data) for topic in request.topic_data for data in topic.partition_data]
        allowance = CpuAllowance(sum(len(data.records or b"") for _, data in rows))
        done = sum(len(topic.partition_responses) for topic in response.responses)
        answered, current = response.responses[-1], rows[done][0]
        for number, (topic, data) in enumerate(rows[done:], 1):
            if topic is not current:
                answered, current = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id), topic
                response.responses.append(answered)
            answered.partition_responses.append(await self._append_slowly(call, topic, data, written, allowance))
            if number % ROWS_PER_SLICE == 0:
                _tell_waiters(written)
                await asyncio.sleep(0)
        _tell_waiters(written)
        refused = sum(answer.error_code != 0 for topic in response.responses for answer in topic.partition_responses)
        _bound_record_errors(response)
        if request.acks == 0 and refused:
            raise WireError(f"produce with acks=0 was refused for {refused} partitions")
        unblock_pipeline()
        return await self._flush(call, written, response if request.acks else None)

    async def _append_slowly(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        written: list[PartitionAppend],
        allowance: CpuAllowance,
    ) -> PartitionProduceResponse:
        """As `_append`, records that take long being checked by a child process."""
        checked: Checked | BrokerError | None = None
        now_ms = self._clock.now_ms()
        for _ in range(CHECKS_MAX):
            self._budget.left = ROW_STEPS
            try:
                return self._append(call, topic, data, now_ms, written, checked)
            except (BudgetExceeded, WrongBaseOffset):
                _tell_waiters(written)
                now_ms = self._clock.now_ms()
                checked = await self._check(call, topic, data, now_ms, allowance)
        return self._append(call, topic, data, now_ms, written, BrokerError(RETRY, "the topic changes all the time"))

    async def _check(
        self,
        call: Call,
        topic: TopicProduceData,
        data: PartitionProduceData,
        now_ms: int,
        allowance: CpuAllowance,
    ) -> Checked | BrokerError | None:
        """Have a record set checked, or learn why it is refused. None: what it was checked for has changed."""
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

    def _check_transaction(self, request: ProduceRequest) -> None:
        """Refuse transactional batches where nobody could ever end the transaction."""
        if request.transactional_id is None:
            raise BrokerError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch needs a transactional id"
            )
        if not self._has_coordinators():
            # The retriable code that producers of every age understand (KIP-890).
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "no coordinator is there to verify the transaction with")

    async def _flush(
        self, call: Call, written: list[PartitionAppend], response: ProduceResponse | None
    ) -> ProduceResponse | None:
        try:
            # Together: the syncs of one request wait for one another only where the disk makes them.
            await asyncio.gather(*(part.partition.log.flush_if_due() for part in written))
        except (BrokerError, StorageError) as error:
            if response is None:
                return None  # acks=0: nobody waits to hear of it.
            raise _storage_error(error) from error
        if call.body.acks == -1:
            await committed(written, self._call_later, call.body.timeout_ms)
        return response

    @staticmethod
    def error_response(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
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


def _names_one_twice(request: ProduceRequest) -> bool:
    """Whether two batches are for one partition, of which Apache Kafka drops the first without a word."""
    seen: set[tuple[str, bytes, int]] = set()
    count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            seen.add((topic.name, topic.topic_id, data.index))
            count += 1
    return len(seen) != count


def _bound_record_errors(response: ProduceResponse) -> None:
    """List no more records in an answer than in that for one partition; the messages say how many are wrong."""
    left = RecordsRefused.LISTED_MAX
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.record_errors:
                del answer.record_errors[left:]
                left -= len(answer.record_errors)


def _tell_waiters(written: list[PartitionAppend]) -> None:
    """Wake the consumers that wait for what was appended since the last time."""
    for partition, *_ in written:
        if partition.has_delayed_operations:
            partition.notify_purgatory()


def _is_transactional(records: memoryview) -> bool:
    """Whether a batch, looked at before anything of it is appended (CVE-2018-17196), says so."""
    if len(records) <= BATCH_ATTRIBUTES:
        return False
    return records[BATCH_ATTRIBUTES] & TRANSACTIONAL_BIT != 0 and records[BATCH_MAGIC] == 2


def _first_header(records: memoryview | None) -> BatchHeader | None:
    """The header of the first batch, if there is one; messages of the older formats have none."""
    if records is None or len(records) < HEADER_SIZE or records[BATCH_MAGIC] != CURRENT_MAGIC:
        return None
    return read_header(records)


def _storage_error(problem: Exception) -> BrokerError:
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))


def _refused(index: int, error: BrokerError, partition: Partition | None) -> PartitionProduceResponse:
    """One partition's error; where the log was looked at, its start is told with it."""
    looked_at = partition is not None and error.code not in BEFORE_THE_LOG
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log.log_start_offset if partition is not None and looked_at else -1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=why)
            for batch_index, why in (error.records if isinstance(error, RecordsRefused) else ())
        ],
        error_message=str(error),
    )
