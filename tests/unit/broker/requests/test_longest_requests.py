"""No request holds the loop for long, however many elements it has: counted in calls of functions, not in time.

Every request there is, in its last version, with each of its arrays as long as the body lets it be. The bodies are
smaller here than the 1 MiB of `make stall`, and far longer than what is done in one go.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager
from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import Struct
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.served_apis import ALL_APIS, APIS
from tests.support.largest_bodies import (
    KNOWN,
    KNOWN_TOPICS,
    UNKNOWN,
    Shape,
    cost_of_all,
    first_and_last,
    largest,
    shapes_of,
)
from tests.support.longest_requests import a_busy_broker, frame_of, measure
from tests.support.profiled import profiled
from tests.support.unit_broker import UnitBroker

BODY_BYTES = 24 * 1024
CALLS_MAX = 45_000
"""Of a slice: 1,000 steps of 45 calls each. A call is 0.1 us or so: 4.5 ms."""
TINY_RECORDS = 2 * CALLS_MAX
"""Of each record set: it would be held for too long by one call for each record."""


class Calls:
    """Counts the functions called, Python's and C's."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        return self.count

    def counting(self) -> AbstractContextManager[None]:
        return profiled(self._on_event)

    def _on_event(self, _frame: Any, event: str, _argument: Any) -> None:
        if event in {"call", "c_call"}:
            self.count += 1


def deepest(key: ApiKey) -> Shape:
    """The shape with most rows: the innermost array that has rows, in elements of which all else is empty."""
    found = [shape for shape in shapes_of(APIS[key], APIS[key].max_version) if shape.names == KNOWN and not shape.inner]
    return max(found, key=lambda shape: (rows_in(shape), len(shape.fanned)))


def rows_in(shape: Shape) -> int:
    message = largest(shape, 4_096)
    return cost_of_all(Struct(shape.api.request), message)


def last_those_that_delete(key: ApiKey) -> bool:
    return key.name.startswith(("DELETE", "STOP", "UPDATE", "LEADER"))


async def held(broker: UnitBroker, shape: Shape, body_bytes: int = BODY_BYTES) -> str | None:
    """What is wrong with a request: it holds the loop for too long, or is not answered."""
    frame, calls = frame_of(shape, body_bytes), Calls()
    with calls.counting():
        found = await measure(broker, frame, calls)
    is_wrong = found.waited > CALLS_MAX or found.outcome.startswith("not answered")
    return f"{shape.title}: {found}" if is_wrong else None


async def test_no_request_holds_the_loop_for_more_than_a_slice() -> None:
    async with a_busy_broker() as broker:
        keys = sorted((api.key for api in APIS.values()), key=lambda key: (last_those_that_delete(key), key))
        assert [wrong for key in keys if (wrong := await held(broker, deepest(key))) is not None] == []


@pytest.mark.parametrize(
    ("key", "version", "path", "names", "body_bytes"),
    [
        (ApiKey.LEADER_AND_ISR, 7, ("live_leaders",), KNOWN, 50 * 1024),
        (ApiKey.UPDATE_METADATA, 8, ("live_brokers",), KNOWN, 50 * 1024),
        (ApiKey.STOP_REPLICA, 0, ("ungrouped_partitions",), KNOWN, 50 * 1024),
        (ApiKey.DELETE_GROUPS, 0, ("groups_names",), UNKNOWN, 55 * 1024),
        (ApiKey.OFFSET_COMMIT, 10, ("topics", "partitions"), KNOWN, 40 * 1024),
        (ApiKey.TXN_OFFSET_COMMIT, 6, ("topics", "partitions"), KNOWN, 40 * 1024),
        (ApiKey.DESCRIBE_UNREAD_RECORDS, 0, ("topics", "partitions"), KNOWN, 40 * 1024),
        (ApiKey.DESCRIBE_SEGMENTS, 0, ("topics", "partitions"), KNOWN, 40 * 1024),
        (ApiKey.DESCRIBE_SHARE_IN_FLIGHT, 0, ("topics", "partitions"), KNOWN, 40 * 1024),
        (ApiKey.DESCRIBE_SHARE_IN_FLIGHT, 0, ("topics", "partitions"), UNKNOWN, 40 * 1024),
    ],
    ids=lambda value: getattr(value, "name", None),
)
async def test_what_takes_few_calls_for_each_row_is_done_in_slices_as_well(
    key: ApiKey, version: int, path: tuple[str, ...], names: str, body_bytes: int
) -> None:
    async with a_busy_broker() as broker:
        assert await held(broker, Shape(ALL_APIS[key], version, path, names, 0), body_bytes) is None


@pytest.mark.skipif(os.environ.get("SORDINI_STALL") != "all", reason="some minutes: make stall")
@pytest.mark.parametrize("key", [api.key for api in APIS.values()], ids=lambda key: key.name)
async def test_no_request_of_any_shape_holds_the_loop_for_more_than_a_slice(key: ApiKey) -> None:
    for shape in first_and_last(frozenset({key})):
        async with a_busy_broker() as broker:
            assert await held(broker, shape) is None


def worst_batches() -> dict[str, bytes]:
    """The dearest record sets, by name, where the tests have a builder of them (`tests/support/worst_batches.py`)."""
    if importlib.util.find_spec("tests.support.worst_batches") is None:
        return {}
    builders = importlib.import_module("tests.support.worst_batches")
    found = {f"bomb {codec}": builders.bomb(codec) for codec in builders.EVERY_COMPRESSION}
    return found | {
        f"tiny records {codec}": builders.tiny_records(TINY_RECORDS, codec) for codec in builders.EVERY_CODEC
    }


@pytest.mark.skipif(
    importlib.util.find_spec("tests.support.worst_batches") is None, reason="there is no builder of them here"
)
async def test_no_record_set_holds_the_loop_for_more_than_a_slice() -> None:
    async with a_busy_broker() as broker:
        for name, records in worst_batches().items():
            data = PartitionProduceData(index=0, records=memoryview(records))
            topics = [TopicProduceData(name=KNOWN_TOPICS[0], partition_data=[data])]
            frame = broker.frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics))
            calls = Calls()
            with calls.counting():
                found = await measure(broker, frame, calls)
            assert found.waited <= CALLS_MAX, f"{name}: {found}"
