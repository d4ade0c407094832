"""Whether partitions of an earlier run are led: by brokers that run, and by this one where it should lead."""

from __future__ import annotations

from sordini.broker.topics.leaderships import are_led
from sordini.protocol.types import BrokerId, LeaderEpoch
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker

NONE = BrokerId(-1)


def is_ready(broker: UnitBroker, *live: BrokerId) -> bool:
    return are_led(broker.parts.metadata, broker.parts.replicas, ME, set(live))


def changed(broker: UnitBroker, leader: BrokerId, isr: tuple[BrokerId, ...]) -> None:
    known = broker.parts.metadata.topics["orders"]
    known.partitions[0] = known.partitions[0]._replace(leader=leader, in_sync_replicas=isr, leader_epoch=LeaderEpoch(9))


async def test_a_cluster_without_topics_has_nothing_to_wait_for() -> None:
    async with a_broker() as broker:
        assert is_ready(broker, ME)


async def test_a_partition_is_led_once_its_leader_runs_and_has_the_command() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert is_ready(broker, ME, OTHER)
        changed(broker, NONE, (ME, OTHER))
        assert not is_ready(broker, ME, OTHER)
        changed(broker, OTHER, (ME, OTHER))
        assert is_ready(broker, ME, OTHER)
        assert not is_ready(broker, ME)  # The leader of the last run, which does not run now.


async def test_a_leader_in_the_metadata_alone_does_not_serve_yet() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        known = broker.parts.metadata.topics["orders"]
        known.partitions[7] = known.partitions[0]
        assert not is_ready(broker, ME)


async def test_a_partition_whose_in_sync_replicas_do_not_run_is_not_waited_for() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        changed(broker, NONE, (OTHER,))
        assert is_ready(broker, ME)
        assert not is_ready(broker, ME, OTHER)
