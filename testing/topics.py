"""Topics of a cluster, as the kit's own client makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordini.client.routing import metadata_request
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.testing.own_client import PATIENCE_S, KitError, OwnClient


class Topics:
    """Makes topics, and finds those that there are."""

    def __init__(self, client: OwnClient) -> None:
        self._client = client

    def create(self, name: str, partitions: int, replicas: int | None, config: Mapping[str, str]) -> None:
        """Create a topic, and wait until every broker knows it. Raises KitError."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1 if replicas is None else replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )

        def created() -> Any:
            controller = self._client.metadata("").controller_id
            brokers = self._client.brokers
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)
            row = self._client.ask(request, controller if controller in brokers else None).topics[0]
            return None if row.error_code == ErrorCode.NOT_CONTROLLER else row

        row = self._client.wait(created, f"topic {name!r} is created")
        if row.error_code:
            raise KitError(f"topic {name!r}: {row.error_message or ''} ({ErrorCode(row.error_code).name})")
        for partition in range(partitions):
            self._client.leader(name, partition, PATIENCE_S)  # Not every broker knows the topic yet.
        self._client.wait(lambda: self._is_known(name, partitions) or None, f"every broker knows topic {name!r}")

    def partitions(self) -> dict[str, int]:
        """How many partitions each topic of the cluster has."""
        return {row.name or "": len(row.partitions) for row in self._client.metadata().topics}

    def _is_known(self, topic: str, partitions: int) -> bool:
        for broker in self._client.brokers:
            row = self._client.ask(metadata_request([topic]), broker).topics[0]
            if row.error_code or sum(one.leader_id >= 0 for one in row.partitions) < partitions:
                return False
        return True
