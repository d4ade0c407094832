"""Rounds of a follower at the end of one partition: append, patch the request, send, without a task or an object.

Where one partition of a fetch session gets a few records at a time, each request differs from the one before in its
session epoch and its offsets, and each response in its watermarks and records. So the request is patched, and the
response is compared with what the last one would be without records (29 calls of a follower for a record, 84 by the
task, which needs a future, a timer, two switches and a decoded message):

    response   throttle time ... topic, partition, error code | watermarks | ... | length, records | tags
               `---------------- equal ----------------------'             `equal'                 `equal'

All else ends the rounds, with nothing done for that response: it is then decoded and processed as every other
(`ReplicaFetcher`), and so is what happens to the partitions of the fetcher between two responses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sordini.protocol.records.enclosing import EMPTY_RECORDS_BYTES, NO_TAGS, first_difference, length_field
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset
from sordini.replication.fetching.fetched_partitions import FetchedPartition, FetchedPartitions
from sordini.replication.fetching.session import EPOCH_MAX, FetchState, SessionRequest
from sordini.replication.follower import Follower
from sordini.replication.follower_log import append_fetched_records
from sordini.replication.ports import Clock
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple

FIRST_VERSION: Final = 7
"""From here on there are sessions, and three watermarks side by side in the response."""
FRAME_BYTES_MAX: Final = 16 * 1024
"""Longer responses are few, and are appended by the task, which lets others run after each MiB."""

STREAK_MIN: Final = 3
PAUSE: Final = 60
"""Responses."""

_CORRELATION_ID_BYTES: Final = 4
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_WATERMARKS: Final = struct.Struct(">qqq")


class RoundDeps(NamedTuple):
    """What the rounds of a fetcher need."""

    clock: Clock
    quota: ReplicaQuota
    broker_epoch: Callable[[], int]
    on_failure: Callable[[FetchedPartition, BrokerError | StorageError], None]


class TailStreak:
    """Notes what a fetcher's responses bring, and begins rounds when they are likely to go on."""

    __slots__ = ("_deps", "_last_row", "_length", "_partitions")

    def __init__(self, deps: RoundDeps, partitions: FetchedPartitions) -> None:
        self._deps = deps
        self._partitions = partitions
        self._length = 0
        """How many responses in a row brought one partition a few records, and nothing else."""
        self._last_row: PartitionData | None = None
        """Of the last of these."""

    def note(self, row: PartitionData | None, size: int) -> None:
        """A response brought so many bytes; `row` is its only one, None if it has several."""
        if row is not None and 0 < size <= FRAME_BYTES_MAX:
            self._length += 1
            self._last_row = row
        else:
            self._length, self._last_row = min(self._length, 0), None

    def rounds(self, session_request: SessionRequest, request: FetchRequest) -> TailRounds | None:
        """The rounds that may follow this request; None where the streak is too short, or others are to be fetched."""
        deps, last_row = self._deps, self._last_row
        if self._length < STREAK_MIN or last_row is None or deps.quota.is_limited:
            return None
        version, _, epoch, to_send, to_forget = session_request
        if version < FIRST_VERSION or epoch <= 0 or len(to_send) != 1 or to_forget:
            return None
        fetched = self._partitions.find(*to_send[0][0])
        if fetched is None or fetched.follower is None or self._partitions.next_due_ms() is not None:
            return None
        self._length = 0
        return TailRounds(
            deps, self._partitions, fetched, fetched.follower, request=request, version=version, last_row=last_row
        )

    def on_ended(self, rounds: TailRounds, session_request: SessionRequest) -> None:
        """Where not even one more request was sent, rounds are not tried again soon: preparing them costs something."""
        if rounds.session_epoch == session_request.epoch:
            self._length = -PAUSE


