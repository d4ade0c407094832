"""Every API is served while each call of the coordination store fails, in each way in which it can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.network.ports import DelayedResponse, Parts
from sordini.broker.requests.store_error_codes import CODES, DEFAULT_CODE
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages import incremental_alter_configs as incremental
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from sordini.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from sordini.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.served_apis import APIS
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    StoreUnusable,
)
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.controlled_broker import governed
from tests.support.fake_peers import in_virtual_time
from tests.support.message_samples import sample
from tests.support.unit_broker import ME, UnitBroker, inline, read_answer

READS = frozenset({"get", "children", "exists"})
WRITES = frozenset({"create", "set", "delete", "multi"})
AWAY = (ConnectionLoss, SessionExpired)
REFUSED = (StoreUnusable, NoNode, BadVersion, NodeExists)
OUTAGE_S = 60.0

THE_CONTROLLERS_COMMANDS = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA})
"""They wait for the store however long it is away: a controller does not repeat a command that was refused."""

TOUCHING: dict[ApiKey, tuple[int, Any, ErrorCode]] = {
    ApiKey.CREATE_TOPICS: (
        5,
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")],
            timeout_ms=1_000,
        ),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
    ApiKey.DELETE_TOPICS: (
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
    ApiKey.CREATE_PARTITIONS: (
        3,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3)], timeout_ms=1_000),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
    ApiKey.ALTER_CONFIGS: (
        2,
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name="orders", configs=[AlterableConfig(name="retention.ms", value="1")]
                )
            ]
        ),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        1,
        incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=2,
                    resource_name="orders",
                    configs=[incremental.AlterableConfig(name="retention.ms", value="1")],
                )
            ]
        ),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
    ApiKey.FIND_COORDINATOR: (3, FindCoordinatorRequest(key="g"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ApiKey.METADATA: (
        9,
        MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True),
        ErrorCode.LEADER_NOT_AVAILABLE,
    ),
    ApiKey.INIT_PRODUCER_ID: (
        4,
        InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1),
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: (
        0,
        AllocateProducerIdsRequest(broker_id=ME, broker_epoch=1),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
}
"""Requests that cannot be answered without the store: version, request, and the code that clients repeat it upon."""


class FailingSession:
    """A session of which every call that may raise `error` does; it counts those calls."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.error: type[CoordinationError] | None = None
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        made = getattr(self.session, name)
        if name not in READS | WRITES:
            return made

        async def call(path: Any, *args: Any, **options: Any) -> Any:
            error = self.error
            if error is None or (error in (BadVersion, NodeExists) and name in READS):
                return await made(path, *args, **options)
            self.calls += 1
            await asyncio.sleep(0)
            raise error("of the test")

        return call


@asynccontextmanager
async def a_broker_on(protocol: str) -> AsyncIterator[tuple[UnitBroker, FailingSession]]:
    """A broker that knows the topic orders, on a store that fails on demand."""
    store = await EmbeddedStore.open(":memory:", inline, _Clock())
    session = FailingSession(await store.open_session())
    await ensure_base_paths(session)  # type: ignore[arg-type]  # It passes on what it does not know.
    given = {"log.dirs": "/logs", "broker.id": "1", "inter.broker.protocol.version": protocol}
    config, _ = build_config(given)
    broker = UnitBroker(config, frozenset(given), ForgetfulDisk(), session)  # type: ignore[arg-type]
    await broker.learn()
    await broker.lead("orders")
    try:
        yield broker, session
    finally:
        session.error = None
        for task in broker.tasks:
            task.cancel()
        await store.close()


class _Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


def codes_in(message: Any) -> Iterator[ErrorCode]:
    """Every error code anywhere in a message."""
    if isinstance(message, list):
        for one in message:
            yield from codes_in(one)
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            yield ErrorCode(value)
        else:
            yield from codes_in(value)


def serve(broker: UnitBroker, key: ApiKey, version: int, request: Any) -> Callable[[], Any]:
    """Serve one request; what reads its answer, which is None while there is none."""
    try:
        answer: Parts | DelayedResponse | None = broker.serve(key, version, request)
    except WireError:
        return lambda: None
    if not isinstance(answer, DelayedResponse):
        return lambda: None if answer is None else read_answer(key, version, answer)
    return lambda: read_answer(key, version, answer.parts) if answer.is_answered and answer.parts is not None else None


