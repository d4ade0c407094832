"""A leader and a follower on disks in memory, in virtual time, with nothing but the network between them faked.

The leader is the production partition behind the production handlers; the follower the production fetchers. `Wire`
is the port `BrokerLinks`: it encodes and decodes what goes over it, and a test may break it in any way.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.down_conversion import DownConversions
from sordini.broker.records.fetch_handler import FetchHandler, Readers, ReplicaSelector
from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.list_offsets_handler import ListOffsetsHandler
from sordini.broker.records.prepared.fetch import FetchDeps, FetchPreparer
from sordini.broker.records.replica_fetch import ReplicaFetches
from sordini.broker.records.tail_fetch import TailFetches
from sordini.broker.requests.call import Call
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.client.connection import REQUEST_CORRELATION_POSITION, encode_request
from sordini.client.ports import Rounds
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.records.batch import read_header
from sordini.protocol.served_apis import APIS, Api
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import InterBrokerVersions, versions_for
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import Peers
from sordini.replication.ports import CallLater, Clock, Unreachable
from sordini.replication.replica_set import ReplicaSet, ReplicaSetDeps
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.storage.log_config import LogConfig
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse, run
from tests.support.builders import a_batch
from tests.support.fake_ports import ListLog
from tests.support.inline_record_jobs import RecordsHere
from tests.support.partitions import SETTINGS, checked, logs_on
from tests.support.unit_broker import a_peer, joined, read_answer

REQUESTS_MAX = 20_000
"""Of one test: more are sent only where every response comes at once and brings nothing."""
LEADER = BrokerId(1)
FOLLOWER = BrokerId(2)
NAME = TopicPartition("orders", 0)
API_OF = {api.request: api for api in APIS.values()}


def topic_id_of(topic: str) -> TopicId:
    return TopicId(topic.encode()[:16].ljust(16, b"\x01"))


def unlimited() -> ReplicaQuota:
    return ReplicaQuota(lambda _: False)


def pass_every_call(_: Call) -> None:
    """Check nothing."""


class Wire:
    """The port `BrokerLinks`: every link of a test, and what they carried."""

    def __init__(self, leaders: dict[BrokerId, LeaderSide]) -> None:
        self.leaders = leaders
        self.asked: list[tuple[int, Any]] = []
        """(version, request) of every request."""
        self.client_ids: list[str] = []
        self.latency_s = 0.0
        self.has_rounds = True
        self.frames: list[tuple[Rounds, bytes]] = []
        """What rounds were given."""
        self.damaged = 0
        """How many responses with records are changed in a byte of their last record."""
        self.rounds = 0
        """How many requests were made by a follower's rounds."""
        self.trouble: Callable[[Any], str | None] = lambda _: None
        """Given a request: None, or the connection breaks `before` or `after` the leader received it, or `late`."""

    def link(self, broker_id: BrokerId, client_id: str) -> WireLink:
        self.client_ids.append(client_id)
        return WireLink(self, broker_id, client_id)

    def of(self, kind: type) -> list[Any]:
        return [request for _, request in self.asked if type(request) is kind]


