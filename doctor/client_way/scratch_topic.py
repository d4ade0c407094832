"""A topic that is created, written, read and deleted again, where `--write` allows it: rights, acks and the clock.

The topic stamps records with the broker's clock (LogAppendTime), which is the only way to read that clock. It is
deleted in any case; a topic that cannot be deleted is named in the report.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from sordini.client.cluster import Cluster, Link
from sordini.client.cluster_core import NO_LEADER
from sordini.client.errors import ClientError, Refused, check, only_row
from sordini.client.record_requests import (
    FETCH_BY_NAME,
    PRODUCE_BY_NAME,
    fetch_request,
    fetched_partitions,
    only_partition,
    produce_request,
    produced_partitions,
)
from sordini.doctor.client_way.means import Means
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.records.batch import Record, build_batch, read_header, read_records
from sordini.protocol.types import TopicPartition

STEP: Final = "write"
PREFIX: Final = "sordini-doctor-"
DEFAULT_COUNTS_VERSION: Final = 4
"""The first CreateTopics that takes the broker's default replication factor (KIP-464)."""
CLOCK_MS_MAX: Final = 2_000
"""Larger differences are reported; the round trip is taken off."""
VALUE: Final = b"written by sordini doctor"
_TIMEOUT_MS: Final = 5_000
_BYTES_MAX: Final = 1 << 20
_DENIED: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED}
)


async def try_writing(cluster: Cluster, at: str, means: Means, report: Report) -> None:
    """The whole of it; what it finds goes into the report."""
    topic = f"{PREFIX}{secrets.token_hex(6)}"
    stage = "create a topic"
    try:
        await _create(cluster, topic)
        stage = "write to a topic"
        try:
            leader, appended_ms, sent_ms, came_ms = await _produce(cluster, topic, means)
            stage = "read a topic"
            await _fetch(cluster, topic)
        finally:
            await _delete(cluster, topic, report)
    except Refused as error:
        report.found(STEP, f"cannot {stage}: {error}", _refused(error, stage, at, means))
    except ClientError as error:
        report.found(STEP, f"cannot {stage}: {error}", Finding(Fault.REQUEST_FAILED, at, {"reason": str(error)}))
    else:
        report.ok(STEP, f"a record was written with acks=all in {came_ms - sent_ms} ms, and read again")
        _compare_clocks(leader, appended_ms, sent_ms, came_ms, report)


async def _on_controller(cluster: Cluster, work: Callable[[Link], Awaitable[None]]) -> None:
    """Do it at the controller, again while there is none; KRaft clusters name any broker, which forwards."""

    async def attempt() -> None:
        found: MetadataResponse = await cluster.metadata([])
        address = cluster.cluster_map.addresses.get(found.controller_id)
        await work(await (cluster.any_broker() if address is None else cluster.known(address)))

    await cluster.retry(attempt)


async def _create(cluster: Cluster, topic: str) -> None:
    async def work(link: Link) -> None:
        settings = [CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")]
        factor = -1 if link.serves(ApiKey.CREATE_TOPICS, DEFAULT_COUNTS_VERSION) else 1
        row = CreatableTopic(name=topic, num_partitions=1, replication_factor=factor, configs=settings)
        response: CreateTopicsResponse = await link.ask(CreateTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS))
        made = only_row(response.topics, f"topic '{topic}'")
        if made.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:  # By an attempt whose response was lost.
            check(f"creating topic '{topic}'", made.error_code, made.error_message)

    await _on_controller(cluster, work)


async def _on_leader(cluster: Cluster, topic: str, work: Callable[[Link], Awaitable[None]]) -> None:
    """Do it at the partition's leader, again while there is none."""

    async def attempt() -> None:
        response = await cluster.metadata([topic])
        row = only_row(response.topics, f"topic '{topic}'")
        code = (
            ErrorCode.LEADER_NOT_AVAILABLE if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else row.error_code
        )
        check(f"topic '{topic}'", code)
        leader = cluster.cluster_map.leader(TopicPartition(topic, 0))
        if leader == NO_LEADER or leader.broker_id not in cluster.cluster_map.addresses:
            check(f"partition {topic}-0", ErrorCode.LEADER_NOT_AVAILABLE)
        await work(await cluster.known(cluster.cluster_map.addresses[leader.broker_id]))

    await cluster.retry(attempt)


