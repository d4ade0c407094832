"""The fence: what a failing handler becomes, and how an answer becomes a frame."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.api_versions_handler import ApiVersionsHandler
from sordini.broker.requests.call import OPEN, Call, EncodedBody, Route, VersionedApi
from sordini.broker.requests.decoding_costs import COST_AT_ONCE, cost_max_of
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.requests.error_responses import ROWS_PER_PIECE
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import STEPS_PER_SLICE, Work
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.headers import request_header
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.primitives import ROW_COST
from sordini.protocol.served_apis import APIS, TELEMETRY_APIS
from tests.support.fake_ports import FakeSlice, ListLog
from tests.support.unit_broker import a_peer, read_answer

COORDINATOR = ApiKey.FIND_COORDINATOR


def raising(error: BaseException) -> Callable[[Call], Any]:
    def handle(call: Call) -> Any:
        raise error

    return handle


def refuse(request: Any, code: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1, host="")


class Desk:
    """A dispatcher with one scripted route beside ApiVersions."""

    def __init__(self, handle: Callable[[Call], Any]) -> None:
        self.log = ListLog()
        self.tasks: list[asyncio.Task[None]] = []
        self.dispatcher = Dispatcher(lambda work: self.tasks.append(asyncio.create_task(work)), self.log)
        self.dispatcher.add([Route(COORDINATOR, handle, refuse, OPEN), ApiVersionsHandler("cluster", 0).route()])

    def serve(self, version: int = 0, key: ApiKey = COORDINATOR, request: Any = None) -> Any:
        message = FindCoordinatorRequest(key="group") if request is None else request
        frame = request_header(APIS[key], version, 77, "test") + codecs.encode(message, version)
        return self.dispatcher.serve(a_peer(), memoryview(frame))

    def raw(self, frame: bytes) -> Any:
        return self.dispatcher.serve(a_peer(), memoryview(frame))


def test_a_refusal_becomes_its_code_and_is_not_logged() -> None:
    desk = Desk(raising(BrokerError(ErrorCode.NOT_COORDINATOR, "broker 2 is")))
    answer = read_answer(COORDINATOR, 0, desk.serve())
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert desk.log.lines == []


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError(3), OSError(5, "no"), RecursionError()])
def test_any_other_failure_becomes_an_unknown_error_with_one_line_that_names_the_peer_and_the_api(
    error: Exception,
) -> None:
    desk = Desk(raising(error))
    answer = read_answer(COORDINATOR, 2, desk.serve(2))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    ((level, event, fields),) = desk.log.lines
    assert (level, event) == ("error", "request failed")
    assert fields == {"api": "FIND_COORDINATOR", "version": 2, "peer": "192.0.2.1:4711", "exc_info": error}


@pytest.mark.parametrize(
    "error", [WireError("acks=0 failed"), AssertionError("a broken invariant"), KeyboardInterrupt()]
)
def test_what_ends_the_connection_or_the_process_passes_the_fence(error: BaseException) -> None:
    desk = Desk(raising(error))
    with pytest.raises(type(error)):
        desk.serve()
    assert desk.log.lines == []


def test_an_answer_that_cannot_be_encoded_is_a_failure_too() -> None:
    desk = Desk(lambda call: FindCoordinatorResponse(error_code=100_000, node_id=-1, port=-1))
    assert read_answer(COORDINATOR, 0, desk.serve()).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(desk.log.at("error")) == 1


def test_requests_and_errors_are_counted_by_api_and_version() -> None:
    desk = Desk(raising(BrokerError(ErrorCode.NOT_COORDINATOR)))
    for version in (0, 0, 2):
        desk.serve(version)
    counted = {(lane.api.key, lane.version): (lane.requests, lane.errors) for lane in desk.dispatcher.versioned_apis}
    assert counted == {(COORDINATOR, 0): (2, 2), (COORDINATOR, 2): (1, 1)}


@pytest.mark.parametrize(
    ("key", "version"),
    [(999, 0), (-1, 0), (ApiKey.LEADER_AND_ISR, 0), (COORDINATOR, 7), (COORDINATOR, -1), (ApiKey.FETCH, 4)],
)
def test_a_request_that_is_not_served_ends_the_connection_and_is_named(key: int, version: int) -> None:
    desk = Desk(raising(AssertionError()))
    with pytest.raises(WireError, match="is not served"):
        desk.raw(struct.pack(">hhih", key, version, 1, -1) + bytes(50))
    assert list(desk.dispatcher.versioned_apis) == [], "a peer cannot fill the table with versions it made up"


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 9])
def test_a_frame_shorter_than_a_header_ends_the_connection(size: int) -> None:
    head = struct.pack(">hhih", COORDINATOR, 0, 1, -1)
    with pytest.raises(WireError):
        Desk(raising(AssertionError())).raw(head[:size])


def test_a_body_that_is_cut_short_ends_the_connection_before_the_handler_sees_it() -> None:
    desk = Desk(raising(AssertionError()))
    with pytest.raises(WireError):
        desk.raw(struct.pack(">hhih", COORDINATOR, 0, 1, -1) + b"\x00\x05gro")


@pytest.mark.parametrize("version", [6, 99, 0x7FFF, -1])
def test_api_versions_from_the_future_is_answered_in_version_0_with_what_it_may_use(version: int) -> None:
    desk = Desk(raising(AssertionError()))
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 4) + b"test"
    body = b"\x00\xff\xff\xff" if version > 0 else b""
    answer = read_answer(ApiKey.API_VERSIONS, 0, desk.raw(head + body))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(ApiKey.API_VERSIONS, 0, 5)]
    assert list(desk.dispatcher.versioned_apis) == []


def test_the_answer_to_api_versions_has_a_classic_header_in_every_version() -> None:
    desk = Desk(raising(AssertionError()))
    for version in range(6):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        (frame,) = desk.serve(version, ApiKey.API_VERSIONS, request)
        body = memoryview(frame)[8:]
        message, end = codecs.decode(ApiVersionsResponse, version, body)
        assert end == len(body)
        assert message.error_code == 0
        assert len(message.api_keys) == len(APIS.keys() - TELEMETRY_APIS)


def test_what_was_encoded_before_is_framed_as_it_is() -> None:
    body = codecs.encode(refuse(None, ErrorCode.NOT_COORDINATOR), 3)
    desk = Desk(lambda call: EncodedBody(body))
    (frame,) = desk.serve(3)
    assert bytes(frame) == struct.pack(">iix", 5 + len(body), 77) + body


def test_a_handler_may_have_no_answer() -> None:
    assert Desk(lambda call: None).serve() is None


def fetched(*records: Any) -> FetchResponse:
    rows = [PartitionData(partition_index=index, records=piece) for index, piece in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])


class Content(FakeSlice):
    """A slice whose bytes are known."""

    def __init__(self, content: bytes) -> None:
        super().__init__(None, 0, len(content))
        self.content = content

    def read(self) -> bytes:
        return self.content


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_slices_stand_between_the_bytes_around_them_and_count_in_the_size(version: int) -> None:
    first, second = b"first records", b"second"
    pieces = [Content(first), Content(second)]
    lane = VersionedApi(APIS[ApiKey.FETCH], version, Route(ApiKey.FETCH, raising(AssertionError()), refuse, OPEN))
    call = Call(lane, a_peer(), 77, None, FetchRequest())
    parts = call.frame(fetched(*pieces, b""))
    assert [part for part in parts if isinstance(part, Content)] == pieces
    bytes_only = b"".join(part.read() if isinstance(part, Content) else bytes(part) for part in parts)
    assert bytes_only == bytes(call.frame(fetched(first, second, b""))[0]), "as if the records had been copied"
    assert [piece.released for piece in pieces] == [0, 0]


@pytest.mark.parametrize("version", [4, 12])
def test_an_answer_that_ends_with_a_slice_has_no_empty_part_behind_it(version: int) -> None:
    lane = VersionedApi(APIS[ApiKey.FETCH], version, Route(ApiKey.FETCH, raising(AssertionError()), refuse, OPEN))
    parts = Call(lane, a_peer(), 77, None, FetchRequest()).frame(fetched(Content(b"records")))
    assert all(len(part) for part in parts if not isinstance(part, Content))
    assert isinstance(parts[-1], Content) is (version == 4), "flexible versions end with tags"


async def later(desk_work: Callable[[], Any]) -> tuple[Desk, DelayedResponse]:
    async def work() -> Any:
        return desk_work()

    desk = Desk(lambda call: desk.dispatcher.respond_later(call, work()))
    pending = desk.serve()
    assert isinstance(pending, DelayedResponse)
    assert not pending.is_answered
    await asyncio.wait(desk.tasks)
    return desk, pending


async def test_an_answer_may_come_later() -> None:
    _, pending = await later(lambda: refuse(None, ErrorCode.NONE))
    assert read_answer(COORDINATOR, 0, pending.parts).error_code == 0


async def test_later_too_there_may_be_no_answer() -> None:
    _, pending = await later(lambda: None)
    assert pending.is_answered
    assert pending.parts is None


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (BrokerError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT, 0),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
        (TimeoutError(), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
async def test_a_failure_that_comes_later_is_fenced_like_one_at_once(
    error: Exception, code: ErrorCode, lines: int
) -> None:
    def fail() -> Any:
        raise error

    desk, pending = await later(fail)
    assert read_answer(COORDINATOR, 0, pending.parts).error_code == code
    assert len(desk.log.at("error")) == lines
    (lane,) = desk.dispatcher.versioned_apis
    assert (lane.requests, lane.errors) == (1, 1)


def test_a_response_that_comes_later_and_cannot_be_encoded_is_a_failure_of_its_call_alone() -> None:
    responders: list[Responder[FindCoordinatorResponse]] = []

    def handle(call: Call) -> DelayedResponse | FindCoordinatorResponse:
        responders.append(Responder(call))
        return responders[-1].result()

    desk = Desk(handle)
    pending = desk.serve()
    responders[0].answer(FindCoordinatorResponse(error_code=100_000, node_id=-1, port=-1))
    assert read_answer(COORDINATOR, 0, pending.parts).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(desk.log.at("error")) == 1


async def test_a_broken_invariant_that_comes_later_ends_the_task_that_runs_it() -> None:
    def fail() -> Any:
        raise AssertionError("broken")

    desk, pending = await later(fail)
    (task,) = desk.tasks
    assert isinstance(task.exception(), AssertionError)
    assert not pending.is_answered


MANY = COST_AT_ONCE // ROW_COST + 1
"""Keys of a request that is not read in one go."""


def many_keys(count: int = MANY) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[f"{number}" for number in range(count)])


def coordinators(count: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator(key=f"{number}") for number in range(count)])


async def answered(desk: Desk, pending: Any) -> Any:
    """The answer, and how many slices of which size it took."""
    assert isinstance(pending, DelayedResponse)
    while not pending.is_answered:  # noqa: ASYNC110 - each round of the loop is a slice.
        await asyncio.sleep(0)
    assert desk.dispatcher.slices.waiting == 0
    return None if pending.parts is None else read_answer(COORDINATOR, 4, pending.parts)


async def test_a_request_of_many_elements_is_read_and_answered_in_slices() -> None:
    desk = Desk(lambda call: coordinators(len(call.body.coordinator_keys)))
    pending = desk.serve(4, request=many_keys())
    assert pending.blocks_pipeline, "nothing behind it may start"
    assert len((await answered(desk, pending)).coordinators) == MANY
    slices = desk.dispatcher.slices
    assert slices.slices >= 2 * MANY // STEPS_PER_SLICE
    assert slices.steps_max <= STEPS_PER_SLICE
    (lane,) = desk.dispatcher.versioned_apis
    assert lane.requests == 1


async def test_a_request_of_as_many_elements_as_are_read_at_once_is_answered_at_once() -> None:
    desk = Desk(lambda call: coordinators(1))
    assert isinstance(desk.serve(4, request=many_keys(MANY - 1)), list)
    assert desk.dispatcher.slices.slices == 0


async def test_a_handlers_steps_are_made_at_once_when_they_are_few_and_in_slices_when_they_are_many() -> None:
    def handler(count: int) -> Callable[[Call], Any]:
        def handle(call: Call) -> Work[FindCoordinatorResponse]:
            for _ in range(count):
                yield 1
            return coordinators(2)

        return handle

    assert isinstance(Desk(handler(STEPS_PER_SLICE - 1)).serve(4), list)
    desk = Desk(handler(5 * STEPS_PER_SLICE))
    assert len((await answered(desk, desk.serve(4))).coordinators) == 2
    assert desk.dispatcher.slices.slices == 5


async def test_an_answer_that_comes_later_to_a_long_request_is_written_in_slices_too() -> None:
    promises: list[tuple[Call, DelayedResponse]] = []

    def handle(call: Call) -> DelayedResponse:
        promises.append((call, DelayedResponse()))
        return promises[0][1]

    desk = Desk(handle)
    pending = desk.serve(4, request=many_keys())
    while not promises or desk.dispatcher.slices.waiting:  # noqa: ASYNC110 - as above.
        await asyncio.sleep(0)
    assert not pending.blocks_pipeline, "it only waits now"
    before = desk.dispatcher.slices.slices
    call, promise = promises[0]
    call.complete(promise, coordinators(MANY))
    assert len((await answered(desk, pending)).coordinators) == MANY
    assert desk.dispatcher.slices.slices - before >= MANY // STEPS_PER_SLICE


async def test_a_long_request_that_is_refused_is_refused_in_slices_with_a_row_for_each_element() -> None:
    def refuse_rows(request: Any, code: ErrorCode) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, error_code=code) for key in request.coordinator_keys]
        )

    for error, code in (
        (BrokerError(ErrorCode.NOT_COORDINATOR, "no"), ErrorCode.NOT_COORDINATOR),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        desk = Desk(raising(error))
        desk.dispatcher.add([Route(COORDINATOR, raising(error), refuse_rows, OPEN)])
        rows = (await answered(desk, desk.serve(4, request=many_keys()))).coordinators
        assert [(row.key, row.error_code) for row in rows] == [(f"{number}", code) for number in range(MANY)]
        assert desk.dispatcher.slices.steps_max < STEPS_PER_SLICE + ROWS_PER_PIECE


@pytest.mark.parametrize("damage", ["too many", "cut short", "not text"])
async def test_what_is_wrong_far_behind_in_a_long_request_ends_its_connection(damage: str) -> None:
    desk = Desk(lambda call: coordinators(0))
    count = cost_max_of(APIS[COORDINATOR]) // ROW_COST + 1 if damage == "too many" else MANY
    body = bytearray(codecs.encode(many_keys(count), 4))
    if damage == "not text":
        body[-2] = 0xFF
    elif damage == "cut short":
        del body[-9:]
    failures: list[Exception] = []
    pending = desk.raw(request_header(APIS[COORDINATOR], 4, 77, "test") + body)
    pending.on_failure = failures.append
    assert await answered(desk, pending) is None
    (failure,) = failures
    assert isinstance(failure, WireError)
    if damage == "too many":
        assert "coordinator_keys: " in str(failure)
        assert "50000 rows are allowed for each 1048576 bytes" in str(failure)


async def test_a_larger_request_may_have_more_elements_in_proportion_and_one_between_brokers_twice_as_many() -> None:
    desk = Desk(lambda call: coordinators(0))
    count = cost_max_of(APIS[COORDINATOR]) // ROW_COST + 1
    request = FindCoordinatorRequest(coordinator_keys=["x" * 30] * count)  # 1.5 MiB.
    assert (await answered(desk, desk.serve(4, request=request))).coordinators == []
    assert cost_max_of(APIS[ApiKey.UPDATE_METADATA]) == 2 * cost_max_of(APIS[COORDINATOR])


async def test_a_long_request_whose_connection_closes_costs_nothing_more() -> None:
    handled: list[Call] = []

    def handle(call: Call) -> FindCoordinatorResponse:
        handled.append(call)
        return coordinators(0)

    desk = Desk(handle)
    pending = desk.serve(4, request=many_keys())
    await asyncio.sleep(0)
    pending.abandon()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (handled, desk.dispatcher.slices.waiting, pending.is_answered) == ([], 0, False)


async def test_an_answer_larger_than_any_client_reads_is_refused() -> None:
    def handle(call: Call) -> Work[FindCoordinatorResponse]:
        yield 2 * STEPS_PER_SLICE
        return FindCoordinatorResponse(coordinators=[Coordinator(key="x" * 30_000)] * 4_000)

    desk = Desk(handle)
    desk.dispatcher.add(
        [
            Route(
                COORDINATOR,
                handle,
                lambda _, code: FindCoordinatorResponse(coordinators=[Coordinator(error_code=code)]),
                OPEN,
            )
        ]
    )
    (row,) = (await answered(desk, desk.serve(4))).coordinators
    assert row.error_code == ErrorCode.INVALID_REQUEST
