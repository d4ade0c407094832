"""Topics made, cut and removed through an admin client, and the brokers that the tests of sources run against."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple
from uuid import uuid4

with warnings.catch_warnings():
    # kafka-python reads its schemas, when it is imported, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.errors import TopicAlreadyExistsError

TRIES_MAX = 100


class Place(NamedTuple):
    """Where a test's topics are."""

    bootstrap: str
    replicas: int = 1
    """Of each partition."""

    def make_topic(self, partitions: int = 1, *, name: str = "", configs: Mapping[str, str] | None = None) -> str:
        """Make a topic, under a unique name unless one is given, and return its name."""
        name = name or f"topic-{uuid4().hex[:12]}"
        wanted: dict[str, Any] = {"num_partitions": partitions, "replication_factor": self.replicas}
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.create_topics({name: {**wanted, "configs": dict(configs or {})}}, wait_for_metadata=True)
        return name

    def delete_topic(self, name: str) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.delete_topics([name])

    def recreate(self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None) -> None:
        """Delete a topic and make another of its name, which is free once the controller has let go of the first."""
        self.delete_topic(name)
        for _ in range(TRIES_MAX):
            with suppress(TopicAlreadyExistsError):
                self.make_topic(partitions, name=name, configs=configs)
                return
        raise AssertionError(f"{name} is still there")

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Forget each partition's records before an offset, as retention would."""
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic, partition): offset for partition, offset in before.items()})
