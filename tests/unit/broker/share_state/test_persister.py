"""How leaders reach stored states: here or on another broker, and again when the coordinator has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from sordini.broker.coordinators.ports import Ports
from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.persister import CoordinatedStates
from sordini.broker.share_state.ports import ReadState, SharePartitionKey, StateWrite
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.share_state.remote_states import SHARE_PARTITIONS_PER_REQUEST, RemoteStates
from sordini.broker.share_state.shard import OnAnswer
from sordini.broker.share_state.state_apis import STATE_APIS, Argument, StateKind
from sordini.broker.topics.metadata_cache import MetadataCache, TopicMetadata
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, Offset
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, refused
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, OTHER, known_broker, led, topic_id_of

TIMEOUT_MS = 5_000
A = SharePartitionKey("workers", topic_id_of("orders"), 0)
B = SharePartitionKey("workers", topic_id_of("orders"), 1)
OF_ANOTHER_GROUP = SharePartitionKey("readers", topic_id_of("orders"), 0)


def a_write(number: int = 0) -> StateWrite:
    return StateWrite(2, 0, Offset(0), 0, (StateRun(number, number + 1, 2, 1),))


class Topic:
    """The topic of states, which is there from the first call on that needs it."""

    name = SHARE_STATE_TOPIC

    def __init__(self, *, exists: bool = True) -> None:
        self.exists = exists

    def partition_count(self) -> int:
        return 1

    def create(self, on_done: Callable[[], None]) -> None:
        self.exists = True
        on_done()


class Here:
    """The coordinator on this broker: errors that it raises, in their order, before it serves."""

    def __init__(self) -> None:
        self.errors: list[ErrorCode] = []
        self.served: list[tuple[StateKind, SharePartitionKey, Argument]] = []

    def serve(self, kind: StateKind, key: SharePartitionKey, argument: Argument, on_answer: OnAnswer) -> None:
        if self.errors:
            raise BrokerError(self.errors.pop(0))
        self.served.append((kind, key, argument))
        on_answer(ReadState(ErrorCode.NONE, 2) if kind is StateKind.READ else ErrorCode.NONE)


class Elsewhere:
    """Broker 2: its answers' codes, in their order, then NONE; it answers when `gate` is open."""

    def __init__(self) -> None:
        self.codes: list[ErrorCode] = []
        self.requests: list[Any] = []
        self.is_asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, sent: Sent) -> Any:
        if isinstance(sent.request, ApiVersionsRequest):
            rows = [
                ApiVersion(
                    api_key=api.key, min_version=APIS[api.key].min_version, max_version=APIS[api.key].max_version
                )
                for api in STATE_APIS
            ]
            return ApiVersionsResponse(api_keys=rows)
        self.requests.append(sent.request)
        self.is_asked.set()
        await self.gate.wait()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NETWORK_EXCEPTION:
            await refused(sent)
        (api,) = [api for api in STATE_APIS if isinstance(sent.request, api.request)]
        return api.response(
            results=[
                api.result(
                    topic_id=topic.topic_id,
                    partitions=[api.result_row(row.partition, api.failure(code)) for row in topic.partitions],
                )
                for topic in sent.request.topics
            ]
        )


class World:
    """The states as broker 1 reaches them."""

    def __init__(self, loop: SimLoop, *, exists: bool = True) -> None:
        self.loop = loop
        self.here, self.elsewhere, self.log = Here(), Elsewhere(), ListLog()
        self.metadata = MetadataCache("cluster")
        self.metadata.set_brokers(ME, [known_broker(ME), known_broker(OTHER)])
        self.lead(ME)
        self.tasks: set[asyncio.Task[None]] = set()
        ports = Ports(SimClock(loop), loop.call_later, self.spawn, None, self.log)  # type: ignore[arg-type]
        remote = RemoteStates(ME, FakeLinks(loop, self.elsewhere.answer), self.spawn, self.log, TIMEOUT_MS)
        topic: Any = Topic(exists=exists)
        self.states = CoordinatedStates(ME, topic, self.metadata, self.here, remote, ports, TIMEOUT_MS)
        self.answers: list[Any] = []
        self.changed = asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        return task

    def lead(self, broker_id: BrokerId) -> None:
        """The coordinator is on this broker from now on."""
        self.metadata.topics[SHARE_STATE_TOPIC] = TopicMetadata(
            SHARE_STATE_TOPIC, topic_id_of(SHARE_STATE_TOPIC), {0: led(broker_id)}
        )

    def answered(self, answer: Any) -> None:
        self.answers.append(answer)
        self.changed.set()

    def write(self, key: SharePartitionKey = A, number: int = 0) -> None:
        self.states.write(key, a_write(number), self.answered)

    async def until(self, count: int) -> list[Any]:
        """The answers, when there are as many."""
        while len(self.answers) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.answers


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        in_virtual_time(lambda loop: test(World(loop)))

    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would look for the argument.
    return run


