"""Finds the coordinator of a transactional id, here or on another broker, to verify a transaction or add to it."""

from __future__ import annotations

from typing import Protocol

from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.broker.transactions.verification import PartitionsQuestion, TransactionVerifier
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId


class OtherBrokers(Protocol):
    """`RemoteVerifications`."""

    def ask(self, broker_id: BrokerId, question: PartitionsQuestion) -> None: ...


class CoordinatorVerifier:
    """A `TransactionVerifier` that knows where each coordinator is."""

    def __init__(
        self,
        this_broker: BrokerId,
        metadata: MetadataCache,
        here: TransactionVerifier,
        others: OtherBrokers,
    ) -> None:
        """`here` is the coordinator on this broker."""
        self._this_broker = this_broker
        self._metadata = metadata
        self._here = here
        self._others = others

    def ask(self, question: PartitionsQuestion) -> None:
        broker_id = self._coordinator_of(question.transactional_id)
        if broker_id is None:
            question.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif broker_id == self._this_broker:
            self._here.ask(question)
        else:
            self._others.ask(broker_id, question)

    def _coordinator_of(self, transactional_id: str) -> BrokerId | None:
        topic = self._metadata.topics.get(TRANSACTIONS_TOPIC)
        if topic is None or not topic.partitions:
            return None
        partition = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        return None if partition is None or partition.leader not in self._metadata.brokers else partition.leader
