"""The pages "a Produce" and "a Fetch": requests over sockets do what the pages say, in that order."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sordini
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId
from sordini.storage.disk import SystemDisk
from tests.support.builders import a_batch
from tests.support.profiled import is_ours, profiled
from tests.support.socket_bench import Bench, receive, send, until
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, topic_id_of

PAGES = Path(__file__).resolve().parents[2] / "docs" / "internals"
PACKAGE = Path(sordini.__file__).parent
STEP = re.compile(r"`([\w/]+\.py::[\w.]+)`")
LARGE = bytes(100_000)


class Calls:
    """A profile hook that lists the calls of the broker's functions."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code) and not code.co_filename.startswith("<"):
            self.made.append(f"{Path(code.co_filename).relative_to(PACKAGE)}::{code.co_qualname}")


def steps_of(page: str) -> list[str]:
    return STEP.findall((PAGES / page).read_text(encoding="utf-8"))


def missing(steps: list[str], made: list[str]) -> list[str]:
    """The first step that was not made after those before it, with its number; empty where all were."""
    calls = iter(made)
    return next(([f"{number}. {step}"] for number, step in enumerate(steps, 1) if step not in calls), [])


@asynccontextmanager
async def serving(tmp_path: Path, isr: tuple[BrokerId, ...]) -> AsyncIterator[tuple[UnitBroker, Bench]]:
    (tmp_path / "logs").mkdir()
    async with a_broker({"log.dirs": str(tmp_path / "logs")}, SystemDisk()) as broker:
        await broker.lead("orders", isr=isr)
        async with Bench(service=broker.parts.dispatcher) as bench:
            yield broker, bench


def framed(key: ApiKey, version: int, message: Any) -> bytes:
    frame = request_header(APIS[key], version, 5, "client") + codecs.encode(message, version)
    return struct.pack(">i", len(frame)) + frame


def a_produce(value: bytes = b"figs") -> bytes:
    rows = [PartitionProduceData(index=0, records=memoryview(a_batch(1, value=value)))]
    topic = TopicProduceData(name="orders", topic_id=topic_id_of("orders"), partition_data=rows)
    return framed(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]))


def a_fetch(offset: int, replica: int = -1) -> bytes:
    row = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[row])
    request = FetchRequest(replica_id=replica, max_wait_ms=60_000, min_bytes=1, topics=[topic])
    return framed(ApiKey.FETCH, 12, request)


async def answered(client: Any) -> None:
    (size,) = struct.unpack(">i", await receive(client, 4))
    await receive(client, size)


async def test_a_produce_takes_the_steps_of_its_page(tmp_path: Path) -> None:
    async with serving(tmp_path, (ME, OTHER)) as (broker, bench):
        producer, follower, calls = await bench.connect(), await bench.connect(), Calls()
        log = broker.parts.replicas.partition("orders", 0).log
        with profiled(calls):
            for end in (1, 2):
                await send(producer, a_produce())
                await until(lambda end=end: log.log_end_offset == end)
                await send(follower, a_fetch(end, replica=OTHER))
                await answered(producer)
    assert missing(steps_of("a-produce.md"), calls.made) == []


async def test_a_fetch_takes_the_steps_of_its_page(tmp_path: Path) -> None:
    async with serving(tmp_path, (ME,)) as (broker, bench):
        producer, consumer, calls = await bench.connect(), await bench.connect(), Calls()
        partition = broker.parts.replicas.partition("orders", 0)
        with profiled(calls):
            await send(consumer, a_fetch(0))
            await until(lambda: partition.has_delayed_operations)
            await send(producer, a_produce(LARGE))
            await asyncio.gather(answered(producer), answered(consumer))
            await send(consumer, a_fetch(0))
            await answered(consumer)
    assert missing(steps_of("a-fetch.md"), calls.made) == []


@pytest.mark.parametrize("page", ["a-produce.md", "a-fetch.md"])
def test_a_page_names_its_steps(page: str) -> None:
    assert len(steps_of(page)) > 12


def test_a_step_out_of_order_is_found() -> None:
    assert missing(["a", "b"], ["b", "a"]) == ["2. b"]
    assert missing(["a", "b"], ["a", "c", "b"]) == []
