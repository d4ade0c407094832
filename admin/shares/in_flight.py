"""The records of a share group that are in flight: in which state, with whom, how often delivered, locked since when.

Brokers of Apache Kafka have no request for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.client.errors import NotServed, check
from sordini.protocol.messages.describe_share_in_flight import (
    DescribeShareInFlightRequest,
    DescribeShareInFlightResponse,
    ShareInFlightPartition,
    ShareInFlightRun,
    ShareInFlightTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

STATES: Final = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}
ACQUIRED: Final = "acquired"
AVAILABLE: Final = "available"
Ask = Callable[[DescribeShareInFlightRequest], Awaitable[Any]]


class InFlightRun(NamedTuple):
    """Records one after another in one state; the last offset is inclusive, and None is what is not known."""

    first_offset: int
    last_offset: int
    state: str
    deliveries: int
    member_id: str | None
    acquired_ago_ms: int | None
    lock_left_ms: int | None

    @property
    def offsets(self) -> int:
        """How many offsets it has."""
        return self.last_offset - self.first_offset + 1


class InFlightPartition(NamedTuple):
    """One partition; without offsets its leader has not delivered anything of it to the group."""

    partition: TopicPartition
    start_offset: int | None
    end_offset: int | None
    lock_duration_ms: int | None
    deliveries_max: int | None
    runs: list[InFlightRun]
    has_more: bool

    def offsets_in(self, state: str) -> int:
        """How many offsets of the runs are in a state."""
        return sum(run.offsets for run in self.runs if run.state == state)

    @property
    def deliveries(self) -> Counter[int]:
        """How many offsets of unfinished records were delivered how often."""
        found: Counter[int] = Counter()
        for run in self.runs:
            if run.state in (ACQUIRED, AVAILABLE):
                found[run.deliveries] += run.offsets
        return found


async def in_flight(
    cluster: ClusterClient, group: str, partitions: Iterable[TopicPartition], runs_max: int
) -> list[InFlightPartition]:
    """What is in flight of these partitions, in order. Raises Failure where a leader does not serve the request."""
    wanted = sorted(partitions)

    async def attempt() -> list[InFlightPartition]:
        found = []
        for broker_id, led in (await cluster.leaders(wanted)).items():
            found += await _of_leader(cluster, broker_id, in_flight_request(group, led, runs_max))
        return sorted(found)

    return await cluster.retry(attempt) if wanted else []


def run_rows(found: Iterable[InFlightPartition]) -> list[dict[str, Any]]:
    """The runs as JSON has them."""
    return [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            **run._asdict(),
            "delivery_count_limit": one.deliveries_max,
        }
        for one in found
        for run in one.runs
    ]


async def _of_leader(
    cluster: ClusterClient, broker_id: int, request: DescribeShareInFlightRequest
) -> list[InFlightPartition]:
    link = await cluster.broker(broker_id)
    try:
        return await all_pages(link.ask, request)
    except NotServed:
        raise Failure(
            f"broker {broker_id} at {link.address} does not tell what is in flight: it is an older Sordini, or another "
            "broker"
        ) from None


async def all_pages(ask: Ask, request: DescribeShareInFlightRequest) -> list[InFlightPartition]:
    """Partitions of one leader with as many runs as are wanted; a response has no room for many. Raises Refused."""
    return [await _with_further_runs(ask, request, one) for one in await _asked(ask, request)]


async def _with_further_runs(
    ask: Ask, request: DescribeShareInFlightRequest, found: InFlightPartition
) -> InFlightPartition:
    runs = list(found.runs)
    while found.has_more and len(runs) < request.runs_max:
        behind = runs[-1].last_offset + 1 if runs else 0
        page = in_flight_request(request.group_id, [found.partition], request.runs_max - len(runs), behind)
        (found,) = await _asked(ask, page)
        if not found.runs:
            break
        runs += found.runs
    return found._replace(runs=runs)


async def _asked(ask: Ask, request: DescribeShareInFlightRequest) -> list[InFlightPartition]:
    answer: DescribeShareInFlightResponse = await ask(request)
    check(f"group '{request.group_id}'", answer.error_code, answer.error_message)
    for topic in answer.topics:
        for row in topic.partitions:
            check(f"partition {TopicPartition(topic.name, row.partition_index)}", row.error_code, row.error_message)
    return partitions_in(answer)


def partitions_in(answer: DescribeShareInFlightResponse) -> list[InFlightPartition]:
    """The partitions of a response without errors."""
    return [
        _partition(TopicPartition(topic.name, row.partition_index), row)
        for topic in answer.topics
        for row in topic.partitions
    ]


def in_flight_request(
    group: str, partitions: Sequence[TopicPartition], runs_max: int, from_offset: int = 0
) -> DescribeShareInFlightRequest:
    """For partitions that one broker leads."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    rows = [ShareInFlightTopic(name=name, partitions=numbers) for name, numbers in topics.items()]
    return DescribeShareInFlightRequest(group_id=group, runs_max=runs_max, from_offset=from_offset, topics=rows)


def _partition(name: TopicPartition, row: ShareInFlightPartition) -> InFlightPartition:
    return InFlightPartition(
        name,
        _known(row.start_offset),
        _known(row.end_offset),
        _known(row.lock_duration_ms),
        _known(row.delivery_count_limit),
        [_run(run) for run in row.runs],
        row.has_more,
    )


def _run(run: ShareInFlightRun) -> InFlightRun:
    return InFlightRun(
        run.first_offset,
        run.last_offset,
        STATES.get(run.state, f"state {run.state}"),
        run.delivery_count,
        run.member_id,
        _known(run.acquired_ago_ms),
        _known(run.lock_left_ms),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
