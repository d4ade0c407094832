"""Rulings on unclean elections that come when things have changed."""

from __future__ import annotations

import pytest

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine import unclean_elections
from sordini.replication.controller.machine.events import UncleanRuled
from tests.support.controller_machine_harness import World

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def world() -> World:
    """`orders` is on 1 and 2, 1 alone is in sync, and gone."""
    world = World()
    for broker in (1, 2, 3):
        world.broker_comes(broker)
    world.topic_made("orders", {0: (BrokerId(1), BrokerId(2)), 1: (BrokerId(3),)})
    world.elect(3)
    world.broker_goes(2)
    world.look_at_brokers()
    world.broker_comes(2)
    world.broker_goes(1)
    world.look_at_brokers()
    assert world.cluster is not None
    assert unclean_elections.leaderless(world.cluster) == unclean_elections.leaderless(world.cluster, "orders") == (ORDERS,)
    assert unclean_elections.leaderless(world.cluster, "bills") == ()
    world.said.clear()
    return world


def test_a_topic_that_is_being_deleted_gets_no_leader_whatever_the_ruling(world: World) -> None:
    world.deletion_wanted("orders")
    world.look_at_deletions()
    assert world.cluster is not None
    assert unclean_elections.leaderless(world.cluster) == ()
    before = world.state(ORDERS)
    world.feed(UncleanRuled((ORDERS,), frozenset({"orders"})))
    assert world.state(ORDERS) == before


def test_what_is_not_there_or_is_led_by_now_is_left_alone(world: World) -> None:
    world.broker_comes(1)
    world.look_at_brokers()
    world.said.clear()
    gone = (TopicPartition("bills", 0), TopicPartition("orders", 7))
    world.feed(UncleanRuled((ORDERS, *gone), frozenset({"orders", "bills"})))
    assert world.said == []


def test_a_ruling_that_forbids_it_changes_nothing_where_nobody_leads(world: World) -> None:
    world.feed(UncleanRuled((ORDERS,), frozenset()))
    assert world.said == []


def test_the_first_of_the_assignment_that_is_there_leads(world: World) -> None:
    world.feed(UncleanRuled((ORDERS,), frozenset({"orders"})))
    known = world.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr, known.state.recovering) == (2, (2,), True)
