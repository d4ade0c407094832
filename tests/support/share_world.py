"""Share partitions of a unit broker over a persister of the test: requests of members, and answers when it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sordini.broker.configuration.offset_reset import EARLIEST, OffsetReset
from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.requests.call import Call, Route, VersionedApi
from sordini.broker.requests.slice_scheduler import first_slice
from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.share_state.ports import LeaderStates, OnStored, ReadState, SharePartitionKey, StateWrite
from sordini.broker.shares.led_share_partition import ShareDeps
from sordini.broker.shares.machine.sessions import ShareSessions
from sordini.broker.shares.machine.share_partition import ShareLimits, SharePartition
from sordini.broker.shares.member_sessions import MemberSessions
from sordini.broker.shares.ports import ShareSettings
from sordini.broker.shares.share_acknowledge_handler import ShareAcknowledgeHandler
from sordini.broker.shares.share_fetch_handler import ShareFetchHandler
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.broker.shares.start_lookup import OffsetResets
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.headers import read_response_header
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from sordini.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.served_apis import Api
from sordini.protocol.types import Offset, TopicId
from tests.support.builders import a_batch, some_records, writable
from tests.support.fake_dead_letters import FakeDeadLetters
from tests.support.partitions import RULES
from tests.support.unit_broker import UnitBroker, a_broker, a_peer, joined, topic_id_of

GROUP = "workers"
LOCK_MS = 30_000
LIMITS = ShareLimits(delivery_count_max=5, in_flight_max=2_000, lock_ms=LOCK_MS)
SETTINGS = ShareSettings(LIMITS, is_committed_only=False, renews=True)
APIS = {
    ApiKey.SHARE_FETCH: Api(ApiKey.SHARE_FETCH, ShareFetchRequest, ShareFetchResponse, 1, 2, 0),
    ApiKey.SHARE_ACKNOWLEDGE: Api(ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest, ShareAcknowledgeResponse, 1, 2, 0),
}
Said = Sequence[tuple[int, int, Sequence[int]]]
"""First and last offset, types."""
Rows = dict[tuple[str, int], Any]


class FakePersister:
    """Stored states in a dictionary; while `holds`, calls wait for `release`."""

    def __init__(self) -> None:
        self.holds = False
        self.error = ErrorCode.NONE
        self.starts: dict[SharePartitionKey, Offset | None] = {}
        self.runs: dict[SharePartitionKey, tuple[StateRun, ...]] = {}
        self.writes: list[StateWrite] = []
        self._held: list[Callable[[], None]] = []

    def release(self) -> None:
        """What waits is done, what it causes meanwhile is not."""
        held, self._held = self._held, []
        for call in held:
            call()

    @property
    def waiting(self) -> int:
        return len(self._held)

    def _do(self, call: Callable[[], None]) -> None:
        if self.holds:
            self._held.append(call)
        else:
            call()

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Callable[[ReadState], None]) -> None:
        del leader_epoch

        def read() -> None:
            on_done(ReadState(self.error, 0, self.starts.get(key), self.runs.get(key, ())))

        self._do(read)

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: OnStored) -> None:
        self.writes.append(write)

        def stored() -> None:
            if self.error == ErrorCode.NONE:
                start = self.starts[key] = write.start if write.start is not None else self.starts.get(key)
                self.runs[key] = with_written(self.runs.get(key, ()), write.runs, start or 0)
            on_done(self.error)

        self._do(stored)


class ShareWorld:
    """The handlers of share groups on one broker."""

    def __init__(
        self,
        broker: UnitBroker,
        *,
        sessions_max: int = 100,
        partitions_max: int = 1_000,
        persister: LeaderStates | None = None,
    ) -> None:
        """`persister`: in the place of `self.persister`."""
        self.broker = broker
        self.persister = FakePersister()
        self.settings = SETTINGS
        self.reset: OffsetReset = EARLIEST
        parts, call_later = broker.parts, broker.timers.call_later
        starts = OffsetResets(lambda _: self.reset, parts.record_jobs, broker.clock, broker.spawn)
        self.dead_letters = FakeDeadLetters()
        deps = ShareDeps(
            persister or self.persister, lambda _: self.settings, starts, broker.clock, call_later, self.dead_letters
        )
        self.partitions = SharePartitions(
            KnownLeaders(parts.replicas, parts.metadata), deps, parts.dispatcher.slices, partitions_max
        )
        parts.replicas.leadership_listeners.append(self.partitions)
        self.sessions = MemberSessions(ShareSessions(), self.partitions, lambda: sessions_max, parts.dispatcher.slices)
        self._routes = {
            ApiKey.SHARE_FETCH: ShareFetchHandler(self.sessions, self.partitions, call_later).route(),
            ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeHandler(self.sessions, self.partitions).route(),
        }
        self.peers: dict[str, Peer] = {}
        self.epochs: dict[str, int] = {}
        """The next epoch of each member's session."""
        self.steps = 0
        """Of the last request that was done in slices."""

    # --- the log and the clock

    def produce(self, *sizes: int, topic: str = "orders", **fields: Any) -> None:
        """A batch of each size."""
        partition = self.broker.parts.replicas.partition(topic, 0)
        for size in sizes:
            append(self.broker, topic, a_batch(some_records(size), **fields))
        partition.notify_purgatory()

    def machine(self, topic: str = "orders", group_id: str = GROUP) -> SharePartition:
        found = self.partitions.of_group(group_id)
        return next(one.machine for one in found if one.key.topic_id == topic_id_of(topic))

    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on, and timers that are due fire."""
        self.broker.clock.ms += milliseconds
        self.broker.timers.fire()

    # --- requests

    def fetch(self, member: str = "a", said: Said = (), **fields: Any) -> Any:
        """The answer to a fetch that is answered at once."""
        return self._now(ApiKey.SHARE_FETCH, member, self._fetch_request(member, said, **fields))

    def send_fetch(self, member: str = "a", said: Said = (), **fields: Any) -> DelayedResponse:
        """A fetch that waits."""
        fields = {"max_wait_ms": 500, **fields}
        return self._later(ApiKey.SHARE_FETCH, member, self._fetch_request(member, said, **fields))

    def acknowledge(self, said: Said, member: str = "a", **fields: Any) -> Any:
        return self._now(ApiKey.SHARE_ACKNOWLEDGE, member, self._acknowledge_request(member, said, **fields))

    async def acknowledge_in_slices(self, said: Said, member: str = "a") -> Any:
        """As `acknowledge`, of so many that it takes more than one slice; `steps` are counted."""
        key, request = ApiKey.SHARE_ACKNOWLEDGE, self._acknowledge_request(member, said)
        call = Call(VersionedApi(APIS[key], 2, self._routes[key]), self.peers[member], 77, "test", request)
        work, self.steps = self._routes[key].handle(call), 0
        while True:
            try:
                self.steps += next(work)
            except StopIteration as end:
                return decoded(key, call.frame(end.value))

    def send_acknowledge(self, said: Said, member: str = "a", **fields: Any) -> DelayedResponse:
        """An acknowledgement that is not answered at once."""
        return self._later(ApiKey.SHARE_ACKNOWLEDGE, member, self._acknowledge_request(member, said, **fields))

    def answer(self, pending: DelayedResponse, key: ApiKey = ApiKey.SHARE_FETCH) -> Any:
        assert pending.is_answered
        return decoded(key, pending.parts or [])

    def disconnect(self, member: str) -> None:
        """The member's connection is lost."""
        for on_closed in list((self.peers.pop(member).on_closed or {}).values()):
            on_closed()

    def _epoch(self, member: str, epoch: int | None) -> int:
        if epoch is None:
            epoch = self.epochs.get(member, 0)
        self.epochs[member] = 0 if epoch < 0 else epoch + 1
        return epoch

    def _fetch_request(self, member: str, said: Said, **fields: Any) -> ShareFetchRequest:
        topics: Sequence[str] = fields.pop("topics", ("orders",))
        forgotten: Sequence[str] = fields.pop("forgotten", ())
        values: Mapping[str, Any] = {"max_records": 500, "batch_size": 500, "min_bytes": 1, "max_wait_ms": 0, **fields}
        epoch = self._epoch(member, values.get("share_session_epoch"))
        return ShareFetchRequest(
            **{"group_id": GROUP, "member_id": member, **values, "share_session_epoch": epoch},
            topics=[
                FetchTopic(
                    topic_id=topic_id_of(topic),
                    partitions=[FetchPartition(partition_index=0, acknowledgement_batches=batches(said))],
                )
                for topic in topics
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id_of(topic), partitions=[0]) for topic in forgotten],
        )

    def _acknowledge_request(self, member: str, said: Said, topic: str = "orders", **fields: Any) -> Any:
        row = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches(said))
        epoch = self._epoch(member, fields.pop("share_session_epoch", None))
        names = {"group_id": GROUP, "member_id": member, **fields, "share_session_epoch": epoch}
        return ShareAcknowledgeRequest(
            **names, topics=[AcknowledgeTopic(topic_id=topic_id_of(topic), partitions=[row])]
        )

    def _handle(self, key: ApiKey, member: str, request: Any) -> Any:
        if member not in self.peers:
            self.peers[member] = a_peer(number=len(self.peers))
        route: Route = self._routes[key]
        call = Call(VersionedApi(APIS[key], 2, route), self.peers[member], 77, "test", request)
        try:
            answer = first_slice(route.handle(call))
        except BrokerError as error:
            answer = route.error_response(request, error.code)
        return answer if isinstance(answer, DelayedResponse) else call.frame(answer)

    def _now(self, key: ApiKey, member: str, request: Any) -> Any:
        parts = self._handle(key, member, request)
        assert not isinstance(parts, DelayedResponse), "not answered at once"
        return decoded(key, parts)

    def _later(self, key: ApiKey, member: str, request: Any) -> DelayedResponse:
        pending = self._handle(key, member, request)
        assert isinstance(pending, DelayedResponse), "answered at once"
        assert not pending.is_answered
        return pending


