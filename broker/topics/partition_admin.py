"""Elections and moves of single partitions: wishes that go to the controller in this process (see `wishes`).

What cannot be granted is answered at once. What is granted is answered when it has come about: a leader when clients
are told of it, a move when the store has its beginning, or with REQUEST_TIMED_OUT when that takes too long.
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
"""What became of each partition's wish; None: it came about."""

TOO_LATE = Rejection(ErrorCode.REQUEST_TIMED_OUT, "It has not come about yet.")


class PartitionAdmin:
    """The controller's counter. `controller` is there from the moment it stands for election."""

    def __init__(self, metadata: MetadataCache, slices: SliceScheduler) -> None:
        self._slices = slices
        self._metadata = metadata
        self.controller: Controller | None = None

    async def elect(
        self, election: ElectionType, wanted: Sequence[TopicPartition] | None, *, timeout_ms: int
    ) -> Outcomes:
        """Elect leaders of these partitions, or of all: then only those that needed it are told of.

        Raises BrokerError NOT_CONTROLLER.
        """
        until = _deadline(timeout_ms)
        cluster = await self._submit(ElectionsRequested(election, ()), until)
        partitions = _all_of(cluster) if wanted is None else list(dict.fromkeys(wanted))
        verdicts = {
            one: admin_validation.validate_election(cluster, election, one)
            async for one in self._slices.paced(partitions)
        }
        winners = {one: winner for one, winner in verdicts.items() if not isinstance(winner, Rejection)}
        outcomes: Outcomes = {one: v if isinstance(v, Rejection) else TOO_LATE for one, v in verdicts.items()}
        if winners:
            await self._submit(ElectionsRequested(election, tuple(winners)), until)
            await self._metadata.until(lambda: all(self._leads(*one) for one in winners.items()), timeout_ms)
            outcomes |= {one: None for one, winner in winners.items() if self._leads(one, winner)}
        if wanted is None:
            return {one: v for one, v in outcomes.items() if v is None or v.code != ErrorCode.ELECTION_NOT_NEEDED}
        return outcomes

    async def move(
        self,
        targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
        *,
        timeout_ms: int,
        keep_factor: bool,
    ) -> Outcomes:
        """Begin to give partitions other replicas; without a target, undo the move under way.

        Raises BrokerError NOT_CONTROLLER.
        """
        until = _deadline(timeout_ms)
        cluster = await self._submit(ReassignmentsRequested({}), until)
        ends = {
            one: admin_validation.validate_reassignment(cluster, one, target, keep_factor=keep_factor)
            async for one, target in self._slices.paced(targets.items())
        }
        outcomes: Outcomes = {one: end if isinstance(end, Rejection) else None for one, end in ends.items()}
        granted = {
            one: end
            for one, end in ends.items()
            if not isinstance(end, Rejection) and not admin_validation.is_reassigning_to(cluster, one, end)
        }
        if granted:
            after = await self._submit(ReassignmentsRequested({one: targets[one] for one in granted}), until)
            outcomes |= {
                one: TOO_LATE for one, end in granted.items() if not admin_validation.is_reassigning_to(after, one, end)
            }
        return outcomes

    def unclean_settings_changed(self, topic: str | None) -> None:
        """Settings of a topic, or of all, have changed: the controller may have somebody to elect."""
        if self.controller is not None:
            self.controller.unclean_settings_changed(topic)

    def moves(self) -> list[OngoingReassignment]:
        """Every partition that is on the move. Raises BrokerError NOT_CONTROLLER."""
        return list(admin_validation.ongoing_reassignments(self._cluster()))

    def _cluster(self) -> ClusterState:
        """What the controller knows."""
        cluster = None if self.controller is None else self.controller.cluster
        if cluster is None:
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        return cluster

    async def _submit(self, event: Event, until: float) -> ClusterState:
        """The cluster after the machine took the event, or as it is at `until` (time of the loop).

        An event without partitions waits for what the controller is writing: a client that has read a new state in
        the store is not answered from the state before.

        Raises BrokerError NOT_CONTROLLER.
        """
        self._cluster()
        try:
            async with asyncio.timeout_at(until):
                assert self.controller is not None, "there is no cluster without a controller"
                await self.controller.submit(event)
        except TimeoutError:
            pass
        return self._cluster()

    def _leads(self, one: TopicPartition, winner: BrokerId) -> bool:
        topic = self._metadata.topics.get(one.topic)
        return (
            topic is not None and one.partition in topic.partitions and topic.partitions[one.partition].leader == winner
        )


def _deadline(timeout_ms: int) -> float:
    """The end of a request's time, as the loop counts it."""
    return asyncio.get_running_loop().time() + max(timeout_ms, 0) / 1000


def _all_of(cluster: ClusterState) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition)
        for name, topic in sorted(cluster.topics.items())
        for partition in sorted(topic.assignment.replicas)
    ]
