"""The transaction coordinator: transactional ids whose partitions of __transaction_state this broker leads.

Leadership, loading and expiry are those of every coordinator (`CoordinatorRuntime`); the decisions are in `machine`.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.configuration.keys.transaction_keys import TransactionSettings
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.broker.coordinators.runtime import CoordinatorRuntime
from sordini.broker.coordinators.shard import ShardSettings
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.held_requests import OnAnswer
from sordini.broker.transactions.limits import TransactionCounts
from sordini.broker.transactions.machine import machine
from sordini.broker.transactions.machine.events import AddPartitions, ProducerIdentity, Request, TransactionLimits
from sordini.broker.transactions.machine.state import NO_CALLER, Transaction
from sordini.broker.transactions.marker_sender import MarkerSender
from sordini.broker.transactions.records import FLEXIBLE_VALUE_VERSION, VALUE_VERSION
from sordini.broker.transactions.shard import TransactionShard, TransactionShardDeps
from sordini.broker.transactions.verification import PartitionsQuestion
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.types import TopicPartition

COMMIT_TIMEOUT_MS = 30_000
"""How long a request waits for the commit of its record; `request.timeout.ms` of Apache Kafka's brokers."""

NO_CONNECTION = -1
"""Of requests that have none: they are not checked by `newest_connection`."""


class TransactionCoordinator:
    """Serves transactional producers, and leaders that verify their appends."""

    def __init__(
        self,
        config: TransactionSettings,
        topic: InternalTopic,
        producer_ids: ProducerIdManager,
        markers: MarkerSender,
        ports: Ports,
    ) -> None:
        self.counts = TransactionCounts(config.transactional_ids_max, config.transactions_ongoing_max)
        limits = TransactionLimits(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
        self.accepted_connections: Callable[[], int] = _none_accepted
        """The count of connections that this broker has accepted; set by the server."""
        accepted = self._accepted if config.transactional_stale_connection_fencing_enable else None
        version = FLEXIBLE_VALUE_VERSION if config.cluster_exclusive else VALUE_VERSION
        deps = TransactionShardDeps(ports, limits, self.counts, producer_ids, markers, version, accepted)
        settings = ShardSettings(
            NO_CODEC,
            COMMIT_TIMEOUT_MS,
            config.transaction_state_log_load_buffer_size,
            config.transaction_expiry_check_interval_ms,
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic, settings, ports, lambda shard: TransactionShard(shard, deps)
        )
        self._markers = markers

    def submit(self, transactional_id: str, request: Request, on_answer: OnAnswer, connection: int) -> None:
        """Submit a producer's request; `on_answer` is called once, maybe before this returns.

        `connection` is the number of the connection it came on. Raises BrokerError: INVALID_REQUEST for an empty id,
        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; and WireError for an older connection than the producer's newest,
        which is to be closed without a response (see `newest_connection`).
        """
        self._state(transactional_id).submit(transactional_id, request, on_answer, connection)

    def ask(self, question: PartitionsQuestion) -> None:
        """Answer whether partitions are in the producer's ongoing transaction (KIP-890), or add them. Raises nothing.

        NONE: yes; TRANSACTION_ABORTABLE: no. Other codes are the same for all: those of `submit`, of a write, and
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while the transaction is being ended.
        """
        try:
            if question.adds:
                self._add(question)
            else:
                transaction = self._state(question.transactional_id).transaction(question.transactional_id)
                question.on_done(
                    machine.verified(transaction, ProducerIdentity(*question.producer), question.partitions)
                )
        except BrokerError as error:
            question.answer(error.code)

    def _add(self, question: PartitionsQuestion) -> None:
        """For their leaders (transaction.version 2). Raises BrokerError as `submit`."""
        producer, partitions = ProducerIdentity(*question.producer), frozenset(question.partitions)
        event = AddPartitions(NO_CALLER, producer, partitions, client_version=RAISES_EPOCH)
        self.submit(question.transactional_id, event, lambda answer: question.answer(answer.error), NO_CONNECTION)

    def transaction(self, transactional_id: str) -> Transaction | None:
        """A transactional id; None if it does not exist. Raises BrokerError as `submit`."""
        found = self._state(transactional_id).transaction(transactional_id)
        return found if found.is_known else None

    def unmarked(self, transaction: Transaction) -> list[TopicPartition]:
        """The partitions of a transaction that have no marker yet. Raises BrokerError as `submit`."""
        return sorted(self._state(transaction.transactional_id).unmarked(transaction))

    @property
    def is_loading(self) -> bool:
        """Whether transactional ids are missing from `transactions`, because their partition is being loaded."""
        return self.runtime.is_loading

    def transactions(self) -> list[Transaction]:
        """All transactional ids here, as they are now. Raises nothing."""
        return [
            transaction
            for shard in self.runtime.shards()
            if not shard.is_loading
            for transaction in shard.state.transactions.values()
            if transaction.is_known
        ]

    def send_markers_by(self, run_soon: Callable[[Callable[[], object]], object]) -> None:
        """Let responses to producers leave before their markers are written: `run_soon` is the loop's `call_soon`."""
        self._markers.run_soon = run_soon

    def close(self) -> None:
        """Close the connections to other brokers."""
        self._markers.close()

    def _accepted(self) -> int:
        return self.accepted_connections()

    def _state(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "a transactional id may not be empty")
        return self.runtime.loaded_shard(transactional_id).state


def _none_accepted() -> int:
    """Without a server there are no connections."""
    return 0