@asynccontextmanager
async def a_world(**limits: int) -> AsyncIterator[ShareWorld]:
    """A broker that leads `orders`."""
    async with a_broker() as broker:
        await broker.lead("orders")
        yield ShareWorld(broker, **limits)


def append(broker: UnitBroker, topic: str, records: bytes) -> None:
    """Append a batch as a producer's."""
    checked = check_produced(writable(records), RULES, 0, produce_version=9)
    broker.parts.replicas.partition(topic, 0).append(checked, broker.clock.now_ms(), all_replicas=False)


def batches(said: Said) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in said
    ]


def decoded(key: ApiKey, parts: Any) -> Any:
    whole = joined(parts)
    frame = memoryview(whole)[4:]
    _, position = read_response_header(APIS[key], 2, frame)
    message, end = codecs.decode(APIS[key].response, 2, frame, position)
    assert end == len(frame)
    return message


def rows_of(answer: Any) -> Rows:
    """The rows of a response by topic id and partition."""
    return {
        (TopicId(topic.topic_id), row.partition_index): row for topic in answer.responses for row in topic.partitions
    }


def acquired(answer: Any, topic: str = "orders") -> list[tuple[int, int, int]]:
    """First and last offset and deliveries of what was acquired."""
    row = rows_of(answer).get((topic_id_of(topic), 0))
    found = [] if row is None else row.acquired_records
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in found]


def code(answer: Any, topic: str = "orders") -> int:
    """The error of an acknowledgement."""
    row = rows_of(answer)[topic_id_of(topic), 0]
    found: int = row.acknowledge_error_code if hasattr(row, "acknowledge_error_code") else row.error_code
    return found
