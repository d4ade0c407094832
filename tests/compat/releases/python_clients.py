"""The oldest releases of the Python clients that the tests know, each through a session (session.py).

python python_clients.py '{"kind": "aiokafka", "version": "0.8.1", "bootstrap": ..., "topic": ..., "jars": []}'
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

from tests.compat.releases import session
from tests.compat.releases.session import PARTITIONS, RETENTION_MS, Client, Row, Settings, as_row
from tests.compat.sent import Sent


class KafkaPython(Client):
    """kafka-python 2.0: no idempotent producer yet."""

    def __init__(self, settings: Settings) -> None:
        import kafka

        super().__init__(settings)
        self._kafka = kafka
        self._address = {"bootstrap_servers": settings.bootstrap}
        self._admin = kafka.KafkaAdminClient(**self._address)
        self._producers: dict[str, Any] = {}
        self._consumer = kafka.KafkaConsumer(
            settings.topic,
            group_id=settings.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=500,
            **self._address,
        )

    @property
    def version(self) -> str:
        return str(self._kafka.__version__)

    def create_topic(self) -> None:
        from kafka.admin import NewTopic

        configs = {"retention.ms": RETENTION_MS}
        self._admin.create_topics([NewTopic(self.settings.topic, PARTITIONS, 1, topic_configs=configs)])

    def is_topic_listed(self) -> bool:
        return self.settings.topic in self._admin.list_topics()

    def retention_ms(self) -> str | None:
        from kafka.admin import ConfigResource, ConfigResourceType

        asked = ConfigResource(ConfigResourceType.TOPIC, self.settings.topic)
        (answer,) = self._admin.describe_configs([asked])
        ((*_, entries),) = answer.resources
        return next(entry[1] for entry in entries if entry[0] == "retention.ms")

    def produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        if codec not in self._producers:
            kind = None if codec == "none" else codec
            self._producers[codec] = self._kafka.KafkaProducer(
                acks="all", retries=50, compression_type=kind, linger_ms=20, **self._address
            )
        producer, topic = self._producers[codec], self.settings.topic
        futures = [producer.send(topic, one.value, one.key, one.headers, partition, one.timestamp_ms) for one in sent]
        return [future.get(timeout=30).offset for future in futures]

    def poll(self) -> list[Row]:
        found = self._consumer.poll(timeout_ms=500)
        return [
            as_row(one.partition, one.offset, one.timestamp, one.key, one.value, one.headers)
            for batch in found.values()
            for one in batch
        ]

    def commit(self) -> None:
        self._consumer.commit()

    def committed(self, partition: int) -> int:
        return int(self._consumer.committed(self._kafka.TopicPartition(self.settings.topic, partition)))

    def group_offsets(self) -> dict[int, int] | None:
        self._admin.close()  # It does not connect again by itself once its connection is gone.
        self._admin = self._kafka.KafkaAdminClient(**self._address)
        found = self._admin.list_consumer_group_offsets(self.settings.group)
        return {one.partition: reported.offset for one, reported in found.items()}

    def close(self) -> None:
        for one in (self._consumer, *self._producers.values(), self._admin):
            one.close()


class AioKafka(Client):
    """aiokafka 0.8, on one loop that runs while something is waited for."""

    def __init__(self, settings: Settings) -> None:
        import aiokafka

        super().__init__(settings)
        self._aiokafka = aiokafka
        self._address = {"bootstrap_servers": settings.bootstrap}
        self._runner = asyncio.Runner()
        self._producers: dict[str, Any] = {}
        self._consumer: Any = None

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    @property
    def version(self) -> str:
        return str(self._aiokafka.__version__)

    def create_topic(self) -> None:
        self._do(self._administrate())

    async def _administrate(self) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        self._admin = AIOKafkaAdminClient(**self._address)
        await self._admin.start()
        configs = {"retention.ms": RETENTION_MS}
        await self._admin.create_topics([NewTopic(self.settings.topic, PARTITIONS, 1, topic_configs=configs)])

    def is_topic_listed(self) -> bool:
        return self.settings.topic in self._do(self._admin.list_topics())

    def retention_ms(self) -> str | None:
        from kafka.admin import ConfigResource, ConfigResourceType  # On which this release builds.

        asked = ConfigResource(ConfigResourceType.TOPIC, self.settings.topic)
        (answer,) = self._do(self._admin.describe_configs([asked]))
        ((*_, entries),) = answer.resources
        return next(entry[1] for entry in entries if entry[0] == "retention.ms")

    def produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        return self._do(self._produce(codec, sent, partition))

    async def _produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        if codec not in self._producers:
            kind = None if codec == "none" else codec
            producer = self._producers[codec] = self._aiokafka.AIOKafkaProducer(
                enable_idempotence=True, compression_type=kind, linger_ms=20, **self._address
            )
            await producer.start()
        send = self._producers[codec].send
        topic = self.settings.topic
        futures = [await send(topic, one.value, one.key, partition, one.timestamp_ms, one.headers) for one in sent]
        return [(await future).offset for future in futures]

    def poll(self) -> list[Row]:
        return self._do(self._poll())

    async def _poll(self) -> list[Row]:
        if self._consumer is None:
            self._consumer = self._aiokafka.AIOKafkaConsumer(
                self.settings.topic,
                group_id=self.settings.group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **self._address,
            )
            await self._consumer.start()
        found = await self._consumer.getmany(timeout_ms=500)
        return [
            as_row(one.partition, one.offset, one.timestamp, one.key, one.value, one.headers)
            for batch in found.values()
            for one in batch
        ]

    def commit(self) -> None:
        self._do(self._consumer.commit())

    def committed(self, partition: int) -> int:
        return int(self._do(self._consumer.committed(self._aiokafka.TopicPartition(self.settings.topic, partition))))

    def group_offsets(self) -> dict[int, int] | None:
        found = self._do(self._admin.list_consumer_group_offsets(self.settings.group))
        return {one.partition: reported.offset for one, reported in found.items()}

    def wait(self) -> None:
        self._do(asyncio.to_thread(sys.stdin.readline))  # Its heartbeats go on.

    def close(self) -> None:
        self._do(self._consumer.stop())
        for producer in self._producers.values():
            self._do(producer.stop())
        self._do(self._admin.close())
        self._runner.close()


class Confluent(Client):
    """confluent-kafka around librdkafka 2.0."""

    def __init__(self, settings: Settings) -> None:
        import confluent_kafka
        from confluent_kafka.admin import AdminClient

        super().__init__(settings)
        self._kafka = confluent_kafka
        self._address = {"bootstrap.servers": settings.bootstrap}
        self._admin = AdminClient(dict(self._address))
        self._producers: dict[str, Any] = {}
        group = {"group.id": settings.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = confluent_kafka.Consumer({**self._address, **group})
        self._is_subscribed = False

    @property
    def version(self) -> str:
        return str(self._kafka.version()[0])

    def create_topic(self) -> None:
        from confluent_kafka.admin import NewTopic

        wanted = NewTopic(self.settings.topic, PARTITIONS, 1, config={"retention.ms": RETENTION_MS})
        for future in self._admin.create_topics([wanted]).values():
            future.result(timeout=30)

    def is_topic_listed(self) -> bool:
        return self.settings.topic in self._admin.list_topics(timeout=30).topics

    def retention_ms(self) -> str | None:
        from confluent_kafka.admin import RESOURCE_TOPIC, ConfigResource

        (future,) = self._admin.describe_configs([ConfigResource(RESOURCE_TOPIC, self.settings.topic)]).values()
        return str(future.result(timeout=30)["retention.ms"].value)

    def produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        if codec not in self._producers:
            settings = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 20}
            self._producers[codec] = self._kafka.Producer({**self._address, **settings})
        producer, offsets = self._producers[codec], []

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset())

        for one in sent:
            producer.produce(
                self.settings.topic,
                value=one.value,
                key=one.key,
                partition=partition,
                timestamp=one.timestamp_ms,
                headers=one.headers,
                on_delivery=delivered,
            )
        assert producer.flush(30) == 0
        return offsets

    def poll(self) -> list[Row]:
        if not self._is_subscribed:
            self._consumer.subscribe([self.settings.topic])
            self._is_subscribed = True
        found = []
        for one in self._consumer.consume(100, timeout=0.5):
            if one.error() is None:
                time_ms = one.timestamp()[1]
                found.append(as_row(one.partition(), one.offset(), time_ms, one.key(), one.value(), one.headers()))
        return found

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def committed(self, partition: int) -> int:
        asked = [self._kafka.TopicPartition(self.settings.topic, partition)]
        (found,) = self._consumer.committed(asked, timeout=30)
        return int(found.offset)

    def group_offsets(self) -> dict[int, int] | None:
        asked = self._kafka.ConsumerGroupTopicPartitions(self.settings.group)
        (future,) = self._admin.list_consumer_group_offsets([asked]).values()
        return {one.partition: one.offset for one in future.result(timeout=30).topic_partitions}

    def close(self) -> None:
        self._consumer.close()


KINDS = {"kafka-python": KafkaPython, "aiokafka": AioKafka, "confluent-kafka": Confluent}

if __name__ == "__main__":
    settings = session.settings()
    session.run(KINDS[settings.kind](settings))
