"""The metric families, read from the parts of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from sordini.broker.cluster.peer_clocks import PeerClocks
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.broker.metrics.broker_families import BROKER_FAMILIES
from sordini.broker.metrics.families import MetricSources, Sample
from sordini.broker.metrics.lag_families import LAG_FAMILIES
from sordini.broker.metrics.latency import TimedService
from sordini.broker.metrics.log_families import LOG_FAMILIES
from sordini.broker.network.listener import Listener
from sordini.broker.network.server import SocketServer
from sordini.broker.network.watchdog import Watchdog
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.types import TopicPartition
from sordini.replication.leader import Term
from tests.support.builders import a_batch
from tests.support.fake_ports import UnconnectedNetwork, WarmCache
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker

MEMBER: Any = None  # Only counted.
FAMILIES = {family.name: family for family in (*BROKER_FAMILIES, *LOG_FAMILIES, *LAG_FAMILIES)}


class GroupsOfATest:
    """Groups with what they have committed; some may have moved to another coordinator since they were listed."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.listed: list[Group | ConsumerGroup] = []

    def add(self, name: str, state: GroupState, members: int, committed: dict[TopicPartition, int]) -> None:
        some = {f"member-{number}": MEMBER for number in range(members)}
        self.listed.append(Group(name, state, members=MappingProxyType(some)))
        self.committed[name] = committed

    def groups(self) -> list[Group | ConsumerGroup]:
        return self.listed

    def offsets(self, group_id: str) -> OffsetTable:
        if group_id not in self.committed:
            raise BrokerError(ErrorCode.NOT_COORDINATOR, "moved")
        table = OffsetTable()
        table.commit({name: CommittedOffset(offset, -1, "", 0) for name, offset in self.committed[group_id].items()})
        return table


class Scraped:
    """A broker's parts and the values of their metrics."""

    def __init__(self, broker: UnitBroker) -> None:
        self.broker = broker
        self.groups = GroupsOfATest()
        self.is_controller = True
        self.timed = TimedService(broker.parts.dispatcher, lambda: broker.clock.ms * 1_000_000)
        self.sockets = SocketServer(UnconnectedNetwork(), self.timed, broker.clock, WarmCache(), broker.log)
        self.watchdog = Watchdog(broker.clock, broker.log)
        self.sources = MetricSources(
            broker.parts,
            self.sockets,
            SimpleNamespace(is_active=True),
            self.watchdog,
            self.timed.latencies,
            self.groups,
            uptime_ms=lambda: 1500,
            lines_lost=lambda: 7,
            clocks=cast("PeerClocks", SimpleNamespace(differences_ms={2: 1_500, 3: -20})),
            contact=broker.contact,
            tls=None,
            broker_id=ME,
            monotonic_ms=broker.clock.monotonic_ms,
            group_partitions_max=10,
        )

    def __getitem__(self, name: str) -> dict[tuple[str, ...], Any]:
        rows: list[Sample] = [step for step in FAMILIES[name].read(self.sources) if step is not None]
        found = dict(rows)
        assert len(found) == len(rows), "the same labels twice"
        return found

    def produce(self, topic: str, count: int, index: int = 0) -> int:
        for _ in range(count):
            data = PartitionProduceData(index=index, records=a_batch())
            request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
            answer = self.broker.ask(ApiKey.PRODUCE, 9, request)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code


@pytest.fixture
async def scraped() -> AsyncIterator[Scraped]:
    async with a_broker({"min.insync.replicas": "2"}) as broker:
        yield Scraped(broker)


async def test_a_partition_says_where_it_begins_and_ends_and_how_large_it_is(scraped: Scraped) -> None:
    await scraped.broker.lead("orders", 2)
    assert scraped.produce("orders", 3, index=1) == ErrorCode.NONE
    batch = len(a_batch())
    empty, full = ("orders", "0"), ("orders", "1")
    assert scraped["sordini_log_start_offset"] == {empty: 0, full: 0}
    assert scraped["sordini_log_end_offset"] == {empty: 0, full: 9}
    assert scraped["sordini_high_watermark"] == {empty: 0, full: 9}
    assert scraped["sordini_log_size_bytes"] == {empty: 0, full: 3 * batch}
    assert scraped["sordini_log_segments"] == {empty: 1, full: 1}
    assert scraped["sordini_open_segment_files"][()] >= 1
    scraped.broker.logs.logs()[1].roll(0)
    assert scraped["sordini_log_segments"] == {empty: 1, full: 2}


