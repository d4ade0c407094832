"""One way to speak to transactional producers of two client libraries, a step at a time, for scripts of schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition

SECONDS_MAX: Final = 60.0
REQUEST_TIMEOUT_MS: Final = 2_000
"""When a client gives an unanswered request up: longer than a busy machine takes for a request that is answered."""
TRANSACTION_TIMEOUT_MS: Final = 60_000


class TransactionalClient(Protocol):
    """A producer with a transactional id, which is its client id, too. Each step is acknowledged when it returns."""

    def begin(self) -> None: ...
    def write(self, topic: str, partition: int, value: bytes) -> None: ...
    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 with the transaction."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        common = {"bootstrap.servers": bootstrap, "client.id": name, "log_level": 0, "reconnect.backoff.ms": 20}
        # Else librdkafka forgets its only broker with each connection, and its send_offsets_to_transaction may then wait
        # for the forgotten one without an end.
        known = {"metadata.recovery.strategy": "none"}
        self._common: dict[str, Any] = {**common, "reconnect.backoff.max.ms": 200, **known}
        settings = {
            "transactional.id": name,
            "transaction.timeout.ms": transaction_timeout_ms,
            "socket.timeout.ms": request_timeout_ms,
            "retry.backoff.ms": 20,
            "linger.ms": 0,
        }
        self._producer = Producer({**self._common, **settings})
        self._producer.init_transactions(SECONDS_MAX)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, partition: int, value: bytes) -> None:
        failures: list[Any] = []
        self._producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error))
        assert self._producer.flush(SECONDS_MAX) == 0
        assert failures == [None]

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({**self._common, "client.id": "reader", "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, SECONDS_MAX)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS_MAX)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS_MAX)

    def close(self) -> None:
        self._producer.purge()


class Aiokafka:
    """aiokafka, on a loop that runs during the steps only."""

    def __init__(self, bootstrap: str, name: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
        self._runner = asyncio.Runner()
        self._name = name
        self._bootstrap = bootstrap
        self._timeout_ms = transaction_timeout_ms
        self._producer: AIOKafkaProducer = self._run(self._started())

    async def _started(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            client_id=self._name,
            transactional_id=self._name,
            transaction_timeout_ms=self._timeout_ms,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=20,
        )
        await producer.start()
        return producer

    def _run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(asyncio.wait_for(step, SECONDS_MAX))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def write(self, topic: str, partition: int, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AiokafkaPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._run(self._producer.stop())
        finally:
            self._runner.close()
