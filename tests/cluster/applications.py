"""Applications as their authors write them: one producer and one member of a group, in each of three clients.

They run with their clients' defaults but for acks=all, and no error is caught: what a client reports to its application is
what the test sees. Values are unique, and every consumer commits what it has read before it reads on.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer

from tests.cluster.loads import Worker
from tests.outside.java import SHORT_LIVED, java_command, write_properties
from tests.outside.processes import OutsideProcess
from tests.outside.versions import APACHE_KAFKA

At = tuple[int, int]
"""A partition's number and an offset."""

_PAUSE_SECONDS: Final = 0.01
_POLL_SECONDS: Final = 0.1
_SECONDS_MAX: Final = 90.0


class Application(Worker):
    """A thread of one client. `errors` has the errors of callbacks, beside what it raised."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.bootstrap = bootstrap
        self.topic = topic
        self.errors: list[str] = []


class Producing(Application):
    """Sends a hundred unique values a second at most; `acknowledged` says where those are that are safe."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.acknowledged: list[At] = []

    def values(self) -> Iterator[bytes]:
        number = 0
        while self.is_going_on:
            yield f"{type(self).__name__}-{number}".encode()
            number += 1
            time.sleep(_PAUSE_SECONDS)


class Consuming(Application):
    """One member of a group of its own; `seen` counts how often each record came, `assignments` how often it was given
    partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.group = self.group_of(topic)
        self.seen: Counter[At] = Counter()
        self.assignments = 0

    @classmethod
    def group_of(cls, topic: str) -> str:
        """The group's name."""
        return f"{topic}-{cls.__name__}"


class KafkaPythonProducing(Producing):
    def work(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap.split(","))
        for value in self.values():
            producer.send(self.topic, value).add_callback(self._sent).add_errback(self._failed)
        producer.close(_SECONDS_MAX)

    def _sent(self, reported: Any) -> None:
        self.acknowledged.append((reported.partition, reported.offset))

    def _failed(self, error: BaseException) -> None:
        self.errors.append(f"send: {error!r}")


class KafkaPythonConsuming(Consuming):
    def work(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe([self.topic], listener=_Listener(self))
        consumer.topics()  # A member that knows no partitions when it leads its first generation forgets about them.
        try:
            while self.is_going_on:
                records = consumer.poll(timeout_ms=int(_POLL_SECONDS * 1_000))
                self.seen.update((record.partition, record.offset) for some in records.values() for record in some)
                if records:
                    consumer.commit()
        finally:
            consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # It has no types.
    def __init__(self, application: Consuming) -> None:
        self._application = application

    def on_partitions_revoked(self, _revoked: Any) -> None:
        """What was read is committed already."""

    def on_partitions_assigned(self, _assigned: Any) -> None:
        self._application.assignments += 1


class ConfluentProducing(Producing):
    def work(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        for value in self.values():
            producer.produce(self.topic, value, on_delivery=self._delivered)
            producer.poll(0)
        assert producer.flush(_SECONDS_MAX) == 0, "records are neither acknowledged nor refused"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append((message.partition(), message.offset()))
        else:
            self.errors.append(f"send: {error}")


class ConfluentConsuming(Consuming):
    def work(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([self.topic], on_assign=self._assigned)
        try:
            while self.is_going_on:
                message = consumer.poll(_POLL_SECONDS)
                if message is None:
                    continue
                if message.error() is not None:
                    self.errors.append(f"poll: {message.error()}")
                    continue
                self.seen[message.partition(), message.offset()] += 1
                consumer.commit(message, asynchronous=False)
        finally:
            consumer.close()

    def _assigned(self, _consumer: Any, _assigned: Any) -> None:
        self.assignments += 1


class JavaApplication(OutsideProcess):
    """One of Apache Kafka's own system test clients, which prints each thing that happens to it as a line of JSON."""

    def __init__(self, directory: Path, bootstrap: str, topic: str) -> None:
        super().__init__(directory)
        self.bootstrap = bootstrap
        self.topic = topic

    @abstractmethod
    def arguments(self) -> list[str]:
        """What the tool is called with."""

    def command(self) -> list[str]:
        main_class = f"org.apache.kafka.tools.{self.name}"
        where = ["--bootstrap-server", self.bootstrap, "--topic", self.topic]
        return java_command(main_class, [*where, *self.arguments()], APACHE_KAFKA, [*SHORT_LIVED, "-Xmx128m"])

    def is_ready(self) -> bool:
        return '"startup_complete"' in self.output()

    def events(self, *names: str) -> list[dict[str, Any]]:
        """What happened so far, of these kinds; a line that is still being written does not count."""
        whole = self.output().rpartition("\n")[0].splitlines()
        found = [json.loads(line) for line in whole if line.startswith("{")]
        return [event for event in found if event["name"] in names]


class JavaProducing(JavaApplication):
    """Idempotent, as the Java producer is by default; the tool alone would not let it try again."""

    name = "VerifiableProducer"

    def arguments(self) -> list[str]:
        config = self.directory / "producer.properties"
        write_properties(config, {"retries": 2**31 - 1, "enable.idempotence": "true"})
        return ["--throughput", "50", "--acks", "-1", "--producer.config", str(config)]

    @property
    def acknowledged(self) -> list[At]:
        return [(event["partition"], event["offset"]) for event in self.events("producer_send_success")]

    @property
    def errors(self) -> list[str]:
        return [json.dumps(event) for event in self.events("producer_send_error")]


class JavaConsuming(JavaApplication):
    name = "VerifiableConsumer"

    def arguments(self) -> list[str]:
        return ["--group-id", f"{self.topic}-{self.name}", "--verbose"]

    @property
    def assignments(self) -> int:
        return len(self.events("partitions_assigned"))

    @property
    def seen(self) -> Counter[At]:
        return Counter((event["partition"], event["offset"]) for event in self.events("record_data"))

    @property
    def errors(self) -> list[str]:
        failed = [event for event in self.events("offsets_committed") if not event["success"]]
        return [json.dumps(event) for event in failed]