async def test_partitions_are_counted_by_what_this_broker_does_with_them(scraped: Scraped) -> None:
    await scraped.broker.lead("orders", 3)
    assert scraped["sordini_partitions"] == {(): 3}
    assert scraped["sordini_partitions_led"] == {(): 3}
    assert scraped["sordini_partitions_under_min_isr"] == {(): 0}, (
        "min.insync.replicas is bounded by the number of replicas"
    )
    scraped.broker.parts.replicas.resign_all()
    assert scraped["sordini_partitions"] == {(): 3}
    assert scraped["sordini_partitions_led"] == {(): 0}


async def test_a_partition_with_too_few_in_sync_replicas_refuses_writes_and_is_counted(scraped: Scraped) -> None:
    await scraped.broker.lead("orders", isr=(ME, OTHER))
    (partition,) = scraped.broker.parts.replicas
    assert not partition.is_under_min_isr
    assert scraped["sordini_partitions_under_replicated"] == {(): 0}
    partition.become_leader(ME, Term(partition.require_leader().leader_epoch, (ME,), (ME, OTHER)), 0)
    assert scraped["sordini_partitions_under_min_isr"] == {(): 1}
    assert scraped["sordini_partitions_under_replicated"] == {(): 1}
    assert scraped.produce("orders", 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    partition.resign()
    assert scraped["sordini_partitions_under_min_isr"] == {(): 0}, "that is the next leader's to say"


async def test_an_offline_directory_is_reported_and_its_partitions_are_left_out(scraped: Scraped) -> None:
    await scraped.broker.lead("orders")
    assert scraped["sordini_log_directory_online"] == {("/logs",): 1}
    scraped.broker.logs.logs()[0].log_dir.take_offline(OSError(5, "Input/output error"))
    assert scraped["sordini_log_directory_online"] == {("/logs",): 0}
    assert scraped["sordini_log_end_offset"] == {}
    assert scraped["sordini_partitions"] == {(): 0}


async def test_requests_and_failures_are_counted_by_api_and_version(scraped: Scraped) -> None:
    for version in (9, 9, 12):
        scraped.broker.ask(ApiKey.METADATA, version, MetadataRequest(topics=[]))
    scraped.broker.ask(ApiKey.FETCH, 12, FetchRequest(session_id=77, session_epoch=3))
    assert scraped["sordini_requests_total"] == {("METADATA", "9"): 2, ("METADATA", "12"): 1, ("FETCH", "12"): 1}
    assert scraped["sordini_request_errors_total"] == {("METADATA", "9"): 0, ("METADATA", "12"): 0, ("FETCH", "12"): 1}


async def test_durations_are_reported_for_the_requested_apis(scraped: Scraped) -> None:
    frame = scraped.broker.frame(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    scraped.timed.serve(scraped.broker.peer, frame)
    ((labels, durations),) = scraped["sordini_request_duration_seconds"].items()
    assert labels == ("METADATA",)
    assert sum(durations.counts) == 1
    scraped.timed.serve(scraped.broker.peer, frame)
    assert sum(durations.counts) == 1, "what was read stays as it was while it is written out"


async def test_a_group_is_read_with_its_lag_behind_what_can_be_read(scraped: Scraped) -> None:
    await scraped.broker.lead("orders", 2)
    scraped.produce("orders", 2)
    first, second, elsewhere = (TopicPartition(*name) for name in (("orders", 0), ("orders", 1), ("gone", 0)))
    scraped.groups.add("billing", GroupState.STABLE, 2, {first: 4, second: 5, elsewhere: 9})
    scraped.groups.add("idle", GroupState.EMPTY, 0, {})
    scraped.groups.add("moved", GroupState.STABLE, 1, {first: 1})
    scraped.groups.add("other", GroupState.STABLE, 1, {first: 6})
    del scraped.groups.committed["moved"]
    assert scraped["sordini_groups"] == {("Stable",): 3, ("Empty",): 1}
    assert scraped["sordini_group_members"] == {("billing",): 2, ("idle",): 0, ("moved",): 1, ("other",): 1}
    assert scraped["sordini_group_committed_offset"] == {
        ("billing", "orders", "0"): 4,
        ("billing", "orders", "1"): 5,
        ("billing", "gone", "0"): 9,
        ("other", "orders", "0"): 6,
    }
    assert scraped["sordini_group_lag"] == {
        ("billing", "orders", "0"): 2,
        ("billing", "orders", "1"): 0,  # Committed past the end, as a truncation may leave it: no lag below none.
        ("other", "orders", "0"): 0,
    }


async def test_a_lag_in_time_is_the_age_of_the_next_unread_offset_as_far_as_it_was_seen(scraped: Scraped) -> None:
    await scraped.broker.lead("orders")
    appends, clock = scraped.broker.parts.lag.appends, scraped.broker.clock
    await appends.sample(clock.monotonic_ms())
    scraped.produce("orders", 1)
    clock.ms += 1_000
    await appends.sample(clock.monotonic_ms())
    clock.ms += 30_000
    scraped.groups.add("behind", GroupState.STABLE, 1, {TopicPartition("orders", 0): 1})
    scraped.groups.add("done", GroupState.STABLE, 1, {TopicPartition("orders", 0): 3})
    assert scraped["sordini_group_lag_seconds"] == {("behind", "orders", "0"): 30, ("done", "orders", "0"): 0}


async def test_series_of_lag_are_bounded_and_what_is_left_out_is_counted(scraped: Scraped) -> None:
    await scraped.broker.lead("orders", 12)
    scraped.groups.add("b", GroupState.EMPTY, 0, {TopicPartition("orders", number): 0 for number in range(8)})
    scraped.groups.add("a", GroupState.EMPTY, 0, {TopicPartition("orders", number): 0 for number in range(4)})
    for name in ("sordini_group_committed_offset", "sordini_group_lag", "sordini_group_lag_seconds"):
        groups = [labels[0] for labels in scraped[name]]
        assert (groups.count("a"), groups.count("b")) == (4, 6), name
    assert scraped["sordini_group_partitions_omitted"] == {(): 2}


async def test_groups_of_both_kinds_are_counted_by_their_states(scraped: Scraped) -> None:
    members = MappingProxyType({"a": ConsumerMember("a", epoch=4), "b": ConsumerMember("b", epoch=3)})
    scraped.groups.add("classic", GroupState.STABLE, 1, {})
    scraped.groups.listed += [
        ConsumerGroup("reconciling", epoch=4, assignment_epoch=4, members=members),
        ConsumerGroup("assigning", epoch=5, assignment_epoch=4, members=members),
        ConsumerGroup("stable", epoch=4, assignment_epoch=4, members=MappingProxyType({"a": members["a"]})),
        ConsumerGroup("empty"),
    ]
    assert scraped["sordini_groups"] == {
        ("Assigning",): 1,
        ("Empty",): 1,
        ("Reconciling",): 1,
        ("Stable",): 2,
    }
    assert scraped["sordini_group_members"] == {
        ("classic",): 1,
        ("reconciling",): 2,
        ("assigning",): 2,
        ("stable",): 1,
        ("empty",): 0,
    }


async def test_the_loops_worst_lag_is_there_for_every_scrape(scraped: Scraped) -> None:
    watchdog = scraped.watchdog
    watchdog.lag_ms, watchdog.lag_ms_max, watchdog.lag_ms_total, watchdog.checks, watchdog.stalls = 3, 250, 400, 9, 1
    assert scraped["sordini_loop_lag_max_seconds"] == {(): 0.25}
    assert scraped["sordini_loop_lag_max_seconds"] == {(): 0.25}
    assert scraped["sordini_loop_lag_seconds"] == {(): 0.003}
    assert scraped["sordini_loop_lag_seconds_total"] == {(): 0.4}
    assert scraped["sordini_loop_checks_total"] == {(): 9}
    assert scraped["sordini_loop_stalls_total"] == {(): 1}


async def test_what_is_about_the_whole_broker(scraped: Scraped) -> None:
    scraped.sockets.bind([Listener("PLAINTEXT", "127.0.0.1", 0)])
    assert scraped["sordini_clock_difference_seconds"] == {("2",): 1.5, ("3",): -0.02}
    assert scraped["sordini_uptime_seconds"] == {(): 1.5}
    assert scraped["sordini_log_lines_dropped_total"] == {(): 7}
    assert scraped["sordini_controller_active"] == {(): 1}
    assert scraped["sordini_store_silent_seconds"] == {(): 0}
    assert scraped["sordini_coordination_store_lost"] == {(): 0}
    scraped.broker.contact.lost_tree = "it holds no cluster"
    assert scraped["sordini_coordination_store_lost"] == {(): 1}
    assert scraped["sordini_connections"] == {("PLAINTEXT",): 0}
    assert scraped["sordini_received_bytes_total"] == scraped["sordini_sent_bytes_total"] == {(): 0}
    assert scraped["sordini_fetch_sessions"] == scraped["sordini_producer_ids"] == {(): 0}
    ((labels, one),) = scraped["sordini_build_info"].items()
    assert (one, len(labels)) == (1, 3)
    await scraped.sockets.close(0)


def test_every_family_has_labels_for_its_rows() -> None:
    labels: Sequence[str] = [label for family in FAMILIES.values() for label in family.labels]
    assert "le" not in labels, "the histogram's own"