class TailRounds:
    """The rounds after one request of one partition; a new object for each run of them."""

    __slots__ = (
        "_between",
        "_broker_epoch",
        "_changes",
        "_deps",
        "_fetched",
        "_follower",
        "_head",
        "_last_epoch",
        "_length_field",
        "_partitions",
        "_positions",
        "_records_at",
        "_request",
        "_room",
        "_tags",
        "_topic_id",
        "_watermarks_at",
        "is_taken",
        "session_epoch",
        "state",
    )

    def __init__(
        self,
        deps: RoundDeps,
        partitions: FetchedPartitions,
        fetched: FetchedPartition,
        follower: Follower,
        *,
        request: FetchRequest,
        version: int,
        last_row: PartitionData,
    ) -> None:
        """`request` is about to be sent, for `fetched` alone; `last_row` is its row in the response before."""
        self._deps = deps
        self._partitions = partitions
        self._fetched = fetched
        self._follower = follower
        self._changes = partitions.changes
        self._broker_epoch = deps.broker_epoch()
        self._topic_id = fetched.topic_id_partition.topic_id
        self._tags = memoryview(NO_TAGS if version >= APIS[ApiKey.FETCH].flexible_from else b"")
        ((requested,),) = (topic.partitions for topic in request.topics)
        self._last_epoch = requested.last_fetched_epoch
        self.session_epoch = request.session_epoch
        self.state = FetchState(
            Offset(requested.fetch_offset),
            follower.leader_epoch,
            requested.last_fetched_epoch,
            requested.log_start_offset,
        )
        """What the leader's session has of the partition, after the last request."""
        self.is_taken = False
        self._request = bytearray()
        self._positions = _positions_from_end(request, version)
        self._head, self._between, self._watermarks_at = _response_shape(request, last_row, version)
        self._records_at = self._watermarks_at + _WATERMARKS.size + len(self._between)
        self._room, self._length_field = 0, b""

    def on_sent(self, frame: bytearray) -> None:
        self._request = frame

    def on_response(self, frame: memoryview) -> bytearray | None:
        """Append the records of a response, and return the next request: see `client.ports.Rounds`."""
        # Driven by the connection's callback: as a task it cost a future, a timer, two switches, a decoded message and
        # a new request, 84 Python calls for a record. These are 29 (tests/unit/replication/test_calls_per_record.py).
        self.is_taken = False
        records_at, fetched, log = self._records_at, self._fetched, self._fetched.partition.log
        stop = len(frame) - len(self._tags)
        if stop - records_at != self._room:
            self._expect_room(stop - records_at)
        start = records_at + len(self._length_field)
        between = self._watermarks_at + _WATERMARKS.size
        if (
            start == records_at
            or start >= stop
            or len(frame) > FRAME_BYTES_MAX
            or frame[_CORRELATION_ID_BYTES : self._watermarks_at] != self._head
            or frame[between:records_at] != self._between
            or frame[records_at:start] != self._length_field
            or frame[stop:] != self._tags
            or self._partitions.changes != self._changes
        ):
            return None
        high_watermark, _, log_start_offset = _WATERMARKS.unpack_from(frame, self._watermarks_at)
        deps, partition, follower = self._deps, fetched.partition, self._follower
        try:
            size = append_fetched_records(
                partition,
                follower,
                fetched.requested_offset,
                frame[start:stop],
                high_watermark,
                log_start_offset,
                deps.clock.now_ms(),
            )
        except (BrokerError, StorageError) as error:
            self.is_taken = True
            deps.on_failure(fetched, error)
            return None
        if not size:
            return None
        self.is_taken = True
        end = log.log_end_offset
        fetched.is_lagging = end < high_watermark
        if deps.quota.is_limited:
            deps.quota.record(partition.name, size, deps.clock.monotonic_ms())
            return None
        if (
            log.log_end_offset >= log.flush_at
            or partition.follower is not follower
            or log.epochs.latest != self._last_epoch
            or partition.topic_id != self._topic_id
            or self.session_epoch == EPOCH_MAX
            or deps.broker_epoch() != self._broker_epoch
        ):
            return None
        return self._next_request(end, log.log_start_offset)

    def _next_request(self, end: int, log_start_offset: int) -> bytearray:
        # Patched in place: all else of the next request is what was sent last.
        self.session_epoch += 1
        request, (session_at, offset_at, log_start_at) = self._request, self._positions
        _INT32.pack_into(request, session_at, self.session_epoch)
        _INT64.pack_into(request, offset_at, end)
        _INT64.pack_into(request, log_start_at, log_start_offset)
        self._fetched.requested_offset = Offset(end)
        self.state = FetchState(Offset(end), self._follower.leader_epoch, self._last_epoch, log_start_offset)
        return request

    def _expect_room(self, room: int) -> None:
        """The length field and the records take so many bytes."""
        self._room, self._length_field = room, length_field(room, is_flexible=bool(self._tags))


def _positions_from_end(request: FetchRequest, version: int) -> tuple[int, int, int]:
    """Where in a request's frame its session epoch, fetch offset and log start offset are: negative positions."""
    ((requested,),) = (topic.partitions for topic in request.topics)

    def position(holder: FetchRequest | FetchPartition, name: str) -> int:
        value = getattr(holder, name)
        setattr(holder, name, 0)
        zero = codecs.encode(request, version)
        setattr(holder, name, -1)
        other = codecs.encode(request, version)
        setattr(holder, name, value)
        return first_difference(zero, other) - len(zero)

    session_at, offset_at = position(request, "session_epoch"), position(requested, "fetch_offset")
    return session_at, offset_at, position(requested, "log_start_offset")


def _response_shape(request: FetchRequest, last_row: PartitionData, version: int) -> tuple[bytes, bytes, int]:
    """The bytes before and after the watermarks in the response to `request`, and where in a frame they are."""
    (topic,) = request.topics

    def encoded(high_watermark: int) -> bytes:
        row = PartitionData(
            partition_index=topic.partitions[0].partition,
            high_watermark=high_watermark,
            last_stable_offset=0,
            log_start_offset=0,
            aborted_transactions=last_row.aborted_transactions,
            preferred_read_replica=last_row.preferred_read_replica,
            records=b"",
        )
        topics = [FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[row])]
        response = FetchResponse(session_id=request.session_id, responses=topics)
        return codecs.encode(response, version)[:-EMPTY_RECORDS_BYTES]

    body = encoded(0)
    at = first_difference(body, encoded(-1))
    header = b"\0" if version >= APIS[ApiKey.FETCH].flexible_from else b""
    watermarks_at = _CORRELATION_ID_BYTES + len(header) + at
    return header + body[:at], body[at + _WATERMARKS.size :], watermarks_at
