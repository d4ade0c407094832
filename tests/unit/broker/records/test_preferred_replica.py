"""Reading from the closest replica (KIP-392): what leaders answer, and what followers serve.

What is expected of followers, and of a leader in a consumer's way, is what Apache Kafka 2.7.2 and 3.9.1 answered to the
same requests.
"""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.preferred_replica import RackAwareReplicaSelector
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.follower_log import append_fetched_records, restart_at, truncate_to_divergence
from sordini.replication.follower_truncation import EpochEnd, FetchStart
from sordini.replication.partition import Partition
from tests.support.builders import a_batch
from tests.support.fake_ports import StillClock
from tests.support.replica_pair import LeaderSide, topic_id_of
from tests.support.unit_broker import Timers, a_broker, a_peer, answer_of, read_answer

ME, NEAR, FAR = (BrokerId(number) for number in (1, 2, 3))
ALL = (ME, NEAR, FAR)
RACKS = {ME: "leader's", NEAR: "near", FAR: "far"}
BATCH = a_batch(3, leader_epoch=0)
FETCH = ApiKey.FETCH
OLDEST = 11


def racked(racks: dict[BrokerId, str | None]) -> MetadataCache:
    metadata = MetadataCache("a-cluster")
    listeners = {"PLAINTEXT": ("broker.example", 9092)}
    metadata.set_brokers(ME, [BrokerMetadata(one, listeners, rack) for one, rack in racks.items()])
    metadata.changed()
    return metadata


class Side(LeaderSide):
    """Broker 1 with `orders`, on a still clock."""

    def __init__(self, racks: dict[BrokerId, str | None] | None = None) -> None:
        self.clock, self.timers = StillClock(), Timers()
        self.metadata = racked(racks or dict(RACKS))
        closest = RackAwareReplicaSelector(self.metadata)
        super().__init__(ME, self.clock, call_later=self.timers.call_later, closest=closest)

    def become(self, leader: BrokerId, *, epoch: int = 0) -> Partition:
        name = TopicPartition("orders", 0)
        self.topics[topic_id_of("orders")] = "orders"
        state = PartitionState(leader, LeaderEpoch(epoch), ALL, 1)
        self.replicas.become_leader_or_follower(
            PartitionInfo(name, topic_id_of("orders"), ALL, state, epoch, is_new=True)
        )
        return self.replicas.partition(*name)

    def lead(self) -> Partition:
        """Lead with three records that every replica has."""
        partition = self.become(ME)
        self.append()
        for other in (NEAR, FAR):
            self.update_follower_fetch_state(other, 3)
        return partition

    def update_follower_fetch_state(self, other: BrokerId, offset: int) -> None:
        leader = self.replicas.partition("orders", 0).require_leader()
        leader.fetched(other, offset, 3, 0, log_start_offset=0)  # type: ignore[arg-type]

    def follow(self, *, known: int = 3) -> Partition:
        """Follow with three records of which `known` are known to be committed."""
        partition = self.become(NEAR)
        take(partition, 0, BATCH, high_watermark=known)
        return partition

    def serve(self, version: int, request: FetchRequest, listener: str = "PLAINTEXT") -> Any:
        frame = bytearray(request_header(APIS[FETCH], version, 77, "test") + codecs.encode(request, version))
        return self.dispatcher.serve(a_peer(listener), memoryview(frame))

    def fetch(self, offset: int = 0, *, version: int = 12, rack: str = "", **fields: Any) -> PartitionData:
        """The row of an answer that does not wait."""
        parts = self.serve(version, a_fetch(offset, rack, **fields))
        assert isinstance(parts, list), f"not answered at once: {parts}"
        return only(read_answer(FETCH, version, parts))

    def park(self, offset: int, **fields: Any) -> DelayedResponse:
        pending = self.serve(12, a_fetch(offset, "", max_wait_ms=500, **fields))
        assert isinstance(pending, DelayedResponse)
        assert not pending.is_answered
        return pending


def a_fetch(offset: int, rack: str, *, epoch: int = -1, min_bytes: int = 1, **fields: Any) -> FetchRequest:
    requested = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1_000_000
    )
    topics = [FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[requested])]
    return FetchRequest(topics=topics, rack_id=rack, min_bytes=min_bytes, **fields)


def only(answer: FetchResponse) -> PartitionData:
    ((row,),) = [topic.partitions for topic in answer.responses]
    return row


