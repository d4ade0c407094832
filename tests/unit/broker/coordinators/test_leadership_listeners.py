"""Coordinators follow the leadership of partitions, each as a listener of its own."""

from __future__ import annotations

from sordini.replication.partition import Partition
from tests.support.unit_broker import a_broker


class RecordingListener:
    """Notes what it is notified of."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def became_leader(self, partition: Partition) -> None:
        self.events.append(("leader", str(partition.name)))

    def resigned(self, partition: Partition) -> None:
        self.events.append(("resigned", str(partition.name)))


async def test_every_listener_is_notified_of_each_leadership_and_its_end() -> None:
    async with a_broker() as broker:
        listeners = [RecordingListener(), RecordingListener()]
        broker.parts.replicas.leadership_listeners += listeners
        await broker.lead("orders", 2)
        await broker.lead("orders", 2, epoch=1)
        broker.parts.replicas.resign_all()
        led = [("leader", "orders-0"), ("leader", "orders-1")]
        assert [listener.events for listener in listeners] == [
            [*led, *led, ("resigned", "orders-0"), ("resigned", "orders-1")]
        ] * 2
