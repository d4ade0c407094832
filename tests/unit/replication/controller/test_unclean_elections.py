"""Rulings on unclean elections that come when things have changed."""

from __future__ import annotations

import pytest

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine import unclean_elections
from sordini.replication.controller.machine.events import UncleanSettingsRead
from tests.support.controller_machine_harness import MachineHarness

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def harness() -> MachineHarness:
    """`orders` is on 1 and 2, 1 alone is in sync, and gone."""
    harness = MachineHarness()
    for broker in (1, 2, 3):
        harness.register_broker(broker)
    harness.create_topic("orders", {0: (BrokerId(1), BrokerId(2)), 1: (BrokerId(3),)})
    harness.elect(3)
    harness.fail_broker(2)
    harness.read_brokers()
    harness.register_broker(2)
    harness.fail_broker(1)
    harness.read_brokers()
    assert harness.cluster is not None
    assert (
        unclean_elections.leaderless(harness.cluster)
        == unclean_elections.leaderless(harness.cluster, "orders")
        == (ORDERS,)
    )
    assert unclean_elections.leaderless(harness.cluster, "bills") == ()
    harness.lines.clear()
    return harness


def test_a_topic_that_is_being_deleted_gets_no_leader_whatever_the_setting(harness: MachineHarness) -> None:
    harness.request_deletion("orders")
    harness.read_deletions()
    assert harness.cluster is not None
    assert unclean_elections.leaderless(harness.cluster) == ()
    before = harness.state(ORDERS)
    harness.feed(UncleanSettingsRead((ORDERS,), frozenset({"orders"})))
    assert harness.state(ORDERS) == before


def test_partitions_that_are_unknown_or_have_a_leader_meanwhile_are_unchanged(harness: MachineHarness) -> None:
    harness.register_broker(1)
    harness.read_brokers()
    harness.lines.clear()
    gone = (TopicPartition("bills", 0), TopicPartition("orders", 7))
    harness.feed(UncleanSettingsRead((ORDERS, *gone), frozenset({"orders", "bills"})))
    assert harness.lines == []


def test_a_setting_that_forbids_it_changes_nothing_without_a_leader(harness: MachineHarness) -> None:
    harness.feed(UncleanSettingsRead((ORDERS,), frozenset()))
    assert harness.lines == []


def test_the_first_live_replica_of_the_assignment_leads(harness: MachineHarness) -> None:
    harness.feed(UncleanSettingsRead((ORDERS,), frozenset({"orders"})))
    known = harness.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr, known.state.recovering) == (2, (2,), True)
