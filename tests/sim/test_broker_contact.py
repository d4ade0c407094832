"""Which answers prove that a simulated member was in contact with its coordinator, as a member."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import ErrorCode
from sordini.protocol.java_hash import partition_of, text_hash
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.sim.broker_contact import BrokerContact
from tests.sim.group_checkers import expulsions
from tests.sim.group_history import Expelled, GroupHistory
from tests.sim.history import History, Restart
from tests.sim.world import OFFSETS_TOPIC, World

OF_THE_GROUP = partition_of(text_hash("g"), 5)
OF_OTHERS = (OF_THE_GROUP + 1) % 5


@pytest.fixture
def groups() -> GroupHistory:
    """The broker has started again, and found records in both partitions."""
    return GroupHistory(offsets_partitions=5, to_load=frozenset([OF_THE_GROUP, OF_OTHERS]))


@pytest.fixture
def contact(groups: GroupHistory) -> BrokerContact:
    loop = SimLoop(0)
    loop.finish()
    contact = BrokerContact(loop, groups)
    contact.is_answered(15.0)
    return contact


def test_a_heartbeat_that_is_answered_none_while_the_group_is_loaded_is_no_contact(groups, contact):
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 31.0)
    groups.loaded[OF_OTHERS] = 31.5
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 32.0)
    groups.loaded[OF_THE_GROUP] = 33.0
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 32.9)
    assert contact.last_contact == 15.0


def test_a_heartbeat_that_is_answered_none_is_contact_once_the_group_is_loaded(groups, contact):
    groups.loaded[OF_THE_GROUP] = 31.0
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 31.0)
    assert contact.last_contact == 31.0


def test_a_heartbeat_is_contact_when_there_was_nothing_to_load(groups, contact):
    groups.to_load = frozenset([OF_OTHERS])
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 31.0)
    assert contact.last_contact == 31.0


def test_only_a_loaded_group_answers_that_it_rebalances_and_a_refusal_is_no_contact(groups, contact):
    contact.heartbeat_is_answered("g", ErrorCode.REBALANCE_IN_PROGRESS, 31.0)
    groups.loaded[OF_THE_GROUP] = 31.5
    contact.heartbeat_is_answered("g", ErrorCode.UNKNOWN_MEMBER_ID, 32.0)
    assert contact.last_contact == 31.0


def test_a_member_that_expired_before_a_restart_is_rightly_unknown_after_a_heartbeat_during_the_loading(
    groups, contact
):
    """The session ends at 25, the broker is down from 27.3 to 29.6 and killed while it loads."""
    contact.heartbeat_is_answered("g", ErrorCode.NONE, 31.0)
    groups.expelled = [Expelled("g", "a", contact.last_contact, 36.5, 36.6, 6.0)]
    restarts = [Restart("stop", 27.3, {}, {}, {}, 29.6), Restart("kill", 31.7, {}, {}, {}, 32.8)]
    assert not list(expulsions(History(restarts=restarts, groups=groups)))


def test_a_world_notes_when_its_broker_has_loaded_a_partition():
    world = World(0, lambda _world: None)
    world.loop.finish()
    world.log.info("groups loaded", partition=str(TopicPartition(OFFSETS_TOPIC, 3)), groups=1)
    world.log.info("groups unloaded", partition=str(TopicPartition(OFFSETS_TOPIC, 4)), groups=1)
    assert world.history.groups.loaded == {3: world.loop.time()}
