"""A client of a dozen lines that resends nothing, and asks leaders for their high watermarks beside.

It is this project's codecs over blocking sockets: a record of its own for each request, acks=all, one at a time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record
from tests.cluster.chaos.events import FAIL, INFO, OK, Hw, Recorder, Send
from tests.cluster.chaos.working import Orders, Working, split
from tests.cluster.security import connected
from tests.support.builders import a_batch
from tests.support.wire_client import Client

PATIENCE_SECONDS: Final = 6.0
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
POLL_SECONDS: Final = 0.2
REFUSED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS})
"""Errors that promise that nothing was written. NOT_LEADER_OR_FOLLOWER does not: a leader that is deposed while a
record waits for its replicas says so, too."""


class Links:
    """One connection to each broker, opened again when it was lost."""

    def __init__(self, addresses: list[str], security: Mapping[str, str]) -> None:
        """`security` as that of `Orders`."""
        self._addresses = addresses
        self._security = security
        self._open: dict[str, Client] = {}

    def any(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer of whichever broker answers. Raises OSError when none does."""
        for address in random.sample(self._addresses, len(self._addresses)):
            with suppress(OSError):
                return self.ask(address, key, version, request)
        raise OSError("no broker answers")

    def ask(self, address: str, key: ApiKey, version: int, request: Any) -> Any:
        """The answer. Raises OSError; the connection is gone then."""
        try:
            if address not in self._open:
                self._open[address] = connected(address, self._security, PATIENCE_SECONDS)
            return self._open[address].ask(key, version, request)
        except OSError:
            self.forget(address)
            raise

    def close(self) -> None:
        for address in list(self._open):
            self.forget(address)

    def forget(self, address: str) -> None:
        if link := self._open.pop(address, None):
            link.socket.close()

    def leaders(self, topics: list[str]) -> dict[str, str]:
        """The address of each partition's leader, from whichever broker answers; empty when none does."""
        named = [MetadataRequestTopic(name=name) for name in topics]
        try:
            found = self.any(ApiKey.METADATA, 9, MetadataRequest(topics=named))
        except OSError:
            return {}
        places = {one.node_id: f"{one.host}:{one.port}" for one in found.brokers}
        return {
            f"{topic.name}-{one.partition_index}": places[one.leader_id]
            for topic in found.topics
            for one in topic.partitions
            if one.leader_id in places
        }


def produce(working: Working) -> None:
    """Send until it is enough."""
    orders = working.orders
    links, choice = Links(orders.bootstrap, orders.security), random.Random(orders.name)
    leaders: dict[str, str] = {}
    for number in count(1):
        if not working:
            break
        tp = choice.choice(orders.partitions)
        if tp not in leaders:
            leaders = links.leaders(orders.topics)
        if tp not in leaders:
            time.sleep(POLL_SECONDS)
            continue
        value, t0 = f"{orders.name}-{number}", time.monotonic()
        offset, result = _sent(links, leaders[tp], tp, value)
        working.recorder.note(Send(orders.name, t0, time.monotonic(), tp, value, offset, result, number, False))
        if result != OK:
            leaders = {}
        time.sleep(1 / orders.per_second)


def _sent(links: Links, address: str, tp: str, value: str) -> tuple[int, str]:
    topic, partition = split(tp)
    batch = a_batch([Record(0, time.time_ns() // 1_000_000, None, value.encode())])
    rows = [PartitionProduceData(index=partition, records=memoryview(batch))]
    data = [TopicProduceData(name=topic, partition_data=rows)]
    try:
        answer = links.ask(address, ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=4_000, topic_data=data))
    except OSError:
        return -1, INFO
    row = answer.responses[0].partition_responses[0]
    if row.error_code == 0:
        return row.base_offset, OK
    return -1, FAIL if row.error_code in REFUSED else INFO


def look(orders: Orders, node: int, address: str, enough: threading.Event) -> None:
    """Ask one broker again and again how far it lets consumers read, and then where its logs end."""
    links, recorder = Links([address], orders.security), Recorder(Path(f"{orders.history}.{node}"))
    looked_at = [*orders.partitions, *orders.others]
    while not enough.wait(POLL_SECONDS):
        try:
            stable = dict(ends_of(links, address, looked_at, READ_COMMITTED))
            marks = dict(ends_of(links, address, looked_at))
            ends = dict(_ends(links, address, {tp: epoch for tp, (epoch, _) in marks.items()}))
        except OSError:
            continue
        now = time.monotonic()
        for tp, (epoch, mark) in marks.items():
            if ends.get(tp, (-1, -1))[0] == stable.get(tp, (-1, -1))[0] == epoch:
                recorder.note(Hw(node, tp, epoch, mark, ends[tp][1], now, stable[tp][1]))
    recorder.close()


def ends_of(
    links: Links, address: str, tps: Iterable[str], isolation: int = READ_UNCOMMITTED
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Leader epoch and high watermark, or last stable offset, of each partition that this broker leads."""
    requests: dict[str, list[ListOffsetsPartition]] = {}
    for tp in tps:
        topic, partition = split(tp)
        requests.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=-1))
    rows = [ListOffsetsTopic(name=topic, partitions=ones) for topic, ones in requests.items()]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=rows)
    answer = links.ask(address, ApiKey.LIST_OFFSETS, 5, request)
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == 0 and one.offset >= 0:
                yield f"{topic.name}-{one.partition_index}", (one.leader_epoch, one.offset)


def _ends(links: Links, address: str, epochs: dict[str, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Where the log ends, if the epoch is still the newest; else where the epoch ended."""
    requests: dict[str, list[OffsetForLeaderPartition]] = {}
    for tp, epoch in epochs.items():
        topic, partition = split(tp)
        row = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
        requests.setdefault(topic, []).append(row)
    rows = [OffsetForLeaderTopic(topic=topic, partitions=ones) for topic, ones in requests.items()]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=rows)
    answer = links.ask(address, ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, request)
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == 0:
                yield f"{topic.topic}-{one.partition}", (one.leader_epoch, one.end_offset)


def main() -> None:
    working, enough = Working(), threading.Event()
    orders = working.orders
    looking = [
        threading.Thread(target=look, args=(orders, node, address, enough))
        for node, address in enumerate(orders.bootstrap, 1)
    ]
    for one in looking:
        one.start()
    try:
        produce(working)
    finally:
        enough.set()
        for one in looking:
            one.join()
        working.recorder.close()


if __name__ == "__main__":
    main()