async def outage(broker: UnitBroker) -> None:
    """Let all that waits take its time."""
    for _ in range(6):
        await elapse(OUTAGE_S / 6)
        broker.timers.fire()
        while broker.parts.dispatcher.slices.waiting:
            broker.parts.dispatcher.slices.run_slice()


def check(broker: UnitBroker) -> None:
    """No task has ended by an exception, and no log line reports a bug."""
    for task in broker.tasks:
        assert not task.done() or task.cancelled() or task.exception() is None, task.exception()
    assert [fields for _, event, fields in broker.log.lines if event == "request failed" or "exc_info" in fields] == []
    reported = [
        (event, fields.get("api"), fields.get("topic"))
        for level, event, fields in broker.log.lines
        if level in ("warning", "error")
    ]
    assert sorted(reported, key=str) == sorted(set(reported), key=str), "one line for each kind of failure"


@pytest.mark.parametrize("error", AWAY)
@pytest.mark.parametrize("key", TOUCHING)
def test_a_request_that_needs_the_store_is_answered_with_the_code_that_its_clients_repeat_it_upon(
    key: ApiKey, error: type[CoordinationError]
) -> None:
    async def main(loop: SimLoop) -> None:
        async with a_broker_on("3.9") as (broker, session), governed(broker):
            version, request, expected = TOUCHING[key]
            session.error = error
            read = serve(broker, key, version, request)
            await outage(broker)
            answer = read()
            assert answer is not None, "answered within the outage"
            assert set(codes_in(answer)) - {ErrorCode.NONE} == {expected}
            assert session.calls, "the request has come to the store"
            check(broker)

    in_virtual_time(main)


@pytest.mark.parametrize(
    ("error", "protocol"), [(ConnectionLoss, "2.6"), *((error, "3.9") for error in AWAY + REFUSED)]
)
def test_no_request_of_any_api_brings_an_error_of_the_store_out_of_its_handler(
    error: type[CoordinationError], protocol: str
) -> None:
    async def main(loop: SimLoop) -> None:
        async with a_broker_on(protocol) as (broker, session):
            session.error = error
            readers = {}
            for key, api in APIS.items():
                request = sample(api.request, api.max_version)
                if key == ApiKey.SHARE_FETCH:
                    request.share_acquire_mode = 0  # Another one is answered UNKNOWN_SERVER_ERROR, as by Apache Kafka.
                readers[api.key, "sample"] = serve(broker, api.key, api.max_version, request)
                if api.key in TOUCHING:
                    version, request, _ = TOUCHING[ApiKey(key)]
                    readers[api.key, "touching"] = serve(broker, api.key, version, request)
            await outage(broker)
            for (key, kind), read in readers.items():
                answer = read()
                if key not in THE_CONTROLLERS_COMMANDS and answer is not None:
                    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes_in(answer), (key.name, kind, answer)
            check(broker)

    in_virtual_time(main)


def test_refusals_for_want_of_the_store_are_one_line_for_each_api_and_one_when_it_answers_again() -> None:
    async def main(loop: SimLoop) -> None:
        async with a_broker_on("3.9") as (broker, session), governed(broker):
            version, request, _ = TOUCHING[ApiKey.ALLOCATE_PRODUCER_IDS]
            session.error = ConnectionLoss
            for _ in range(200):
                serve(broker, ApiKey.ALLOCATE_PRODUCER_IDS, version, request)
            await outage(broker)
            refused = "requests refused: coordination store unavailable"
            assert [fields for event, fields in broker.log.at("warning") if event == refused] == [
                {"api": "ALLOCATE_PRODUCER_IDS", "reason": "ConnectionLoss: of the test"}
            ]
            refusals = broker.parts.dispatcher.fence.store_error_codes
            refusals.session_changed(SessionState.SUSPENDED)
            refusals.session_changed(SessionState.CONNECTED)
            refusals.session_changed(SessionState.CONNECTED)
            over = "coordination store available again"
            assert [fields for event, fields in broker.log.at("info") if event == over] == [
                {"refused": "ALLOCATE_PRODUCER_IDS 200"}
            ]

    in_virtual_time(main)


def test_every_code_is_one_that_clients_repeat_a_request_upon() -> None:
    repeated = {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
    assert {*CODES.values(), DEFAULT_CODE} == repeated
