"""How a registry's topic is read while others read it."""

from __future__ import annotations

import asyncio
from typing import Any

from sordini.broker.records.schemas.schema_topic import SchemaTopic
from sordini.broker.topics.metadata_cache import MetadataCache, PartitionMetadata
from sordini.client.ports import Rounds
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.replay import Replay
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId

NAME = "_schemas"
ME = BrokerId(1)


class LeaderOfTheTopic:
    """Answers what the log has when a request comes, but not before `may_answer`; implements BrokerLinks and its link."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.fetched_from: list[int] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def link(self, broker_id: BrokerId, client_id: str) -> LeaderOfTheTopic:
        del broker_id, client_id
        return self

    async def ask(self, request: Any, version: int, timeout_ms: int, rounds: Rounds | None = None) -> Any:
        del version, timeout_ms, rounds
        if not isinstance(request, FetchRequest):
            first = ListOffsetsPartitionResponse(partition_index=0, offset=0)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=NAME, partitions=[first])])
        start = request.topics[0].partitions[0].fetch_offset
        self.fetched_from.append(start)
        records = [Record(start + number, 0, key, b"{}") for number, key in enumerate(self.keys[start:])]
        data = build_batch(records, base_offset=start) if records else b""
        row = PartitionData(records=memoryview(data), last_stable_offset=len(self.keys))
        self.is_asked.set()
        await self.may_answer.wait()
        return FetchResponse(responses=[FetchableTopicResponse(topic=NAME, partitions=[row])])

    def close(self) -> None:
        """There is nothing to close."""


class Reader:
    """A topic that is read, and the keys of what came of it."""

    def __init__(self, leader: LeaderOfTheTopic) -> None:
        metadata = MetadataCache("cluster")
        partition = PartitionMetadata(ME, LeaderEpoch(0), (ME,), (ME,), ())
        metadata.set_partition(NAME, TopicId(b"i" * 16), 0, partition)
        self.keys: list[bytes] = []
        self.topic = SchemaTopic(NAME, metadata, leader, "test", self._begin)

    def _begin(self) -> Replay:
        self.keys = []
        return Replay(lambda key, _value, _offset: self.keys.append(key))


async def test_a_reading_that_began_before_the_call_is_not_enough() -> None:
    """A record that was appended between the two is known to the second caller."""
    leader = LeaderOfTheTopic()
    reader = Reader(leader)
    leader.may_answer.clear()
    leader.keys = [b"a"]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(reader.topic.read())
        await leader.is_asked.wait()
        leader.keys = [b"a", b"b"]
        later = group.create_task(reader.topic.read())
        also = group.create_task(reader.topic.read())
        leader.may_answer.set()
        await later
        assert reader.keys == [b"a", b"b"]
        await also
    assert leader.fetched_from == [0, 1], "one reading is enough for all that called before it began"


async def test_after_a_restart_the_topic_is_read_from_its_beginning() -> None:
    leader = LeaderOfTheTopic()
    reader = Reader(leader)
    leader.keys = [b"a", b"b"]
    await reader.topic.read()
    await reader.topic.read()
    reader.topic.restart()
    await reader.topic.read()
    assert (leader.fetched_from, reader.keys) == ([0, 2, 0], [b"a", b"b"])


async def test_a_restart_during_a_reading_holds_for_the_next_one() -> None:
    leader = LeaderOfTheTopic()
    reader = Reader(leader)
    leader.keys = [b"a"]
    leader.may_answer.clear()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(reader.topic.read())
        await leader.is_asked.wait()
        reader.topic.restart()
        again = group.create_task(reader.topic.read())
        leader.may_answer.set()
        await again
    assert (leader.fetched_from, reader.keys) == ([0, 0], [b"a"])