@in_world
async def test_a_state_that_is_coordinated_here_is_served_at_once(world: World) -> None:
    world.write()
    assert world.answers == [ErrorCode.NONE]
    assert world.here.served == [(StateKind.WRITE, A, a_write())]
    assert world.elsewhere.requests == []


@in_world
async def test_what_waits_for_one_broker_travels_together_by_group(world: World) -> None:
    world.lead(OTHER)
    world.elsewhere.gate.clear()
    world.write(A, 0)
    await world.elsewhere.is_asked.wait()
    for key, number in ((A, 1), (B, 2), (OF_ANOTHER_GROUP, 3), (A, 4)):
        world.write(key, number)
    world.elsewhere.gate.set()
    assert await world.until(5) == [ErrorCode.NONE] * 5
    sent = [
        (request.group_id, [(row.partition, row.state_batches[0].first_offset) for row in request.topics[0].partitions])
        for request in world.elsewhere.requests
    ]
    assert sent == [
        ("workers", [(0, 0)]),
        ("workers", [(0, 1), (1, 2)]),
        ("readers", [(0, 3)]),
        ("workers", [(0, 4)]),
    ]


@in_world
async def test_a_request_has_a_bounded_number_of_share_partitions(world: World) -> None:
    world.lead(OTHER)
    for number in range(SHARE_PARTITIONS_PER_REQUEST + 1):
        world.write(A._replace(partition=number))
    await world.until(SHARE_PARTITIONS_PER_REQUEST + 1)
    sizes = [len(request.topics[0].partitions) for request in world.elsewhere.requests]
    assert sizes == [SHARE_PARTITIONS_PER_REQUEST, 1]


@in_world
async def test_a_coordinator_that_moves_is_followed_and_no_write_is_lost(world: World) -> None:
    world.lead(OTHER)
    world.elsewhere.codes = [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR]
    world.here.errors = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    world.write()
    await world.elsewhere.is_asked.wait()
    world.loop.call_later(0.05, world.lead, ME)
    assert await world.until(1) == [ErrorCode.NONE]
    assert world.here.served == [(StateKind.WRITE, A, a_write())]
    assert all(isinstance(request, WriteShareGroupStateRequest) for request in world.elsewhere.requests)


@in_world
async def test_an_error_of_the_coordinator_is_the_answer(world: World) -> None:
    world.here.errors = [ErrorCode.FENCED_STATE_EPOCH]
    world.write()
    assert world.answers == [ErrorCode.FENCED_STATE_EPOCH]
    world.lead(OTHER)
    world.elsewhere.codes = [ErrorCode.FENCED_LEADER_EPOCH]
    world.states.read(A, 1, world.answered)
    assert (await world.until(2))[1] == ReadState(ErrorCode.FENCED_LEADER_EPOCH)


@in_world
async def test_a_broker_that_does_not_answer_is_given_up_when_the_time_is_up(world: World) -> None:
    world.lead(OTHER)
    world.elsewhere.gate.clear()
    began = world.loop.time()
    world.write()
    assert await world.until(1) == [ErrorCode.REQUEST_TIMED_OUT]
    assert world.loop.time() - began < TIMEOUT_MS / 1000 + 1
    world.elsewhere.gate.set()
    await asyncio.wait(world.tasks)
    assert world.answers == [ErrorCode.REQUEST_TIMED_OUT]


@in_world
async def test_without_a_coordinator_the_last_error_is_the_answer_when_the_time_is_up(world: World) -> None:
    world.lead(BrokerId(9))
    began = world.loop.time()
    world.write()
    assert await world.until(1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert TIMEOUT_MS / 1000 <= world.loop.time() - began < TIMEOUT_MS / 1000 + 2


@in_world
async def test_a_topic_that_the_coordinators_broker_does_not_know_yet_is_asked_for_again(world: World) -> None:
    world.metadata.set_partition("orders", A.topic_id, 0, led(ME))
    world.here.errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.write()
    assert await world.until(1) == [ErrorCode.NONE]
    world.here.errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.write(A._replace(topic_id=topic_id_of("none")))
    assert world.answers[1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_first_call_creates_the_topic() -> None:
    async def call(loop: SimLoop) -> None:
        world = World(loop, exists=False)
        world.write()
        assert await world.until(1) == [ErrorCode.NONE]

    in_virtual_time(call)
