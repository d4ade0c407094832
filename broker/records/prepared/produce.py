"""Produce requests of one record batch for one partition, served in straight-line code (see `table`).

The checks are those of `produce_validation`, in the cases where a batch is stored as it was sent; the append is
`Partition.append`. Whatever else a request is (a producer out of order, a CRC that is wrong, an append time to be
written, records to be recompressed) goes the general way: the checks come before the append, and an append that is
refused has changed nothing but the offset in the request's own bytes, which is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.broker.cluster.store_contact import SessionDoubt
from sordini.broker.network.ports import DelayedResponse, Parts, Peer
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.prepared.produce_shape import (
    CORRELATION_POSITION,
    answer_template,
    pack_int32,
    pack_int64,
    prefix_of,
)
from sordini.broker.requests.call import Call
from sordini.broker.requests.prepared_requests import BODY_POSITION, Declined, PreparedRequest, Served
from sordini.protocol import codecs
from sordini.protocol.crc import crc32c
from sordini.protocol.errors import BrokerError
from sordini.protocol.headers import read_response_header
from sordini.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sordini.protocol.records.batch import (
    CHECKED_FROM,
    CODEC_MASK,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    stamp,
    unpack_header,
)
from sordini.protocol.records.compression import (
    GZIP,
    LZ4,
    NO_CODEC,
    SNAPPY,
    ZSTD,
    check_beginning,
)
from sordini.protocol.records.enclosing import NO_TAGS, length_field
from sordini.protocol.records.lone_record import lone_record_has_key
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules, check_records, times_are_bounded
from sordini.protocol.records.work_budget import INLINE_STEPS, BudgetExceeded, WorkBudget
from sordini.protocol.types import TopicId
from sordini.replication.acks import PartitionAppend, finish_appends
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater
from sordini.replication.refused_batches import RefusedBatches
from sordini.storage.appending import LogAppendInfo
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple

FIRST_VERSION: Final = 3
"""Version 2 batches, and one batch for each partition."""
ZSTD_VERSION: Final = 7
BY_TOPIC_ID_VERSION: Final = 13

_UNUSUAL: Final = Declined.UNUSUAL
_STALE: Final = Declined.STALE
_new = tuple.__new__
_INT32_BYTES: Final = 4


class ProduceDeps(NamedTuple):
    """What a prepared Produce needs of the broker; the same objects as the general way."""

    now_ms: Callable[[], int]
    call_later: CallLater
    admits_at_once: Callable[[Partition, int, int], bool]
    """Whether a transactional batch of this producer id and epoch needs no verification: `TransactionGate`."""
    doubt: SessionDoubt
    leaders: KnownLeaders


class ProducePreparer:
    """Prepares Produce requests of one partition that this broker leads."""

    def __init__(self, deps: ProduceDeps) -> None:
        self._replicas = deps.leaders.replicas
        self._deps = deps

    def prepare(self, call: Call) -> tuple[bytes, PreparedRequest] | None:
        request: ProduceRequest = call.body
        topics = request.topic_data
        if call.version < FIRST_VERSION or len(topics) != 1 or len(topics[0].partition_data) != 1:
            return None
        if request.acks not in (0, 1, -1):
            return None
        partition = self._partition_of(call, topics[0], topics[0].partition_data[0].index)
        if partition is None or partition.leader is None or partition.is_internal:
            return None
        codecs = codecs_stored_as_sent(partition.settings.rules, call.version)
        if not codecs:
            return None
        refused = self._replicas.refused_batches
        return prefix_of(call), PreparedProduce(call, partition, partition.leader, codecs, refused, self._deps)

    def _partition_of(self, call: Call, topic: TopicProduceData, index: int) -> Partition | None:
        if call.version < BY_TOPIC_ID_VERSION:
            return self._replicas.get(topic.name, index)
        try:
            partition = self._replicas.partition_by_id(TopicId(topic.topic_id), index)
        except BrokerError:
            return None
        # Found by the name that the cluster has for the id: that may change while this broker leads.
        return partition if partition.topic_id == topic.topic_id else None


def codecs_stored_as_sent(rules: ProduceRules, version: int) -> frozenset[int]:
    """The codecs whose batches a topic stores unchanged, without expanding them; none where each batch is changed."""
    if rules.magic != CURRENT_MAGIC or rules.log_append_time or times_are_bounded(rules) or rules.check_schema_ids:
        return frozenset()
    codecs = {NO_CODEC}
    if not rules.check_compressed and not rules.key_required:
        codecs |= {GZIP, SNAPPY, LZ4}
        if version >= ZSTD_VERSION and rules.zstd:
            codecs.add(ZSTD)
    return frozenset(codecs if rules.codec is None else codecs & {rules.codec})


class PreparedProduce:
    """Serves the requests of one client, with one setting of acks, for one partition in one leader epoch.

    The first lines of `serve` decide whether the general checks still hold: a partition that leads is in the replica
    set under its name and id, with one `Leader` object for each leader epoch and one object for each configuration.
    """

    __slots__ = (
        "_acks",
        "_admits_at_once",
        "_answer",
        "_budget",
        "_bytes_max",
        "_call_later",
        "_codecs",
        "_doubt",
        "_key_required",
        "_leader",
        "_leaders",
        "_length_at",
        "_length_field",
        "_now_ms",
        "_partition",
        "_refused",
        "_room",
        "_settings",
        "_tags",
        "_timeout_ms",
        "_transactional_id",
        "_versioned_api",
    )

    def __init__(
        self,
        call: Call,
        partition: Partition,
        leader: Leader,
        codecs: frozenset[int],
        refused: RefusedBatches,
        deps: ProduceDeps,
    ) -> None:
        request: ProduceRequest = call.body
        rules = partition.settings.rules
        self._partition = partition
        self._leader = leader
        self._settings = partition.settings
        self._codecs = codecs
        self._bytes_max = rules.message_bytes_max
        self._key_required = rules.key_required
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._transactional_id = request.transactional_id
        self._versioned_api = call.versioned_api
        self._tags = NO_TAGS if call.versioned_api.flexible_answer else b""
        self._room, self._length_field = 0, b""
        self._length_at = BODY_POSITION + len(prefix_of(call))
        self._answer = answer_template(call)
        self._refused = refused.by_producer
        self._budget = WorkBudget()
        self._now_ms, self._call_later, self._admits_at_once, self._doubt, self._leaders = deps

    def serve(self, peer: Peer, frame: memoryview, correlation_id: int) -> Served:
        """Append the batch and answer, or decline with nothing done."""
        partition, acks = self._partition, self._acks
        if partition.leader is not self._leader or partition.settings is not self._settings:
            return _STALE
        if acks != -1 and self._doubt.is_doubtful:
            return _UNUSUAL
        at, stop = self._length_at, len(frame) - len(self._tags)
        if stop - at != self._room:
            self._expect_room(stop - at)
        start = at + len(self._length_field)
        field = frame[at:start]
        if start == at or stop - start < HEADER_SIZE or field != self._length_field or frame[stop:] != self._tags:
            return _UNUSUAL
        base, length, epoch, magic, crc, attributes, last, first_ms, max_ms, producer, generation, sequence, count = (
            header
        ) = unpack_header(frame, start)
        size, codec, records = stop - start, attributes & CODEC_MASK, frame[start:stop]
        if (
            magic != CURRENT_MAGIC
            or length != size - LENGTH_PREFIX
            or base
            or size > self._bytes_max
            or codec not in self._codecs
            or last != count - 1
            or count <= 0
            or crc32c(records[CHECKED_FROM:]) != crc
            or (producer >= 0 and (sequence < 0 or generation < 0))
            or (attributes != codec and not self._may_have(attributes, producer, generation))
            or (self._refused and producer >= 0 and partition.log.producers.takes_any_sequence(producer))
            or partition.log.log_end_offset + count >= partition.log.flush_at_if_rolled
        ):
            return _UNUSUAL
        now_ms = self._now_ms()
        batch = _new(BatchHeader, (base, size, *header[2:]))
        try:
            if codec:
                check_beginning(codec, records[HEADER_SIZE:])
            else:
                body = bytes(records[HEADER_SIZE:])
                has_key = lone_record_has_key(body) if count == 1 else None
                if has_key is None or (self._key_required and not has_key):
                    self._budget.left = INLINE_STEPS
                    first_ms = check_records(body, batch, self._settings.rules, now_ms, self._budget)
                if first_ms != max_ms or max_ms < NO_TIMESTAMP:
                    return _UNUSUAL  # The general way corrects the header.
            checked = _new(CheckedBatches, (records, [(0, batch)]))
            appended = partition.append(checked, now_ms, all_replicas=acks == -1)
        except (BrokerError, StorageError, BudgetExceeded):
            stamp(records, 0, 0, epoch)
            return _UNUSUAL
        self._versioned_api.requests += 1
        if (
            partition.purgatory
            or partition.log_end_waiters.purgatory
            or (acks == -1 and appended.end_offset > self._leader.high_watermark)
        ):
            return self._finish(appended, correlation_id, peer)
        if not acks:
            return None
        template, base_at, log_start_at = self._answer
        answer = bytearray(template)
        pack_int32(answer, CORRELATION_POSITION, correlation_id)
        pack_int64(answer, base_at, appended.base_offset)
        if log_start_at:
            pack_int64(answer, log_start_at, appended.log_start_offset)
        return [answer]

    def _expect_room(self, room: int) -> None:
        """The length field and the records take so many bytes. Seldom called: requests of one shape have one size."""
        self._room, self._length_field = room, length_field(room, is_flexible=bool(self._tags))

    def _may_have(self, attributes: int, producer_id: int, epoch: int) -> bool:
        """Whether an ordinary batch may have attributes beside its codec: those of a transaction that is open here."""
        return (
            attributes & ~CODEC_MASK == TRANSACTIONAL_BIT
            and producer_id >= 0
            and self._transactional_id is not None
            and self._admits_at_once(self._partition, producer_id, epoch)
        )

    def _finish(self, appended: LogAppendInfo, correlation_id: int, peer: Peer) -> Served:
        """Notify the operations that wait for the records, and answer once they may be acknowledged."""
        row = PartitionProduceResponse()
        append = PartitionAppend(self._partition, self._leader, appended.end_offset, row)
        unfinished = finish_appends([append], all_replicas=self._acks == -1)

        pack, base_offset, log_start_offset = self._answer.pack, appended.base_offset, appended.log_start_offset
        if unfinished is None:
            return [pack(correlation_id, base_offset, log_start_offset, row.error_code)] if self._acks else None
        pending = DelayedResponse()

        def on_done() -> None:
            answer = pack(correlation_id, base_offset, log_start_offset, row.error_code)
            pending.resolve(self._with_leader(answer, correlation_id, peer) if row.error_code else [answer])

        pending.on_abandon = unfinished.when_committed(on_done, self._call_later, self._timeout_ms).cancel
        return pending

    def _with_leader(self, answer: bytearray, correlation_id: int, peer: Peer) -> Parts:
        """The answer to a request that was refused while it waited, with the leader as the general way names it."""
        versioned, frame = self._versioned_api, memoryview(answer)[_INT32_BYTES:]
        _, position = read_response_header(versioned.api, versioned.version, frame)
        response, _ = codecs.decode(ProduceResponse, versioned.version, frame, position)
        call = Call(versioned, peer, correlation_id, None, None)
        self._leaders.name_in_produce(call)
        return call.frame(response)