class WireLink:
    """One link: one request at a time, and `close` breaks it."""

    def __init__(self, wire: Wire, broker_id: BrokerId, client_id: str) -> None:
        self._wire = wire
        self._broker_id = broker_id
        self._client_id = client_id
        self._under_way: asyncio.Future[Any] | None = None
        self.closed_count = 0

    async def ask(self, request: Any, version: int, timeout_ms: int, rounds: Rounds | None = None) -> Any:
        assert self._under_way is None, "two requests on one link"
        api = API_OF[type(request)]
        frame = encode_request(api, version, 77, self._client_id, request)
        if rounds is None or not self._wire.has_rounds:
            return read_answer(api.key, version, [await self._exchanged(api, version, frame, timeout_ms)])
        rounds.on_sent(frame)
        while True:
            answer = await self._exchanged(api, version, frame, timeout_ms)
            self._wire.frames.append((rounds, answer))
            following = rounds.on_response(memoryview(answer)[4:])
            if following is None:
                return None if rounds.is_taken else read_answer(api.key, version, [answer])
            frame = following
            struct.pack_into(">i", frame, REQUEST_CORRELATION_POSITION, 77)
            self._wire.rounds += 1

    async def _exchanged(self, api: Api, version: int, frame: bytearray, timeout_ms: int) -> bytes:
        """The whole response to a request, if nothing breaks on the way."""
        wire = self._wire
        head_bytes = len(request_header(api, version, 77, self._client_id))
        request = codecs.decode(api.request, version, memoryview(bytes(frame))[4 + head_bytes :])[0]
        wire.asked.append((version, request))
        assert len(wire.asked) < REQUESTS_MAX, "requests without end"
        trouble = wire.trouble(request)
        self._under_way = asyncio.get_running_loop().create_future()
        pending = None
        try:
            await self._pass(wire.latency_s)
            if trouble == "before" or self._broker_id not in wire.leaders:
                raise Unreachable("the connection broke before the leader received it")
            leader = wire.leaders[self._broker_id]
            parts = leader.dispatcher.serve(a_peer(), memoryview(bytearray(frame))[4:])
            if isinstance(parts, DelayedResponse):
                pending = parts
                pending.attach(lambda: self._under_way.done() or self._under_way.set_result(None))
                if not pending.is_answered:
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._under_way
                parts, pending = pending.parts, None
            assert parts is not None
            answer = joined(parts)
            if wire.damaged and pending is None and len(answer) > 100:
                wire.damaged -= 1
                answer = answer[:-8] + bytes([answer[-8] ^ 1]) + answer[-7:]
            if trouble == "after":
                raise Unreachable("the connection broke when the leader had answered")
            await self._pass(wire.latency_s + (2.0 if trouble == "late" else 0.0))
        except TimeoutError:
            raise Unreachable("no answer in time") from None
        finally:
            self._under_way = None
            if pending is not None:
                pending.abandon()
        return answer

    async def _pass(self, seconds: float) -> None:
        """Bytes under way; `close` ends that, too."""
        if seconds:
            await asyncio.wait([self._under_way], timeout=seconds)
        if self._under_way.done():
            self._under_way.result()

    def close(self) -> None:
        self.closed_count += 1
        if self._under_way is not None and not self._under_way.done():
            self._under_way.set_exception(Unreachable("the link was closed"))


class LeaderSide:
    """A broker that leads, as far as followers see it."""

    def __init__(
        self,
        broker_id: BrokerId,
        clock: Clock,
        *,
        quota: ReplicaQuota | None = None,
        call_later: CallLater | None = None,
        check: Callable[[Call], None] = pass_every_call,
        closest: ReplicaSelector | None = None,
        has_tails: bool = True,
    ) -> None:
        self.broker_id = broker_id
        self.log = ListLog()
        self.topics: dict[TopicId, str] = {}
        deps = ReplicaSetDeps(
            settings_of=lambda _: SETTINGS,
            exists=lambda topic, _: topic in self.topics.values(),
            name_of=self.topics.get,
            now_ms=clock.now_ms,
            monotonic_ms=clock.monotonic_ms,
            log=self.log,
            peers=Peers(),
        )
        self.replicas = ReplicaSet(broker_id, logs_on(ForgetfulDisk()), deps)
        self._numbers = itertools.count(1)
        self.sessions = FetchSessions(100, lambda: next(self._numbers), self.topics.get)
        self.dispatcher = Dispatcher(asyncio.get_running_loop().create_task, self.log)
        followers = ReplicaFetches(check, quota or unlimited())
        call_later = call_later or asyncio.get_running_loop().call_later
        jobs, later = JobQueue(RecordsHere(), lambda: 2, lambda: 2**20, self.log), self.dispatcher.respond_later
        readers = Readers(followers, closest, TailFetches(self.replicas, call_later) if has_tails else None)
        self.leaders = KnownLeaders(self.replicas, MetadataCache("a-cluster"))
        fetch = FetchHandler(
            self.leaders,
            self.sessions,
            clock,
            call_later,
            readers=readers,
            conversions=DownConversions(jobs, later, bytes_max=2**20),
            bytes_max=2**30,
        )
        prepared = FetchDeps(self.leaders, self.sessions, clock.monotonic_ms, readers, 2**30)
        self.dispatcher.prepared.preparers[ApiKey.FETCH] = FetchPreparer(prepared)
        self.dispatcher.add([fetch.route(), *ListOffsetsHandler(self.replicas, later, jobs).routes()])

    def append(self, records: int = 3, name: TopicPartition = NAME, **fields: Any) -> None:
        partition = self.replicas.partition(*name)
        partition.append(checked(a_batch(records, **fields)), 0, all_replicas=False)
        partition.notify_purgatory()


