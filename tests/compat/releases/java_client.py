"""One release of the Java client through a session (session.py), in a JVM inside this program.

python java_client.py '{"kind": "java", "version": "4.4.0", "bootstrap": ..., "topic": ..., "jars": ["....jar"]}'
"""

from __future__ import annotations

from typing import Any

import jpype

from tests.compat.releases import session
from tests.compat.releases.session import PARTITIONS, RETENTION_MS, Client, Row, Settings, as_row
from tests.compat.sent import Sent

LIST_OFFSETS_SINCE = (2, 0)
"""The first release whose administrator lists a group's offsets."""


class Java(Client):
    """All codecs but zstd, which came with 2.1."""

    codecs = ("none", "gzip", "snappy", "lz4")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._admin = jpype.JClass("org.apache.kafka.clients.admin.AdminClient").create(self._properties())
        self._producers: dict[str, Any] = {}
        self._consumer: Any = None

    def _properties(self, **pairs: str) -> Any:
        found = jpype.JClass("java.util.Properties")()
        found.put("bootstrap.servers", self.settings.bootstrap)
        for name, value in pairs.items():
            found.put(name.replace("_", "."), value)
        return found

    @property
    def version(self) -> str:
        reported = jpype.java.util.Properties()
        reported.load(jpype.java.lang.ClassLoader.getSystemResourceAsStream("kafka/kafka-version.properties"))
        return str(reported.getProperty("version"))

    @property
    def _is_new(self) -> bool:
        return tuple(int(part) for part in self.settings.version.split(".")[:2]) >= LIST_OFFSETS_SINCE

    def create_topic(self) -> None:
        configs = jpype.java.util.HashMap()
        configs.put("retention.ms", RETENTION_MS)
        new = jpype.JClass("org.apache.kafka.clients.admin.NewTopic")(self.settings.topic, PARTITIONS, 1)
        self._admin.createTopics([new.configs(configs)]).all().get()

    def is_topic_listed(self) -> bool:
        return self.settings.topic in {str(name) for name in self._admin.listTopics().names().get()}

    def retention_ms(self) -> str | None:
        kind = jpype.JClass("org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        resource = jpype.JClass("org.apache.kafka.common.config.ConfigResource")(kind, self.settings.topic)
        found = self._admin.describeConfigs([resource]).all().get()
        return str(found.get(resource).get("retention.ms").value())

    def produce(self, codec: str, sent: list[Sent], partition: int) -> list[int]:
        if codec not in self._producers:
            serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
            settings = {"acks": "all", "enable_idempotence": "true", "compression_type": codec, "linger_ms": "20"}
            properties = self._properties(key_serializer=serializer, value_serializer=serializer, **settings)
            self._producers[codec] = jpype.JClass("org.apache.kafka.clients.producer.KafkaProducer")(properties)
        producer = self._producers[codec]
        futures = [producer.send(self._record(one, partition)) for one in sent]
        return [int(future.get().offset()) for future in futures]

    def _record(self, one: Sent, partition: int) -> Any:
        header = jpype.JClass("org.apache.kafka.common.header.internals.RecordHeader")
        headers = jpype.java.util.ArrayList()
        for name, content in one.headers:
            headers.add(header(name, _java(content)))
        record = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")
        number, time_ms = jpype.java.lang.Integer(partition), jpype.java.lang.Long(one.timestamp_ms)
        return record(self.settings.topic, number, time_ms, _java(one.key), _java(one.value), headers)

    def poll(self) -> list[Row]:
        if self._consumer is None:
            deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
            group = {"group_id": self.settings.group, "auto_offset_reset": "earliest", "enable_auto_commit": "false"}
            properties = self._properties(key_deserializer=deserializer, value_deserializer=deserializer, **group)
            self._consumer = jpype.JClass("org.apache.kafka.clients.consumer.KafkaConsumer")(properties)
            self._consumer.subscribe([self.settings.topic])
        half_a_second = jpype.java.time.Duration.ofMillis(500) if self._is_new else 500
        return [
            as_row(
                int(one.partition()),
                int(one.offset()),
                int(one.timestamp()),
                _python(one.key()),
                _python(one.value()),
                [(str(header.key()), _python(header.value())) for header in one.headers()],
            )
            for one in self._consumer.poll(half_a_second)
        ]

    def commit(self) -> None:
        self._consumer.commitSync()

    def committed(self, partition: int) -> int:
        asked = jpype.JClass("org.apache.kafka.common.TopicPartition")(self.settings.topic, partition)
        if not self._is_new:
            return int(self._consumer.committed(asked).offset())
        return int(self._consumer.committed(jpype.java.util.Set.of(asked)).get(asked).offset())

    def group_offsets(self) -> dict[int, int] | None:
        if not self._is_new:
            return None
        found = self._admin.listConsumerGroupOffsets(self.settings.group).partitionsToOffsetAndMetadata().get()
        return {int(one.partition()): int(found.get(one).offset()) for one in found.keySet()}

    def close(self) -> None:
        for one in (self._consumer, *self._producers.values(), self._admin):
            one.close()


class NewJava(Java):
    """With zstd, too."""

    codecs = Client.codecs


def _java(content: bytes | None) -> Any:
    return None if content is None else jpype.JArray(jpype.JByte)(content)


def _python(content: Any) -> bytes | None:
    return None if content is None else bytes(content)


KINDS = {"old-java": Java, "java": NewJava}

if __name__ == "__main__":
    settings = session.settings()
    jpype.startJVM("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", classpath=settings.jars)
    session.run(KINDS[settings.kind](settings))
