"""Elections and reassignments of partitions: requests to the controller in this process (see `admin_validation`).

An invalid request is answered at once. A valid one is answered when it has taken effect: an election when the metadata
has the leader, a reassignment when its beginning is in the store. On timeout the answer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.machine import admin_validation
from sordini.replication.controller.machine.admin_validation import OngoingReassignment, Rejection
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import ElectionsRequested, Event, ReassignmentsRequested

Outcomes = dict[TopicPartition, Rejection | None]
"""The outcome of each partition's request; None: it took effect."""

TIMED_OUT = Rejection(ErrorCode.REQUEST_TIMED_OUT, "The request has not completed yet.")


class PartitionAdmin:
    """Submits requests to the controller. `controller` is set once that stands for election."""

    def __init__(self, metadata: MetadataCache, slices: SliceScheduler) -> None:
        self._slices = slices
        self._metadata = metadata
        self.controller: Controller | None = None

    async def elect(
        self, election: ElectionType, wanted: Sequence[TopicPartition] | None, *, timeout_ms: int
    ) -> Outcomes:
        """Elect leaders of these partitions, or of all: then only those that needed an election are in the outcomes.

        Raises BrokerError NOT_CONTROLLER.
        """
        deadline = _deadline(timeout_ms)
        cluster = await self._submit(ElectionsRequested(election, ()), deadline)
        partitions = _all_of(cluster) if wanted is None else list(dict.fromkeys(wanted))
        results = {
            partition: admin_validation.validate_election(cluster, election, partition)
            async for partition in self._slices.paced(partitions)
        }
        winners = {partition: winner for partition, winner in results.items() if not isinstance(winner, Rejection)}
        outcomes: Outcomes = {
            partition: v if isinstance(v, Rejection) else TIMED_OUT for partition, v in results.items()
        }
        if winners:
            await self._submit(ElectionsRequested(election, tuple(winners)), deadline)
            await self._metadata.until(
                lambda: all(self._leads(*partition) for partition in winners.items()), timeout_ms
            )
            outcomes |= {partition: None for partition, winner in winners.items() if self._leads(partition, winner)}
        if wanted is None:
            return {
                partition: v
                for partition, v in outcomes.items()
                if v is None or v.code != ErrorCode.ELECTION_NOT_NEEDED
            }
        return outcomes

    async def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
        *,
        timeout_ms: int,
        keep_factor: bool,
    ) -> Outcomes:
        """Begin reassignments; without a target, cancel the ongoing partition.

        Raises BrokerError NOT_CONTROLLER.
        """
        deadline = _deadline(timeout_ms)
        cluster = await self._submit(ReassignmentsRequested({}), deadline)
        validated = {
            partition: admin_validation.validate_reassignment(cluster, partition, target, keep_factor=keep_factor)
            async for partition, target in self._slices.paced(targets.items())
        }
        outcomes: Outcomes = {
            partition: outcome if isinstance(outcome, Rejection) else None for partition, outcome in validated.items()
        }
        valid = {
            partition: outcome
            for partition, outcome in validated.items()
            if not isinstance(outcome, Rejection)
            and not admin_validation.is_reassigning_to(cluster, partition, outcome)
        }
        if valid:
            after = await self._submit(
                ReassignmentsRequested({partition: targets[partition] for partition in valid}), deadline
            )
            outcomes |= {
                partition: TIMED_OUT
                for partition, outcome in valid.items()
                if not admin_validation.is_reassigning_to(after, partition, outcome)
            }
        return outcomes

    def unclean_settings_changed(self, topic: str | None) -> None:
        """Settings of a topic, or of all, have changed: the controller may allow an unclean election now."""
        if self.controller is not None:
            self.controller.unclean_settings_changed(topic)

    def ongoing_reassignments(self) -> list[OngoingReassignment]:
        """Every partition that is being reassigned. Raises BrokerError NOT_CONTROLLER."""
        return list(admin_validation.ongoing_reassignments(self._cluster()))

    def _cluster(self) -> ClusterState:
        """The cluster state of the active controller."""
        cluster = None if self.controller is None else self.controller.cluster
        if cluster is None:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        return cluster

    async def _submit(self, event: Event, deadline: float) -> ClusterState:
        """The cluster state after the event, or at the deadline (time of the loop).

        An event without partitions waits for the controller's writes: a client that has read a new state in the store
        gets no response from an older partition.

        Raises BrokerError NOT_CONTROLLER.
        """
        self._cluster()
        try:
            async with asyncio.timeout_at(deadline):
                assert self.controller is not None, "an active controller exists"
                await self.controller.submit(event)
        except TimeoutError:
            pass
        return self._cluster()

    def _leads(self, partition: TopicPartition, winner: BrokerId) -> bool:
        topic = self._metadata.topics.get(partition.topic)
        return (
            topic is not None
            and partition.partition in topic.partitions
            and topic.partitions[partition.partition].leader == winner
        )


def _deadline(timeout_ms: int) -> float:
    """The end of a request's timeout, as time of the loop."""
    return asyncio.get_running_loop().time() + max(timeout_ms, 0) / 1000


def _all_of(cluster: ClusterState) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition)
        for name, topic in sorted(cluster.topics.items())
        for partition in sorted(topic.assignment.replicas)
    ]
