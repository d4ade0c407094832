"""What `cluster status` puts together: who is there, who leads, who is in sync, and how far followers are behind.

All that is asked are things that clients may ask of any broker of the protocol: Metadata of one broker, ListOffsets of
leaders, and of followers a Fetch (KIP-392 lets consumers ask them) that wants no records and is answered with the high
watermark known there. A follower that lags knows no more than it has; one that keeps up is told of the watermark with
its next fetch, so that it may seem to be behind for as long as `replica.fetch.wait.max.ms`.

A cluster that is asked how it is may be in pieces: whoever does not answer in time is told as such, and what only he
knows as unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from sordini.broker.cli.cluster import Cluster
from sordini.broker.cli.link import Link
from sordini.broker.cli.offsets import EARLIEST, LATEST
from sordini.broker.cli.options import Failure
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from sordini.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
Question = Callable[[Link, Offsets], Awaitable[dict[TopicPartition, int]]]
"""What one broker is asked: offsets of some partitions by other offsets, or by timestamps of ListOffsets."""
Row = dict[str, Any]

PATIENCE_SECONDS: Final = 5.0
"""For what is asked of one broker; one that is frozen accepts connections and says nothing."""
NAMES_TOPICS: Final = 12
"""The last version of Fetch that knows topics by name."""
BEYOND: Final = -1
"""Instead of a watermark: the follower's log ends before the offset that was asked for."""


async def cluster_status(cluster: Cluster) -> dict[str, Any]:
    """All there is to say of the cluster as it is now. Raises Failure when nobody answers at all."""
    found = await cluster.metadata(None)
    there = {broker.node_id: broker for broker in found.brokers}
    survey = Survey(cluster, there)
    partitions = _partitions(found)
    ends = await survey.of_leaders(partitions, LATEST)
    watermarks = await _watermarks(survey, partitions, ends)
    for row in partitions:
        end = row["high_watermark"] = ends.get(_name(row))
        row["lags"] = {
            str(broker): None if mark is None or end is None else max(end - mark, 0)
            for broker in _followers(row)
            for mark in [watermarks.get(broker, {}).get(_name(row))]
        }
    ids = sorted(there.keys() | {holder for row in partitions for holder in row["replicas"]})
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id if found.controller_id in there else None,
        "topics": len({row["topic"] for row in partitions}),
        "offline_partitions": sum(row["leader"] is None for row in partitions),
        "under_replicated_partitions": sum(is_under_replicated(row) for row in partitions),
        "brokers": [_broker(one, there.get(one), partitions, answers=one not in survey.silent) for one in ids],
        "partitions": partitions,
    }


def is_under_replicated(row: Mapping[str, Any]) -> bool:
    """Whether a partition has replicas that are not in sync."""
    return len(row["in_sync_replicas"]) < len(row["replicas"])


def is_well(told: Mapping[str, Any]) -> bool:
    """Whether there is a controller, and every partition has a leader and all its replicas in sync."""
    troubles = told["offline_partitions"] + told["under_replicated_partitions"]
    return told["controller"] is not None and troubles == 0


class Survey:
    """Questions to all brokers at once, so that who is silent delays nobody's answer."""

    def __init__(self, cluster: Cluster, living: Iterable[int]) -> None:
        self._cluster = cluster
        self._living = frozenset(living)
        self.silent: set[int] = set()
        """Brokers that the cluster has and that did not answer."""

    async def of_leaders(self, rows: Iterable[Row], timestamp: int) -> Offsets:
        """An offset of each partition, by its timestamp in ListOffsets, as its leader tells it."""
        wanted: dict[int, dict[TopicPartition, int]] = {}
        for row in rows:
            if row["leader"] is not None:
                wanted.setdefault(row["leader"], {})[_name(row)] = timestamp
        answers = await self.ask(_listed, wanted)
        return {name: offset for answer in answers.values() for name, offset in answer.items()}

    async def ask(self, question: Question, wanted: Mapping[int, Offsets]) -> dict[int, dict[TopicPartition, int]]:
        """What each living broker answers to what is wanted of it; nothing from one that is silent."""
        ids = [one for one, offsets in wanted.items() if offsets and one in self._living - self.silent]
        answers = await asyncio.gather(*(self._ask_one(question, one, wanted[one]) for one in ids))
        return dict(zip(ids, answers, strict=True))

    async def _ask_one(self, question: Question, broker_id: int, offsets: Offsets) -> dict[TopicPartition, int]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await question(await self._cluster.broker(broker_id), offsets)
        except (Failure, TimeoutError):
            self.silent.add(broker_id)
            return {}


