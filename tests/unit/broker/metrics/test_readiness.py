"""GET /readyz: why a broker is not ready, reason by reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from sordini.broker.metrics.readiness import NAMED_MAX, PARTITIONS_PER_SLICE, reasons
from sordini.broker.topics.metadata_cache import PartitionMetadata
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch
from sordini.storage.errors import StorageError
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, known_broker, led


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    async with a_broker({"min.insync.replicas": "2"}) as one:
        one.parts.metadata.set_brokers(ME, [known_broker(ME)])
        yield one


async def found(broker: UnitBroker) -> list[str]:
    return await reasons(broker.parts, broker.contact, ME)


def leaderless(*replicas: BrokerId) -> PartitionMetadata:
    return PartitionMetadata(BrokerId(-1), LeaderEpoch(0), replicas, (), ())


async def test_a_broker_with_all_it_needs_is_ready(broker: UnitBroker) -> None:
    await broker.lead("orders")
    assert await found(broker) == []


async def test_a_broker_without_a_session_is_not_ready_until_it_has_one(broker: UnitBroker) -> None:
    broker.contact.disconnected(broker.clock.ms + 6_000)
    broker.clock.ms += 40
    assert await found(broker) == ["no session with the coordination store (silent for 40 ms)"]
    broker.contact.connected()
    assert await found(broker) == []


async def test_a_broker_whose_store_has_another_tree_is_not_ready(broker: UnitBroker) -> None:
    broker.contact.lost_tree = "it has no cluster id"
    assert await found(broker) == ["the coordination store does not have this cluster: it has no cluster id"]


async def test_a_broker_without_metadata_or_controller_is_not_ready(broker: UnitBroker) -> None:
    metadata = broker.parts.metadata
    metadata.set_brokers(BrokerId(-1), [known_broker(ME)])
    assert await found(broker) == ["no controller is known"]
    metadata.set_brokers(OTHER, [known_broker(OTHER)])
    assert await found(broker) == ["no metadata received from a controller yet"]


async def test_leaderless_partitions_count_where_this_broker_has_a_replica(broker: UnitBroker) -> None:
    metadata = broker.parts.metadata
    metadata.set_partition("theirs", NO_TOPIC_ID, 0, leaderless(OTHER))
    metadata.set_partition("led", NO_TOPIC_ID, 0, led(OTHER))
    assert await found(broker) == []
    metadata.set_partition("mine", NO_TOPIC_ID, 0, leaderless(OTHER, ME))
    assert await found(broker) == ["1 leaderless partition with a replica here: mine-0"]


async def test_of_many_partitions_the_first_are_named(broker: UnitBroker) -> None:
    for index in range(PARTITIONS_PER_SLICE + 1):
        broker.parts.metadata.set_partition("mine", NO_TOPIC_ID, index, leaderless(ME))
    (reason,) = await found(broker)
    named = ", ".join(f"mine-{index}" for index in range(NAMED_MAX))
    assert reason == f"{PARTITIONS_PER_SLICE + 1} leaderless partitions with a replica here: {named} and others"


async def test_led_partitions_under_min_isr_are_named(broker: UnitBroker) -> None:
    await broker.lead("orders", 2)
    for partition in broker.parts.replicas:
        partition.replicas = (ME, OTHER)
    assert await found(broker) == ["2 led partitions under min.insync.replicas: orders-0, orders-1"]
    broker.parts.replicas.resign_all()
    assert await found(broker) == []


async def test_an_offline_and_a_full_log_directory_are_named(broker: UnitBroker) -> None:
    (space,) = broker.logs.disk_spaces
    space.is_full = True
    assert await found(broker) == [f"1 log directory is full: {space.path}"]
    space.is_full = False
    (directory,) = broker.logs._directories
    directory.handle.failure = StorageError(space.path, "it is gone")
    assert await found(broker) == [f"1 log directory is offline: {space.path}"]


@pytest.mark.parametrize("kind", ["group", "transaction"])
async def test_a_coordinator_that_loads_is_named(broker: UnitBroker, kind: str) -> None:
    loading: Any = SimpleNamespace(is_loading=True)
    field = "groups" if kind == "group" else "transactions"
    parts = broker.parts._replace(**{field: loading})
    assert await reasons(parts, broker.contact, ME) == [f"the {kind} coordinator is loading"]