class Pair:
    """Broker 1 leads, broker 2 follows."""

    def __init__(
        self,
        loop: SimLoop,
        *,
        versions: InterBrokerVersions | None = None,
        settings: FetchSettings | None = None,
        quota: ReplicaQuota | None = None,
        leader_quota: ReplicaQuota | None = None,
        per_leader: int = 1,
        flush_messages: int | None = None,
    ) -> None:
        self.clock = SimClock(loop)
        self.log = ListLog()
        self.tasks: list[asyncio.Task[None]] = []
        self.broker_epoch = 4711
        self.leader = LeaderSide(LEADER, self.clock, quota=leader_quota)
        self.wire = Wire({LEADER: self.leader})
        self.versions = versions or versions_for((3, 9), 0)
        deps = FetcherDeps(
            FOLLOWER,
            lambda: self.broker_epoch,
            self.versions,
            settings or FetchSettings(),
            quota or unlimited(),
            self.clock,
            self.log,
        )
        self.fetchers = ReplicaFetcherManager(deps, self.wire, self._spawn, per_leader=per_leader)
        config = LogConfig() if flush_messages is None else LogConfig(flush_messages=flush_messages)
        set_deps = ReplicaSetDeps(
            settings_of=lambda _: SETTINGS._replace(log=config),
            exists=lambda topic, _: topic in self.leader.topics.values(),
            name_of=self.leader.topics.get,
            now_ms=self.clock.now_ms,
            monotonic_ms=self.clock.monotonic_ms,
            log=self.log,
            fetchers=self.fetchers,
            truncates_before_fetch=not self.versions.truncates_on_fetch,
        )
        self.disk = ForgetfulDisk()
        self.replicas = ReplicaSet(FOLLOWER, logs_on(self.disk), set_deps)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    def assign(
        self,
        name: TopicPartition = NAME,
        *,
        epoch: int = 0,
        isr: tuple[BrokerId, ...] = (LEADER, FOLLOWER),
        topic_id: TopicId | None = None,
        only: ReplicaSet | None = None,
    ) -> None:
        """What the controller commands both."""
        topic_id = topic_id_of(name.topic) if topic_id is None else topic_id
        self.leader.topics[topic_id] = name.topic
        state = PartitionState(LEADER, LeaderEpoch(epoch), isr, 1)
        info = PartitionInfo(name, topic_id, (LEADER, FOLLOWER), state, epoch, is_new=True)
        for side in (self.leader.replicas, self.replicas):
            if only in (None, side):
                side.become_leader_or_follower(info)

    def usurp(self, name: TopicPartition = NAME, *, epoch: int) -> Partition:
        """Let the follower lead an epoch that the leader is not notified of: what it appends then diverges."""
        state = PartitionState(FOLLOWER, LeaderEpoch(epoch), (FOLLOWER,), 1)
        topic_id = self.followed(name).topic_id
        self.replicas.become_leader_or_follower(PartitionInfo(name, topic_id, (LEADER, FOLLOWER), state, epoch))
        return self.followed(name)

    def led(self, name: TopicPartition = NAME) -> Partition:
        return self.leader.replicas.partition(*name)

    def followed(self, name: TopicPartition = NAME) -> Partition:
        partition = self.replicas.get(*name)
        assert partition is not None
        return partition

    async def until(self, true: Callable[[], bool], seconds: float = 60.0) -> None:
        """Let virtual time go by until something is true; fails when it never is."""
        async with asyncio.timeout(seconds):
            while not true():
                await elapse(0.001)

    def is_equal(self, name: TopicPartition = NAME) -> bool:
        """Whether both logs begin and end at the same offsets, and have the same bytes between."""
        ours, theirs = self.followed(name).log, self.led(name).log
        ends = (ours.log_start_offset, ours.log_end_offset) == (theirs.log_start_offset, theirs.log_end_offset)
        return ends and contents(ours) == contents(theirs)

    async def stop(self) -> None:
        for partition in self.replicas:
            self.fetchers.remove_partition(partition)
        await asyncio.gather(*self.tasks)


def contents(log: Any) -> bytes:
    """Every byte of a log, from the batch that holds its first offset on."""
    return b"".join(batches(log).values())


def batch_starts(log: Any) -> list[int]:
    """The first offset of every batch, and the end of the log."""
    return [*batches(log), log.log_end_offset]


def batches(log: Any) -> dict[int, bytes]:
    """The batches of a log by their first offsets."""
    offset, found = log.log_start_offset, {}
    while (piece := log.read(offset, 2**30, log.log_end_offset, whole_first=True)) is not None:
        data = piece.read()
        piece.release()
        position = 0
        while position < len(data):
            header = read_header(memoryview(data), position)
            found[header.base_offset] = data[position : position + header.size]
            position += header.size
            offset = header.next_offset
    return found


def in_virtual_time(test: Callable[[SimLoop], Coroutine[Any, Any, None]], seed: int = 0) -> None:
    """Run a test's coroutine; an unhandled exception in a task fails it."""
    loop = SimLoop(seed, steps_max=300_000)
    run(loop, test(loop))
    assert loop.stray == []
