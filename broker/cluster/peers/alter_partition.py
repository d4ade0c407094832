"""ISR changes through the controller: AlterPartition (KIP-497, KIP-841, KIP-903).

One request is in flight; changes that are proposed meanwhile go together in the next. A change is requested until there
is a verdict on it, from the controller of that time. Which error is which verdict:

    granted       0: the set in force comes back with it. A proposed replica that is not in it may not join now: below
                  v2 our own controller has no other answer that leaders of Apache Kafka survive
    INELIGIBLE    107 (INELIGIBLE_REPLICA) and, below v2, 55 (OPERATION_NOT_ATTEMPTED)
    STALE         74 (FENCED_LEADER_EPOCH), 95 (INVALID_UPDATE_VERSION), 3 and 100 (the topic is gone), and
                  42 (INVALID_REQUEST): asking for the same again would not make it valid
    retried       everything else: another controller, another broker epoch, an overloaded store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.broker.cluster.peers.controller_client import RETRY_PAUSE_MS, ControllerClient
from sordini.broker.cluster.peers.pending_isr_changes import IsrChange, PendingIsrChanges
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, error_name
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.inter_broker_versions import InterBrokerVersions
from sordini.replication.leader import IsrProposal
from sordini.replication.ports import IsrGrant, IsrRefusal, Logger, Spawn, Unreachable

_LAST_BY_NAME: Final = 1
"""The newest version that names topics by name."""
_FIRST_WITH_EPOCHS: Final = 3
CHANGES_MAX: Final = 2**31 - 1
"""Of one request: all that are pending go together."""
_VERDICTS: Final[Mapping[int, IsrRefusal]] = {
    ErrorCode.FENCED_LEADER_EPOCH: IsrRefusal.STALE,
    ErrorCode.INVALID_UPDATE_VERSION: IsrRefusal.STALE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: IsrRefusal.STALE,
    ErrorCode.UNKNOWN_TOPIC_ID: IsrRefusal.STALE,
    ErrorCode.INVALID_REQUEST: IsrRefusal.STALE,
    ErrorCode.INELIGIBLE_REPLICA: IsrRefusal.INELIGIBLE,
    ErrorCode.OPERATION_NOT_ATTEMPTED: IsrRefusal.INELIGIBLE,
}


class AlterPartitions(PendingIsrChanges):
    """ISR changes through the controller."""

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: Callable[[], int],
        controller: ControllerClient,
        versions: InterBrokerVersions,
        spawn: Spawn,
        log: Logger,
    ) -> None:
        """`broker_epoch` returns the current epoch of this broker; no other object uses `controller`."""
        super().__init__(spawn, RETRY_PAUSE_MS, CHANGES_MAX)
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._versions = versions
        self._log = log
        self._is_failing = False

    def close(self) -> None:
        """Drop all proposals and close the connection."""
        super().close()
        self._controller.close()

    async def _request(self, changes: list[IsrChange]) -> bool:
        """One request; whether there is a verdict on all of its changes."""
        epoch = self._broker_epoch()
        newest = self._versions.alter_partition_max
        if any(change.topic_id == NO_TOPIC_ID for change in changes):
            newest = min(newest, _LAST_BY_NAME)

        def make(version: int) -> AlterPartitionRequest:
            return _request(self._broker_id, epoch, changes, version)

        response: AlterPartitionResponse
        try:
            if self._versions.uses_topic_ids:
                response = await self._controller.ask_highest(ApiKey.ALTER_PARTITION, newest, make)
            else:
                response = await self._controller.ask(ApiKey.ALTER_PARTITION, 0, make)
        except Unreachable as failure:
            return self._failed(str(failure))
        if response.error_code:
            return self._failed(f"error {error_name(response.error_code)}")
        self._is_failing = False
        return self._judge(changes, response)

    def _failed(self, reason: str) -> bool:
        """Logged once, however often it is retried."""
        if not self._is_failing:
            self._is_failing = True
            self._log.warning("ISR changes not granted, retrying", reason=reason, partitions=self.pending_count)
        return False

    def _judge(self, changes: list[IsrChange], response: AlterPartitionResponse) -> bool:
        altered = _by_partition(changes, response)
        is_whole = True
        refused: dict[IsrRefusal, list[IsrChange]] = {}
        for change in changes:
            verdict = self._verdict(altered.get(change.topic_partition))
            if verdict is None:
                is_whole = False
            elif self._take(change):
                if (refusal := _refusal(change.proposal, verdict)) is not None:
                    refused.setdefault(refusal, []).append(change)
                change.answered(verdict)
        for why, those in refused.items():
            first = those[0]
            name, isr = str(first.topic_partition), first.proposal.isr
            self._log.info("ISR changes refused", why=why.value, partitions=len(those), first=name, isr=isr)
        return is_whole

    def _verdict(self, altered: AlteredPartitionData | None) -> IsrGrant | IsrRefusal | None:
        """The verdict in a row of the response; None for an error after which the change is requested again."""
        if altered is None:
            return None
        if altered.error_code:
            return _VERDICTS.get(altered.error_code)
        isr = tuple(map(BrokerId, altered.isr))
        if altered.leader_id != self._broker_id or self._broker_id not in isr:
            return IsrRefusal.STALE  # Another broker leads it by now.
        return IsrGrant(altered.leader_epoch, isr, altered.partition_epoch)


def _refusal(proposal: IsrProposal, verdict: IsrGrant | IsrRefusal) -> IsrRefusal | None:
    """Why a proposal has not taken effect; None when it has."""
    if isinstance(verdict, IsrRefusal):
        return verdict
    return None if set(proposal.isr) <= set(verdict.isr) else IsrRefusal.INELIGIBLE


def _request(broker_id: BrokerId, epoch: int, changes: Iterable[IsrChange], version: int) -> AlterPartitionRequest:
    topics: dict[tuple[str, TopicId], list[PartitionData]] = {}
    for change in changes:
        topics.setdefault((change.topic_partition.topic, change.topic_id), []).append(
            _partition(broker_id, epoch, change, version)
        )
    by_name = version <= _LAST_BY_NAME
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        topics=[
            TopicData(topic_name=name, partitions=rows) if by_name else TopicData(topic_id=topic_id, partitions=rows)
            for (name, topic_id), rows in topics.items()
        ],
    )


def _partition(broker_id: BrokerId, epoch: int, change: IsrChange, version: int) -> PartitionData:
    proposal = change.proposal
    data = PartitionData(
        partition_index=change.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
    )
    if version < _FIRST_WITH_EPOCHS:
        data.new_isr = list(proposal.isr)
    else:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=member, broker_epoch=epoch if member == broker_id else seen)
            for member, seen in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ]
    return data


def _by_partition(
    changes: Iterable[IsrChange], response: AlterPartitionResponse
) -> dict[TopicPartition, AlteredPartitionData]:
    names = {change.topic_id: change.topic_partition.topic for change in changes if change.topic_id != NO_TOPIC_ID}
    return {
        TopicPartition(names.get(TopicId(topic.topic_id), topic.topic_name), row.partition_index): row
        for topic in response.topics
        for row in topic.partitions
    }
