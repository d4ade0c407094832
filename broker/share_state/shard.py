"""The share partitions of one partition of __share_group_state, while this broker leads it. A `ShardState`.

A request makes one record, or none, of the state that all records in the log make, committed or not. It is answered
when all of them are committed, as the answer may rest on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from sordini.broker.coordinators.loading import ReplayRecord
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.shard import Shard
from sordini.broker.coordinators.share_partition_names import share_partition_name
from sordini.broker.coordinators.write_errors import WRITE_ERRORS
from sordini.broker.share_state import records
from sordini.broker.share_state.machine import stored_state
from sordini.broker.share_state.machine.stored_state import Snapshot, SnapshotRule, StateRecord, StoredState, Tombstone
from sordini.broker.share_state.ports import OnStored, ReadState, SharePartitionKey, StateSummary
from sordini.broker.share_state.state_apis import Answer, Argument, StateKind
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import Offset, TopicId
from sordini.system.named_tuple import NamedTuple

KEYS_PER_SLICE = 200
"""Checked before the loop serves other requests."""

OnAnswer = Callable[[Answer], None]


class ShareStateDeps(NamedTuple):
    """What all shards of the share coordinator share."""

    ports: Ports
    rule: SnapshotRule
    has_partition: Callable[[TopicId, int], bool]
    """Whether the cluster has this partition, as far as this broker knows."""


class ShareStateShard:
    """One partition's share partitions."""

    def __init__(self, shard: Shard[ShareStateShard], deps: ShareStateDeps) -> None:
        self.states: dict[SharePartitionKey, StoredState] = {}
        self._shard = shard
        self._deps = deps
        self._snapshots: dict[SharePartitionKey, Offset] = {}
        """Where the last committed snapshot of each share partition is, or its batch."""
        self._redundant_before = Offset(0)
        """Of records whose share partitions are deleted."""
        self._end = Offset(0)
        """Behind the last record that was appended here."""
        self._reads: list[OnStored] | None = None
        """What waits for the commit of that record; None where its requests are answered."""
        self._seen: set[TopicId] = set()
        """Topics that were known here while they had states: one of them that is not known any more is deleted."""

    # Loading, as `ShardState`.

    def begin_replay(self) -> ReplayRecord:
        """Forget all; what is returned takes each record in its order."""
        self.states.clear()
        self._snapshots.clear()
        return self._replay_record

    def _replay_record(self, key: bytes, value: bytes | None, batch_offset: Offset) -> str | None:
        read = records.read_key(key)
        if isinstance(read, Damaged):
            return f"a key: {read.reason}"
        if isinstance(read, records.UnknownStateKey):
            return f"a key of version {read.version}"
        record = records.read_value(read.kind, value)
        if isinstance(record, Damaged):
            return f"share partition {_name(read.share_partition)}: {record.reason}"
        self._apply(read.share_partition, record)
        self._note_committed(read.share_partition, record, batch_offset)
        return None

    def replay(self, key: bytes, value: bytes) -> str | None:
        """As the only record of its key."""
        return self._replay_record(key, value, Offset(0))

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        del key, value  # No coordinator writes such records.
        return f"a record of a transaction of producer {producer_id}"

    def finish_replay(self) -> Iterator[None]:
        for number, key in enumerate(list(self.states), 1):
            if self._deps.has_partition(key.topic_id, key.partition):
                self._seen.add(key.topic_id)
            if number % KEYS_PER_SLICE == 0:
                yield

    def on_loaded(self, records: int, took_ms: int) -> None:
        self._deps.ports.log.info(
            "share states loaded",
            partition=str(self._shard.partition.name),
            share_partitions=len(self.states),
            records=records,
            took_ms=took_ms,
        )

    def known_keys(self) -> list[str]:
        return [_name(key) for key in self.states]

    def tick(self, key: str, late_ms: int) -> None:
        """States have no deadlines."""

    def expire(self, key: str) -> None:
        """States are kept until they are deleted."""

    def unload(self) -> None:
        """Requests that wait for a record are answered by the journal."""
        if self.states and not self._shard.is_loading:
            self._deps.ports.log.info(
                "share states unloaded", partition=str(self._shard.partition.name), share_partitions=len(self.states)
            )
        self.states.clear()
        self._snapshots.clear()

    # Requests.

    def serve(self, kind: StateKind, key: SharePartitionKey, argument: Argument, on_answer: OnAnswer) -> None:
        """Serve one request for a share partition; `on_answer` is called once, maybe before this returns.

        Raises BrokerError for a request that is refused.
        """
        if key.partition < 0:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the partition is negative")
        state, now_ms, rule = self.states.get(key), self._deps.ports.clock.now_ms(), self._deps.rule
        record: StateRecord | None = None
        answer: Answer = ErrorCode.NONE
        failure: Callable[[ErrorCode], Answer] = ErrorCode
        match kind:
            case StateKind.INITIALIZE:
                record = stored_state.initialize(state, argument.state_epoch, argument.start, now_ms)
            case StateKind.WRITE:
                record = stored_state.write(state, argument, now_ms, rule)
            case StateKind.DELETE:
                record = None if state is None else Tombstone()
            case StateKind.READ:
                record = stored_state.read(state, argument, now_ms, rule)
                assert state is not None
                failure, whole = ReadState, state.whole
                answer = ReadState(ErrorCode.NONE, whole.state_epoch, whole.start, whole.runs)
            case StateKind.SUMMARIZE:
                failure, answer = StateSummary, _summary(state)
            case _:
                assert_never(kind)
        if not self._deps.has_partition(key.topic_id, key.partition):
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{_name(key)} is of no partition known here")
        self._seen.add(key.topic_id)

        def done(code: ErrorCode) -> None:
            on_answer(failure(WRITE_ERRORS.get(code, code)) if code else answer)

        if record is None:
            self._when_committed(done)
        else:
            self._append(key, record, done)

    def _append(self, key: SharePartitionKey, record: StateRecord, on_done: OnStored) -> None:
        """Append a record, which is part of the state from then on; `on_done` is called once, after that."""
        offset = Offset(self._shard.partition.log.log_end_offset)
        reads: list[OnStored] = []
        outcome: list[ErrorCode] = []
        is_appending = True

        def answered(code: ErrorCode) -> None:
            if is_appending:
                outcome.append(code)
                return
            if self._reads is reads:
                self._reads = None
            on_done(code)
            for read in reads:
                read(code)

        def committed() -> None:
            self._note_committed(key, record, offset)

        is_in_log = self._shard.journal.append([records.state_record(key, record)], committed, answered)
        is_appending = False
        if is_in_log:
            self._end = Offset(offset + 1)
            self._apply(key, record)
            self._reads = None if outcome else reads
        if outcome:
            on_done(outcome[0])

    def _when_committed(self, on_done: OnStored) -> None:
        """Answer when all records in the log that the state rests on are committed."""
        leader = self._shard.partition.leader
        if leader is None:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif leader.high_watermark >= self._end:
            on_done(ErrorCode.NONE)
        elif self._reads is None:
            on_done(ErrorCode.REQUEST_TIMED_OUT)  # As the record's own request was answered.
        else:
            self._reads.append(on_done)

    def _apply(self, key: SharePartitionKey, record: StateRecord) -> None:
        state = stored_state.applied(self.states.get(key), record, self._deps.rule)
        if state is None:
            self.states.pop(key, None)
        else:
            self.states[key] = state

    def _note_committed(self, key: SharePartitionKey, record: StateRecord, offset: Offset) -> None:
        """Records of the key below that offset are redundant from now on."""
        if isinstance(record, Snapshot):
            self._snapshots[key] = offset
        elif isinstance(record, Tombstone):
            self._snapshots.pop(key, None)
            self._redundant_before = max(self._redundant_before, offset)

    # Upkeep.

    def write_cold_snapshots(self) -> Iterator[None]:
        """Write a snapshot of each state whose last one is old, unless all are old: then nothing would be gained.

        Yields after each bounded piece of work.
        """
        cold = 0
        keys = list(self.states)
        for number, key in enumerate(keys, 1):
            state = self.states.get(key)
            cold += state is None or stored_state.is_cold(state)
            if number % KEYS_PER_SLICE == 0:
                yield
        if cold == len(keys):
            return
        for number, key in enumerate(keys, 1):
            state = self.states.get(key)
            snapshot = None
            if state is not None:
                snapshot = stored_state.cold_snapshot(state, self._deps.ports.clock.now_ms(), self._deps.rule)
            if snapshot is not None:
                self._append(key, snapshot, _retried_later)
            if number % KEYS_PER_SLICE == 0:
                yield

    def delete_redundant(self) -> None:
        """Delete the records below the oldest snapshot that is the last one of its share partition."""
        partition = self._shard.partition
        leader = partition.leader
        if leader is None:
            return
        redundant_before = min(self._snapshots.values(), default=self._redundant_before)
        end = min(redundant_before, leader.high_watermark)
        if end > partition.log.log_start_offset:
            partition.log.advance_log_start(Offset(end))
            self._deps.ports.log.debug("share states pruned", partition=str(partition.name), log_start_offset=end)

    def delete_unknown_topics(self, is_known: Callable[[TopicId], bool]) -> Iterator[None]:
        """Delete the states of topics that were deleted. Yields after each bounded piece of work."""
        deleted = {topic_id for topic_id in self._seen if not is_known(topic_id)}
        if not deleted:
            return
        self._seen -= deleted
        for number, key in enumerate(list(self.states), 1):
            if key.topic_id in deleted and key in self.states:
                self._append(key, Tombstone(), _retried_later)
            if number % KEYS_PER_SLICE == 0:
                yield


def _summary(state: StoredState | None) -> StateSummary:
    if state is None:
        return StateSummary(ErrorCode.NONE)
    whole = state.whole
    return StateSummary(ErrorCode.NONE, whole.state_epoch, whole.leader_epoch, whole.start, whole.done)


def _name(key: SharePartitionKey) -> str:
    return share_partition_name(*key)


def _retried_later(_code: ErrorCode) -> None:
    """What was not written is written by the next pass."""
