"""The data of `cluster status`: brokers, leaders, in-sync replicas, and the lag of followers.

Every broker gets a Metadata request for its own view, DescribeConfigs for its contact with the coordination store, and
DescribeBrokerActivity for its uptime, CPU time and connections (Sordini brokers report both). Leaders get ListOffsets;
followers get a Fetch (as KIP-392 allows consumers) that returns no records and the high watermark known there. A
follower that lags knows no higher one than its log; one that keeps up learns of a new high watermark with its next
fetch, so it may seem to lag for `replica.fetch.wait.max.ms`.
`cluster_problems.py` decides which of this is a problem.

Parts of the cluster may be down: a broker that does not answer in time is reported as silent, and what only that broker
knows is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sordini.admin.broker_activity import BrokerActivity, read_activity
from sordini.admin.cluster_client import ClusterClient, error_text
from sordini.admin.config_requests import BROKER
from sordini.admin.parallel_requests import ParallelRequests
from sordini.broker.cluster.health_keys import MEANINGS
from sordini.cli.commands.cluster.cluster_problems import (
    BrokerView,
    NamedController,
    find_problems,
    is_under_replicated,
    store_states,
)
from sordini.client.cluster import Link
from sordini.client.errors import NotServed, only_row
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from sordini.protocol.messages.fetch import FetchResponse
from sordini.protocol.messages.list_offsets import (
    ListOffsetsResponse,
)
from sordini.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from sordini.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from sordini.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]
Wanted = dict[TopicPartition, tuple[int, int]]
"""For each partition the timestamp of a ListOffsets request to its leader, and the expected leader epoch."""
PartitionRow = dict[str, Any]

BEYOND: Final = -1
"""In place of a high watermark: the follower's log ends before the requested offset."""
ANY_EPOCH: Final = -1
"""For a leader whose epoch is unknown, or need not be compared."""


async def cluster_status(cluster: ClusterClient, timeout_s: float) -> dict[str, Any]:
    """The state of the cluster now. Raises Failure if no broker answers."""
    found = await cluster.metadata(None)
    registered = {broker.node_id: broker for broker in found.brokers}
    requests = ParallelRequests(cluster, registered, timeout_s)
    answers = await requests.send(_view, {broker: broker for broker in registered})
    views = {broker: view for broker, (view, _) in answers.items()}
    partitions = _partitions(found)
    ends, refusals = await _leader_offsets(requests, partitions, LATEST)
    watermarks = await _watermarks(requests, partitions, ends)
    for row in partitions:
        end = row["high_watermark"] = ends.get(_name(row))
        row["leader_refuses"] = refusals.get(_name(row))
        row["lags"] = {
            str(broker): None if mark is None or end is None else max(end - mark, 0)
            for broker in _followers(row)
            for mark in [watermarks.get(broker, {}).get(_name(row))]
        }
    ids = sorted(registered.keys() | {holder for row in partitions for holder in row["replicas"]})
    controller = found.controller_id if found.controller_id in registered else None
    refused = {} if controller is None else await requests.send(_controller_refusal, {controller: None})
    named = NamedController(controller, refused.get(controller) if controller is not None else None)
    states = store_states(views)
    return {
        "cluster_id": found.cluster_id,
        "controller": controller,
        "topics": len({row["topic"] for row in partitions}),
        "offline_partitions": sum(row["leader"] is None for row in partitions),
        "under_replicated_partitions": sum(is_under_replicated(row) for row in partitions),
        "brokers": [
            _broker(one, registered.get(one), partitions, requests.silent, states.get(one))
            | _activity(answers[one][1] if one in answers else None)
            for one in ids
        ],
        "partitions": partitions,
        "problems": find_problems(named, frozenset(registered), views, requests.silent, partitions),
    }


async def _view(link: Link, broker_id: int) -> tuple[BrokerView, BrokerActivity | None]:
    """One broker's view of the cluster and, if it is a Sordini, of itself."""
    names = [*MEANINGS]
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=str(broker_id), configuration_keys=names)
    config_response: DescribeConfigsResponse = await link.ask(DescribeConfigsRequest(resources=[resource]))
    metadata: MetadataResponse = await link.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    result = only_row(config_response.results, f"broker {broker_id}")
    view = BrokerView(
        cluster_id=metadata.cluster_id,
        controller=metadata.controller_id,
        brokers=frozenset(broker.node_id for broker in metadata.brokers),
        leaders={
            TopicPartition(topic.name or "", row.partition_index): (row.leader_id, row.leader_epoch)
            for topic in metadata.topics
            for row in topic.partitions
        },
        states={row.name: row.value for row in result.configs if row.name in MEANINGS},
        refusal=error_text("its settings", result.error_code, result.error_message),
    )
    return view, await read_activity(link, events_max=0)


async def _controller_refusal(link: Link, _nothing: None) -> str | None:
    """Why a broker does not act as the controller, found by a request that only the controller answers."""
    request = ListPartitionReassignmentsRequest(topics=[])
    try:
        answer: ListPartitionReassignmentsResponse = await link.ask(request)
    except NotServed:  # A broker older than KIP-455: unknown, and no problem.
        return None
    return error_text("it", answer.error_code)


