"""How leaders and group coordinators reach stored states: here, or on the broker that coordinates the share partition.

    coordinator here      the shard serves it, at once
    on another broker     one request for all that wait (`remote_states.py`)
    none, loading, moved,
    no answer             once more after a backoff, until the time is up

A request may so be carried out twice. A write has what records are in, not what has been done to them, and older
deliveries do not undo newer ones; the start offset and the epochs do not go back; deleting twice is deleting. A group
initializes a state before any leader reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.share_partition_names import share_partition_name
from sordini.broker.share_state.ports import OnStored, ReadState, SharePartitionKey, StateSummary, StateWrite
from sordini.broker.share_state.remote_states import StateQuestion
from sordini.broker.share_state.shard import OnAnswer
from sordini.broker.share_state.state_apis import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARIZE,
    WRITE,
    Answer,
    Argument,
    InitialState,
    StateApi,
    StateKind,
    error_of,
)
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, Offset
from sordini.replication.ports import Timer

FIRST_BACKOFF_MS: Final = 20
BACKOFF_MS_MAX: Final = 1_000
RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class StatesHere(Protocol):
    """`ShareCoordinator`."""

    def serve(self, kind: StateKind, key: SharePartitionKey, argument: Argument, on_answer: OnAnswer) -> None: ...


class StatesElsewhere(Protocol):
    """`RemoteStates`."""

    def ask(self, broker_id: BrokerId, question: StateQuestion) -> None: ...


class CoordinatedStates:
    """`LeaderStates` and `GroupStates`; it knows where each coordinator is."""

    def __init__(
        self,
        this_broker: BrokerId,
        topic: InternalTopic,
        metadata: MetadataCache,
        here: StatesHere,
        elsewhere: StatesElsewhere,
        ports: Ports,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` limits each call: request.timeout.ms."""
        self._this_broker = this_broker
        self._topic = topic
        self._metadata = metadata
        self._here = here
        self._elsewhere = elsewhere
        self._ports = ports
        self._timeout_ms = timeout_ms

    def initialize(self, key: SharePartitionKey, state_epoch: int, start: Offset | None, on_done: OnStored) -> None:
        self._call(INITIALIZE, key, InitialState(state_epoch, start), on_done)

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Callable[[ReadState], None]) -> None:
        self._call(READ, key, leader_epoch, on_done)

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: OnStored) -> None:
        self._call(WRITE, key, write, on_done)

    def delete(self, key: SharePartitionKey, on_done: OnStored) -> None:
        self._call(DELETE, key, None, on_done)

    def summarize(self, key: SharePartitionKey, on_done: Callable[[StateSummary], None]) -> None:
        self._call(SUMMARIZE, key, None, on_done)

    def _call(self, api: StateApi, key: SharePartitionKey, argument: Argument, on_done: OnAnswer) -> None:
        until_ms = self._ports.clock.monotonic_ms() + self._timeout_ms
        self._attempt(_StateCall(StateQuestion(api, key, argument, on_done), until_ms))

    def _attempt(self, call: _StateCall) -> None:
        """Ask the coordinator of this moment."""
        question = call.question._replace(on_answer=partial(self._answered, call))
        if not self._topic.exists:
            self._topic.create(partial(question.fail, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        try:
            broker_id = self._coordinator_of(question.key)
            if broker_id == self._this_broker:
                self._here.serve(question.api.kind, question.key, question.argument, question.on_answer)
                return
        except BrokerError as error:
            question.fail(error.code)
            return
        if call.timer is None:  # Another broker may not answer in time; this one does.
            left_ms = max(call.until_ms - self._ports.clock.monotonic_ms(), 0)
            call.timer = self._ports.call_later(left_ms / 1000, partial(call.finish, _timed_out(question.api)))
        self._elsewhere.ask(broker_id, question)

    def _answered(self, call: _StateCall, answer: Answer) -> None:
        """An attempt was answered: that is the answer, or there is another attempt."""
        left_ms = call.until_ms - self._ports.clock.monotonic_ms()
        if call.is_over or left_ms <= 0 or not self._is_retried(error_of(answer), call.question.key):
            call.finish(answer)
            return
        self._ports.call_later(min(call.backoff_ms, left_ms) / 1000, partial(self._attempt_again, call))
        call.backoff_ms = min(2 * call.backoff_ms, BACKOFF_MS_MAX)

    def _attempt_again(self, call: _StateCall) -> None:
        if not call.is_over:
            self._attempt(call)

    def _coordinator_of(self, key: SharePartitionKey) -> BrokerId:
        """Raises BrokerError COORDINATOR_NOT_AVAILABLE."""
        known = self._metadata.topics.get(self._topic.name)
        index = partition_for(share_partition_name(*key), self._topic.partition_count())
        partition = None if known is None else known.partitions.get(index)
        if partition is None or partition.leader not in self._metadata.brokers:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"partition {index} has no leader")
        return partition.leader

    def _is_retried(self, code: ErrorCode, key: SharePartitionKey) -> bool:
        """Whether another attempt may succeed: the coordinator's broker may learn of a topic later than this one."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._metadata.name_of(key.topic_id) is not None
        return code in RETRIED


def _timed_out(api: StateApi) -> Answer:
    return api.failure(ErrorCode.REQUEST_TIMED_OUT)


class _StateCall:
    """One call, over its attempts."""

    __slots__ = ("backoff_ms", "is_over", "question", "timer", "until_ms")

    def __init__(self, question: StateQuestion, until_ms: int) -> None:
        self.question = question
        self.until_ms = until_ms
        self.backoff_ms = FIRST_BACKOFF_MS
        self.is_over = False
        self.timer: Timer | None = None

    def finish(self, answer: Answer) -> None:
        """Answer the call, unless it was answered."""
        if self.is_over:
            return
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
        self.question.on_answer(answer)
