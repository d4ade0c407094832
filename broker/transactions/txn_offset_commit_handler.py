"""TxnOffsetCommit: a producer commits offsets of a consumer's group inside its transaction (KIP-98, KIP-447).

    loaded -> on its newest connection? -> the coordinator verifies the transaction -> the group admits the consumer
           -> the offsets are written

For a producer of transaction.version 2 the coordinator adds the group's partition to the transaction instead.
Each partition has its own error code. The codes are those that producers of each version understand, as Apache Kafka's.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.coordinators.journal import OnDone, TransactionalProducer
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.events import ValidateOffsetCommit
from sordini.broker.groups.machine.state import NO_CALLER, CommittedOffset
from sordini.broker.groups.offset_commit_handler import metadata_length
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, on_group, on_topics, on_transactional_id
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.verification import Batch, TransactionGate, Verification
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock

FIRST_WITH_LOAD_IN_PROGRESS: Final = 2
"""Older clients may crash at COORDINATOR_LOAD_IN_PROGRESS."""
FIRST_WITH_ABORTABLE: Final = 4
FIRST_WITH_ADDITION: Final = 5
"""The first version of producers of transaction.version 2, which send no AddOffsetsToTxn."""
FIRST_WITH_TOPIC_IDS: Final = 6
NO_SEQUENCE: Final = -1
"""The coordinator's batches are in no order that the producer knows."""

ERRORS: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""The answers for codes of the verification: clients look for another group coordinator at some of its codes."""


class TxnOffsetCommitHandler:
    """Commits offsets of transactions."""

    def __init__(
        self,
        groups: GroupCoordinator,
        gate: TransactionGate,
        metadata: MetadataCache,
        clock: Clock,
        *,
        metadata_bytes_max: int,
    ) -> None:
        """`metadata_bytes_max` is offset.metadata.max.bytes."""
        self._groups = groups
        self._gate = gate
        self._metadata = metadata
        self._clock = clock
        self._metadata_length_max = metadata_bytes_max

    def route(self) -> Route:
        return Route(
            ApiKey.TXN_OFFSET_COMMIT,
            self.commit,
            self.error_response,
            Both(
                Both(on_transactional_id(AclOperation.WRITE), on_group(AclOperation.READ)), on_topics(AclOperation.READ)
            ),
        )

    def commit(self, call: Call) -> Work[TxnOffsetCommitResponse | DelayedResponse]:
        request: TxnOffsetCommitRequest = call.body
        if not request.group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        response, rest, offsets = yield from self._validated(request, call.version)
        if not offsets:
            return response
        responder: Responder[TxnOffsetCommitResponse] = Responder(call)

        def answer(code: ErrorCode) -> None:
            for row in rest:
                row.error_code = _code_for_version(code, call.version)
            responder.answer(response)

        adds = self._gate.adds_for(call.version, FIRST_WITH_ADDITION)
        commit = _Commit(self._groups, self._gate, request, offsets, answer, adds=adds)

        def begin() -> None:
            """A request that a producer has given up, with the connection, may arrive in its next transaction.

            With an epoch for each transaction it is refused by that.
            """
            if adds or self._groups.admits(request.group_id, commit.producer, call.peer.number):
                commit.verify()
            else:
                responder.refuse(WireError(f"transactional id {request.transactional_id} has a newer connection"))

        try:
            self._groups.when_loaded(request.group_id, begin, answer)
        except BrokerError as error:
            answer(error.code)
        return responder.result()

    def _validated(
        self, request: TxnOffsetCommitRequest, version: int
    ) -> Work[
        tuple[TxnOffsetCommitResponse, list[TxnOffsetCommitResponsePartition], dict[TopicPartition, CommittedOffset]]
    ]:
        """The response, its rows without an error yet, and their offsets."""
        now_ms = self._clock.now_ms()
        response, rest = TxnOffsetCommitResponse(), list[TxnOffsetCommitResponsePartition]()
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for topic in request.topics:
            name, unknown = self._metadata.find(topic, by_id=version >= FIRST_WITH_TOPIC_IDS)
            answered = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            if topic.partitions:
                response.topics.append(answered)
            yield 1
            for row in topic.partitions:
                yield 1
                result = TxnOffsetCommitResponsePartition(partition_index=row.partition_index)
                answered.partitions.append(result)
                if not self._metadata.may_exist(name, row.partition_index):
                    result.error_code = unknown
                elif metadata_length(row.committed_metadata or "") > self._metadata_length_max:
                    result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    rest.append(result)
                    offsets[TopicPartition(name, row.partition_index)] = _offset(row, now_ms)
        return response, rest, offsets

    @staticmethod
    def error_response(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
        """The same code for every partition of the request."""
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class _Commit:
    """One request between its steps; the partition is looked up again after each wait."""

    def __init__(
        self,
        groups: GroupCoordinator,
        gate: TransactionGate,
        request: TxnOffsetCommitRequest,
        offsets: dict[TopicPartition, CommittedOffset],
        answer: OnDone,
        *,
        adds: bool,
    ) -> None:
        """With `adds` the coordinator adds the group's partition to the transaction."""
        self._adds = adds
        self._groups = groups
        self._gate = gate
        self._request = request
        self.producer = TransactionalProducer(request.producer_id, request.producer_epoch)
        self._offsets = offsets
        self._answer = answer

    def verify(self) -> None:
        try:
            transactional_id = self._request.transactional_id
            verification = self._gate.begin(transactional_id, self.producer, [self._batch()], adds=self._adds)
        except BrokerError as error:
            self._answer(error.code)
            return
        if verification is None or verification.is_done:
            self._write(verification)
        else:
            verification.on_done = lambda: self._write(verification)

    def _batch(self) -> Batch:
        return Batch(self._groups.partition_of(self._request.group_id), NO_SEQUENCE)

    def _write(self, verification: Verification | None) -> None:
        request = self._request
        member = ValidateOffsetCommit(
            NO_CALLER,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            is_transactional=True,
        )
        try:
            batch, adds = self._batch(), self._adds
            self._gate.check(batch, request.transactional_id, self.producer, verification, adds=adds)
            self._groups.commit_in_transaction(self.producer, request.group_id, member, self._offsets, self._answer)
        except BrokerError as error:
            self._answer(error.code)


def _offset(row: TxnOffsetCommitRequestPartition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=row.committed_metadata or "",
        committed_ms=now_ms,
        expires_ms=None,
    )


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    code = ERRORS.get(code, code)
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_WITH_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