async def _leader_offsets(
    requests: ParallelRequests, rows: Iterable[PartitionRow], timestamp: int
) -> tuple[Offsets, dict[TopicPartition, str]]:
    """The offset of each partition for a ListOffsets timestamp, and the errors of leaders that refused."""
    wanted: dict[int, Wanted] = {}
    for row in rows:
        if row["leader"] is not None:
            epoch = ANY_EPOCH if row["leader_epoch"] is None else row["leader_epoch"]
            wanted.setdefault(row["leader"], {})[_name(row)] = timestamp, epoch
    offsets: dict[TopicPartition, int] = {}
    refusals: dict[TopicPartition, str] = {}
    for answer in (await requests.send(_listed, wanted)).values():
        for name, (code, offset) in answer.items():
            if code == ErrorCode.NONE:
                offsets[name] = offset
            else:
                refusals[name] = _code_name(code)
    return offsets, refusals


async def _watermarks(
    requests: ParallelRequests, rows: list[PartitionRow], ends: Offsets
) -> dict[int, dict[TopicPartition, int]]:
    """The high watermark of each partition, as each follower knows it.

    A fetch at the leader's end offset returns no records from a follower that keeps up. The log of a follower that lags
    ends before it; a second fetch at the leader's first offset returns one batch at most.
    """
    found = await requests.send(_fetched, _fetch_offsets(rows, ends))
    behind = {broker: {name for name, mark in marks.items() if mark == BEYOND} for broker, marks in found.items()}
    late = [row for row in rows if any(_name(row) in names for names in behind.values())]
    starts, _ = await _leader_offsets(requests, late, EARLIEST)
    again = {broker: {name: starts[name] for name in names & starts.keys()} for broker, names in behind.items()}
    wanted = {broker: offsets for broker, offsets in again.items() if offsets}
    for broker, marks in (await requests.send(_fetched, wanted)).items():
        found[broker] |= marks
    return {broker: {name: mark for name, mark in marks.items() if mark != BEYOND} for broker, marks in found.items()}


def _fetch_offsets(rows: Iterable[PartitionRow], ends: Offsets) -> dict[int, dict[TopicPartition, int]]:
    wanted: dict[int, dict[TopicPartition, int]] = {}
    for row in rows:
        if _name(row) in ends:
            for broker in _followers(row):
                wanted.setdefault(broker, {})[_name(row)] = ends[_name(row)]
    return wanted


async def _listed(link: Link, wanted: Wanted) -> dict[TopicPartition, tuple[int, int]]:
    """The error code and offset of each partition in a leader's ListOffsets response."""
    times = {partition: timestamp for partition, (timestamp, _) in wanted.items()}
    epochs = {partition: epoch for partition, (_, epoch) in wanted.items()}
    answer: ListOffsetsResponse = await link.ask(offsets_request(times, epochs=epochs))
    return {partition: (row.error_code, row.offset) for partition, row in listed_partitions(answer)}


async def _fetched(link: Link, offsets: Offsets) -> dict[TopicPartition, int]:
    """The high watermarks in a Fetch response, or BEYOND."""
    request = fetch_request(offsets, 1, bytes_max=1)
    answer: FetchResponse = await link.ask(request, at_most=FETCH_BY_NAME["at_most"])
    return {
        partition: row.high_watermark if row.error_code == ErrorCode.NONE else BEYOND
        for partition, row in fetched_partitions(answer)
        if row.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
    }


def _partitions(found: MetadataResponse) -> list[PartitionRow]:
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


def _broker(
    broker_id: int,
    known: MetadataResponseBroker | None,
    rows: list[PartitionRow],
    silent: Mapping[int, str],
    store: str | None,
) -> PartitionRow:
    """One broker's row. `known` is None for a broker that is gone and still has replicas."""
    lags = [row["lags"][str(broker_id)] for row in rows if str(broker_id) in row["lags"]]
    return {
        "broker": broker_id,
        "host": known.host if known is not None else None,
        "port": known.port if known is not None else None,
        "rack": known.rack if known is not None else None,
        "state": "gone" if known is None else "silent" if broker_id in silent else "up",
        "store": store,
        "leads": sum(row["leader"] == broker_id for row in rows),
        "replicas": sum(broker_id in row["replicas"] for row in rows),
        "in_sync": sum(broker_id in row["in_sync_replicas"] for row in rows),
        "lag": None if None in lags else max(lags, default=0),
    }


def _activity(found: BrokerActivity | None) -> PartitionRow:
    """What a Sordini says of itself; null for others."""
    if found is None:
        return {"version": None, "uptime_ms": None, "cpu_share": None, "connections": None}
    cpu_share = None if found.cpu_share is None else round(found.cpu_share, 4)
    return {
        "version": found.version,
        "uptime_ms": found.uptime_ms,
        "cpu_share": cpu_share,
        "connections": found.connections,
    }


def _code_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"


def _name(row: PartitionRow) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _followers(row: PartitionRow) -> list[int]:
    return [broker for broker in row["replicas"] if broker != row["leader"]]