async def _produce(cluster: Cluster, topic: str, means: Means) -> tuple[str, int, int, int]:
    """The leader, its time of the append, and this machine's before and after."""
    partition = TopicPartition(topic, 0)
    times = ("", 0, 0, 0)

    async def work(link: Link) -> None:
        nonlocal times
        sent_ms = means.clock.now_ms()
        batch = build_batch([Record(0, sent_ms, None, VALUE)])
        response = await link.ask(produce_request({partition: batch}, _TIMEOUT_MS), **PRODUCE_BY_NAME)
        row = only_partition(produced_partitions(response), f"writing to {partition}")
        check(f"writing to {partition}", row.error_code, row.error_message)
        times = (str(link.address), row.log_append_time_ms, sent_ms, means.clock.now_ms())

    await _on_leader(cluster, topic, work)
    return times


async def _fetch(cluster: Cluster, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def work(link: Link) -> None:
        request = fetch_request({partition: 0}, _BYTES_MAX, wait_ms=_TIMEOUT_MS // 5)
        response = await link.ask(request, **FETCH_BY_NAME)
        row = only_partition(fetched_partitions(response), f"reading {partition}")
        check(f"reading {partition}", row.error_code)
        data = bytes(row.records or b"")
        if not data or next(read_records(data, read_header(data))).value != VALUE:
            raise ClientError(f"{partition} gave back another record than was written to it")

    await _on_leader(cluster, topic, work)


async def _delete(cluster: Cluster, topic: str, report: Report) -> None:
    async def work(link: Link) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=_TIMEOUT_MS
        )
        response: DeleteTopicsResponse = await link.ask(request)
        row = only_row(response.responses, f"topic '{topic}'")
        if row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(f"deleting topic '{topic}'", row.error_code, row.error_message)

    try:
        await _on_controller(cluster, work)
    except ClientError as error:
        report.skipped(STEP, f"the topic {topic} is left behind, delete it: {error}")


def _refused(error: Refused, stage: str, at: str, means: Means) -> Finding:
    if error.code in _DENIED:
        sasl = means.security.sasl
        user = sasl().username if sasl is not None else ""
        facts = {
            "user": f"the user '{user}'" if user else "this client",
            "principal": f"User:{user or 'ANONYMOUS'}",
            "topic": "TOPIC",
            "what": stage,
            "reason": error.code.name,
        }
        return Finding(Fault.NOT_AUTHORIZED, at, facts)
    hint, remedy = _HINTS.get(error.code, ("The broker's log has more.", "# see the broker's log"))
    return Finding(Fault.WRITE_FAILED, at, {"reason": str(error), "hint": hint, "remedy": remedy})


_HINTS: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        "Fewer replicas are in sync than min.insync.replicas requires, so that every producer with acks=all fails.",
        "min.insync.replicas=1",
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "A new topic gets more replicas by default than there are brokers.",
        "default.replication.factor=1",
    ),
    ErrorCode.POLICY_VIOLATION: ("A policy of the cluster refuses such topics.", "create.topic.policy.class.name="),
}


def _compare_clocks(leader: str, appended_ms: int, sent_ms: int, came_ms: int, report: Report) -> None:
    if appended_ms < 0:
        report.skipped("clock", "the broker did not say when it appended the record")
        return
    finding = clock_difference(leader, appended_ms, sent_ms, came_ms)
    if finding is None:
        report.ok("clock", "the broker's clock and this one agree")
    else:
        report.found("clock", f"{finding.facts['seconds']} s apart", finding)


def clock_difference(at: str, appended_ms: int, sent_ms: int, came_ms: int) -> Finding | None:
    """Whether the append, by the broker's clock, was before or after the exchange by this one's."""
    off_ms = appended_ms - came_ms if appended_ms > came_ms else min(appended_ms - sent_ms, 0)
    if abs(off_ms) <= CLOCK_MS_MAX:
        return None
    facts = {"broker": at, "seconds": f"{abs(off_ms) / 1000:.1f}", "which": "ahead" if off_ms > 0 else "behind"}
    return Finding(Fault.CLOCK_DIFFERENCE, at, facts)