def take(partition: Partition, offset: int, batch: bytes, *, high_watermark: int) -> None:
    assert partition.follower is not None
    append_fetched_records(partition, partition.follower, offset, memoryview(batch), high_watermark, 0, 0)


def later(first_offset: int) -> bytes:
    return a_batch(3, leader_epoch=0, base_offset=first_offset)


# Leaders.


@pytest.mark.parametrize("version", [11, 12, 13, 18])
async def test_a_leader_names_the_replica_in_the_readers_rack_and_reads_nothing(version: int) -> None:
    side = Side()
    side.lead()
    row = side.fetch(rack="near", version=version)
    assert (row.error_code, row.preferred_read_replica, len(row.records)) == (0, NEAR, 0)
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)


async def test_a_leader_serves_readers_of_no_rack_of_its_own_rack_or_of_one_without_a_replica() -> None:
    side = Side()
    side.lead()
    for rack in ("", "leader's", "elsewhere"):
        row = side.fetch(rack=rack)
        assert (row.preferred_read_replica, len(row.records)) == (-1, len(BATCH))


async def test_a_leader_serves_old_readers_itself() -> None:
    side = Side()
    side.lead()
    assert len(side.fetch(rack="near", version=10).records) == len(BATCH)


async def test_a_reader_at_the_end_is_sent_away_at_once_instead_of_waiting() -> None:
    side = Side()
    side.lead()
    assert side.fetch(3, rack="near", max_wait_ms=500).preferred_read_replica == NEAR