async def _watermarks(survey: Survey, rows: list[Row], ends: Offsets) -> dict[int, dict[TopicPartition, int]]:
    """The high watermark of each partition that each follower knows.

    Asked for what follows the leader's end, a follower that keeps up has no records to send. One that lags does not
    reach as far; it is asked from the leader's oldest record on, and has one batch to send in all.
    """
    found = await survey.ask(_fetched, _wanted_of_followers(rows, ends))
    behind = {broker: {name for name, mark in marks.items() if mark == BEYOND} for broker, marks in found.items()}
    late = [row for row in rows if any(_name(row) in names for names in behind.values())]
    starts = await survey.of_leaders(late, EARLIEST)
    again = {broker: {name: starts[name] for name in names & starts.keys()} for broker, names in behind.items()}
    for broker, marks in (await survey.ask(_fetched, again)).items():
        found[broker] |= marks
    return {broker: {name: mark for name, mark in marks.items() if mark != BEYOND} for broker, marks in found.items()}


def _wanted_of_followers(rows: Iterable[Row], ends: Offsets) -> dict[int, dict[TopicPartition, int]]:
    wanted: dict[int, dict[TopicPartition, int]] = {}
    for row in rows:
        if _name(row) in ends:
            for broker in _followers(row):
                wanted.setdefault(broker, {})[_name(row)] = ends[_name(row)]
    return wanted


async def _listed(link: Link, timestamps: Offsets) -> dict[TopicPartition, int]:
    """What a leader answers to ListOffsets, where it is no error."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, index), timestamp in timestamps.items():
        wish = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[])).partitions.append(wish)
    answer: ListOffsetsResponse = await link.ask(ListOffsetsRequest(replica_id=-1, topics=list(topics.values())))
    return {
        TopicPartition(topic.name, row.partition_index): row.offset
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code == ErrorCode.NONE
    }


async def _fetched(link: Link, offsets: Offsets) -> dict[TopicPartition, int]:
    """The watermarks that come with an answer to Fetch, or BEYOND."""
    topics: dict[str, FetchTopic] = {}
    for (topic, index), offset in offsets.items():
        wish = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
        topics.setdefault(topic, FetchTopic(topic=topic, partitions=[])).partitions.append(wish)
    request = FetchRequest(max_bytes=1, topics=list(topics.values()))
    answer: FetchResponse = await link.ask(request, at_most=NAMES_TOPICS)
    return {
        TopicPartition(topic.topic, row.partition_index): row.high_watermark
        if row.error_code == ErrorCode.NONE
        else BEYOND
        for topic in answer.responses
        for row in topic.partitions
        if row.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
    }


def _partitions(found: MetadataResponse) -> list[Row]:
    return [
        {
            "topic": topic.name,
            "partition": row.partition_index,
            "leader": row.leader_id if row.leader_id >= 0 else None,
            "leader_epoch": row.leader_epoch if row.leader_epoch >= 0 else None,
            "replicas": list(row.replica_nodes),
            "in_sync_replicas": list(row.isr_nodes),
            "offline_replicas": list(row.offline_replicas),
        }
        for topic in sorted(found.topics, key=lambda topic: topic.name or "")
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    ]


def _broker(broker_id: int, known: MetadataResponseBroker | None, rows: list[Row], *, answers: bool) -> Row:
    """One broker's part of the cluster. `known` is None for one that is gone and has replicas."""
    lags = [row["lags"][str(broker_id)] for row in rows if str(broker_id) in row["lags"]]
    return {
        "broker": broker_id,
        "host": known.host if known is not None else None,
        "port": known.port if known is not None else None,
        "rack": known.rack if known is not None else None,
        "state": "gone" if known is None else "up" if answers else "silent",
        "leads": sum(row["leader"] == broker_id for row in rows),
        "replicas": sum(broker_id in row["replicas"] for row in rows),
        "in_sync": sum(broker_id in row["in_sync_replicas"] for row in rows),
        "lag": None if None in lags else max(lags, default=0),
    }


def _name(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _followers(row: Row) -> list[int]:
    return [broker for broker in row["replicas"] if broker != row["leader"]]