async def test_a_leader_refuses_an_invalid_fetch_before_it_names_a_preferred_read_replica() -> None:
    side = Side()
    partition = side.lead()
    for offset in (-1, 4):
        row = side.fetch(offset, rack="near")
        assert (row.error_code, row.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert side.fetch(rack="near", epoch=5).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.log.advance_log_start(2)
    assert side.fetch(1, rack="near").error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "the replica may still have it"


async def test_every_answer_of_a_session_says_where_to_read() -> None:
    side = Side()
    side.lead()
    opened = side.serve(12, a_fetch(3, "", session_epoch=0))
    session_id = read_answer(FETCH, 12, opened).session_id
    for epoch in (1, 2):
        parts = side.serve(12, FetchRequest(session_id=session_id, session_epoch=epoch, rack_id="near"))
        assert only(read_answer(FETCH, 12, parts)).preferred_read_replica == NEAR
    assert not read_answer(FETCH, 12, side.serve(12, FetchRequest(session_id=session_id, session_epoch=3))).responses


async def test_a_broker_that_is_gone_or_lacks_the_readers_listener_is_never_the_preferred_read_replica() -> None:
    side = Side()
    side.lead()
    outside = {"OUTSIDE": ("broker.example", 9093)}
    side.metadata.set_brokers(ME, [BrokerMetadata(NEAR, outside, "near"), BrokerMetadata(ME, outside, None)])
    side.metadata.changed()
    assert side.fetch(rack="near").preferred_read_replica == -1
    from_outside = side.serve(12, a_fetch(0, "near"), "OUTSIDE")
    assert only(read_answer(FETCH, 12, from_outside)).preferred_read_replica == NEAR
    side.metadata.set_brokers(ME, [BrokerMetadata(NEAR, {"PLAINTEXT": ("broker.example", 1)}, "near")])
    side.metadata.changed()
    assert side.fetch(rack="near").preferred_read_replica == NEAR


async def test_no_preferred_read_replica_is_named_unless_a_replica_selector_is_configured() -> None:
    for entries, preferred in (({}, -1), ({"replica.selector.class": SELECTOR}, NEAR)):
        async with a_broker({"broker.rack": "leader's", **entries}) as broker:
            await broker.lead("orders", isr=(ME, NEAR))
            broker.parts.metadata.set_brokers(
                ME, [BrokerMetadata(one, {"PLAINTEXT": ("broker.example", 9092)}, RACKS[one]) for one in ALL]
            )
            broker.parts.metadata.changed()
            leader = broker.parts.replicas.partition("orders", 0).require_leader()
            leader.fetched(NEAR, 0, 0, 0, log_start_offset=0)  # type: ignore[arg-type]
            row = only(broker.ask(FETCH, 12, a_fetch(0, "near")))
            assert row.preferred_read_replica == preferred


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_only_the_rack_aware_selector_may_be_named() -> None:
    assert build_config({"replica.selector.class": SELECTOR})[0].replica_selector_class == SELECTOR
    with pytest.raises(ConfigError, match=r"replica\.selector\.class='com\.example\.Mine' is not valid"):
        build_config({"replica.selector.class": "com.example.Mine"})


# Followers.


@pytest.mark.parametrize("version", range(OLDEST, 19))
async def test_a_follower_serves_consumers_up_to_the_watermark_it_knows(version: int) -> None:
    side = Side()
    partition = side.follow()
    take(partition, 3, later(3), high_watermark=3)
    row = side.fetch(version=version)
    assert (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset) == (0, 3, 3, 0)
    assert bytes(row.records) == BATCH
    assert row.preferred_read_replica == -1


@pytest.mark.parametrize("version", [4, 10])
async def test_a_follower_refuses_readers_that_know_leaders_only(version: int) -> None:
    side = Side()
    side.follow()
    assert side.fetch(version=version).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_what_is_not_known_to_be_committed_is_empty_and_what_is_not_there_out_of_range(
    offset: int, code: ErrorCode
) -> None:
    side = Side()
    side.follow(known=0)
    row = side.fetch(offset)
    assert (row.error_code, len(row.records)) == (code, 0)
    assert row.high_watermark == (-1 if code else 0)


async def test_a_follower_refuses_readers_of_another_epoch() -> None:
    side = Side()
    side.follow()
    side.become(NEAR, epoch=2)
    assert side.fetch(epoch=2).error_code == ErrorCode.NONE
    assert side.fetch(epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    row = side.fetch(epoch=3, version=16)
    assert row.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_follower_names_no_preferred_read_replica() -> None:
    side = Side()
    side.follow()
    row = side.fetch(rack="far")
    assert (row.preferred_read_replica, len(row.records)) == (-1, len(BATCH))


async def test_a_broker_without_a_replica_serves_no_fetch() -> None:
    side = Side()
    side.follow()
    side.replicas.stop_replica(TopicPartition("orders", 0), delete=False)
    assert side.fetch().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_reader_that_waits_at_a_follower_is_answered_when_the_watermark_comes() -> None:
    side = Side()
    partition = side.follow()
    pending = side.park(3)
    take(partition, 3, later(3), high_watermark=3)
    assert not pending.is_answered, "the records are there, and may be lost yet"
    take(partition, 6, b"", high_watermark=6)
    assert bytes(only(answer_of(pending, FETCH, 12)).records) == later(3)
    assert (side.timers.waiting, partition.purgatory) == ([], {})


async def test_a_reader_that_waits_for_more_bytes_at_a_follower_is_not_woken_by_fewer() -> None:
    side = Side()
    partition = side.follow()
    pending = side.park(3, min_bytes=2 * len(BATCH))
    take(partition, 3, later(3), high_watermark=6)
    assert not pending.is_answered
    take(partition, 6, later(6), high_watermark=9)
    assert bytes(only(answer_of(pending, FETCH, 12)).records) == later(3) + later(6)


@pytest.mark.parametrize("finds", ["where both part", "a shorter log"])
async def test_records_that_a_follower_truncated_complete_no_delayed_fetch(finds: str) -> None:
    side = Side()
    partition = side.follow()
    pending = side.park(3)
    take(partition, 3, later(3), high_watermark=3)
    assert partition.follower is not None
    if finds == "where both part":
        truncate_to_divergence(partition, partition.follower, EpochEnd(0, 3), 0)
    else:
        restart_at(partition, partition.follower, FetchStart(Offset(3), truncate_fully=False), 0)
    take(partition, 3, a_batch(1, leader_epoch=0, base_offset=3), high_watermark=3)
    assert not pending.is_answered
    take(partition, 4, b"", high_watermark=4)
    assert answer_of(pending, FETCH, 12).responses


async def test_a_delayed_fetch_is_answered_at_once_when_the_leader_epoch_changes() -> None:
    side = Side()
    side.follow()
    pending = side.park(3, epoch=0)
    side.become(FAR, epoch=1)
    assert only(answer_of(pending, FETCH, 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, (
        "so that the client refreshes its metadata"
    )


async def test_a_follower_serves_read_committed_readers_with_the_aborted_transactions() -> None:
    side = Side()
    side.follow()
    row = side.fetch(isolation_level=1)
    assert (row.error_code, row.aborted_transactions, bytes(row.records)) == (0, [], BATCH)
