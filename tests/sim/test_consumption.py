"""Every anomaly of consumer groups that is planted in a history is found, and a clean history is clean."""

from __future__ import annotations

import asyncio

from sordini.broker.network.ports import SocketOptions
from sordini.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.virtual_loop import run
from tests.sim.brokers import LoneBroker
from tests.sim.client import Connection
from tests.sim.consumer_member import ConsumerMember
from tests.sim.consumption import check_consumption
from tests.sim.group_checkers import check_groups
from tests.sim.group_client import ConsumerMemberRules
from tests.sim.group_history import Commit, Forgetting, Joined, Left, ReportedState, Synced, Tenure
from tests.sim.group_member import State
from tests.sim.history import History, Restart
from tests.sim.poster import POSTS_TOPIC
from tests.sim.settled import consumer_group_problems
from tests.sim.world import ADDRESS, World

TP = TopicPartition("t", 0)


def _commit(member: str, number: int, offset: int, began: float, **changes: object) -> Commit:
    commit = Commit("g", TP, f"{member}-{number}@{offset}", began, began + 0.1, "ok", member, 1)
    return commit._replace(**changes)


def _history(*commits: Commit) -> History:
    """`a` has the partition from 1 on, and `b` from 5 on; ten records were consumed."""
    history = History()
    groups = history.groups
    groups.consumer_groups, groups.reading_groups = {"g"}, {"g"}
    groups.tenures = [Tenure("g", TP, "a", 1, 1.0), Tenure("g", TP, "b", 2, 5.0)]
    groups.consumed = {("g", TP): set(range(10))}
    groups.commits = [_commit("a", 1, 3, 2.0), _commit("a", 2, 5, 4.0), *commits, _commit("b", 1, 7, 6.0)]
    return history


def _power(at: float) -> Restart:
    return Restart("power", at, {}, {}, {}, at + 1.0)


def test_a_partition_that_changes_hands_is_clean():
    assert not check_groups(_history())


def test_a_commit_of_the_former_owner_after_one_of_the_next_is_found():
    (found,) = check_consumption(_history(_commit("a", 3, 8, 7.0)))
    assert found.startswith("K1 t-0 of g: b has it since 5.000 and committed at 6.100, and a-3@8 of a")


def test_a_commit_of_the_former_owner_is_fine_while_the_next_has_committed_nothing():
    assert not check_consumption(_history(_commit("a", 3, 6, 5.5)))


def test_a_commit_of_the_former_owner_that_was_refused_or_has_no_answer_is_no_finding():
    for outcome in ("no", "info"):
        assert not check_consumption(_history(_commit("a", 3, 8, 7.0, outcome=outcome)))


def test_a_former_owner_that_has_the_partition_again_may_commit():
    history = _history(_commit("a", 3, 8, 9.0))
    history.groups.tenures.append(Tenure("g", TP, "a", 3, 8.0))
    assert not check_consumption(history)


def test_an_offset_that_goes_backward_is_found():
    (found,) = check_consumption(_history(_commit("b", 2, 6, 8.0)))
    assert found == "K2 t-0 of g: b-1@7, and then b-2@6 at 8.100"


def test_an_offset_may_go_backward_over_a_power_loss_and_an_expiry_and_not_over_a_kill():
    history = _history(_commit("b", 2, 6, 9.0))
    history.restarts = [Restart("kill", 7.0, {}, {}, {}, 8.0)]
    assert check_consumption(history)
    history.restarts = [_power(7.0)]
    assert not check_consumption(history)
    history.groups.is_durable = True
    assert check_consumption(history)
    history.restarts = []
    history.groups.forgettings = [Forgetting(None, None, 7.0, 7.0, "info")]
    assert not check_consumption(history)


def test_a_committed_record_that_no_member_was_given_is_found():
    history = _history()
    history.groups.consumed["g", TP].discard(4)
    assert check_consumption(history) == ["K3 t-0 of g: [4] of 7 committed records were never consumed"]


def test_a_group_of_both_protocols_is_judged_by_its_owners_alone():
    history = _history(_commit("b", 2, 6, 8.0), _commit("a", 3, 8, 7.0))
    history.groups.reading_groups = set()
    assert [found[:2] for found in check_consumption(history)] == ["K1"]


def test_members_of_the_classic_protocol_in_a_consumer_group_have_no_generations_of_their_own():
    history = _history()
    groups = history.groups
    groups.joined = [Joined("g", 4, "c", True, 1.0, 1.1), Joined("g", 4, "d", True, 2.0, 2.1)]
    groups.synced = [Synced("g", 4, "c", frozenset([TP]), 1.2, 1.3), Synced("g", 4, "d", frozenset([TP]), 2.2, 2.3)]
    groups.left = [Left("g", "x", 3.0)]
    assert not check_groups(history)
    groups.consumer_groups = set()
    assert check_groups(history)


def test_an_offset_that_is_read_below_an_accepted_commit_is_found():
    history = _history()
    history.groups.reported = [ReportedState("g", TP, "a-9@6", 6, 6.2, 6.3)]
    (found,) = (each for each in check_consumption(history) if each.startswith("K2"))
    assert found == "K2 t-0 of g: b-1@7 at 6.100, and 6 was read at 6.300"
    history.groups.reported = [ReportedState("g", TP, None, -1, 6.2, 6.3)]
    assert [each[:2] for each in check_consumption(history)] == ["K2"]


def test_an_offset_may_be_read_while_a_commit_is_under_way_and_below_one_that_a_power_loss_took():
    history = _history()
    history.groups.reported = [ReportedState("g", TP, "a-2@5", 5, 6.05, 6.3)]
    assert not check_consumption(history)
    history.groups.reported = [ReportedState("g", TP, "a-2@5", 5, 9.0, 9.1)]
    history.restarts = [_power(7.0)]
    assert not check_consumption(history)
    history.groups.is_durable = True
    assert check_consumption(history)


# Leaving.


def test_a_member_that_leaves_over_a_broken_connection_is_gone_and_does_not_wait_for_an_answer():
    world = World(0, lambda _world: None)

    async def leaves() -> None:
        rules = ConsumerMemberRules("g", (POSTS_TOPIC,))
        member = ConsumerMember("m", LoneBroker("m", world.network, ADDRESS), world.history.groups, rules, 0)
        member.machine.request(0)
        member.machine.response(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=3_000), 0)
        world.process.spawn(_listening(world))
        await asyncio.sleep(0.01)
        member.connection = await Connection.open(world.network, ADDRESS, "m")
        member.connection.close()
        await member._leave()
        assert member.machine.state is State.LEAVING

    run(world.loop, leaves())
    assert not world.history.groups.left


async def _listening(world: World) -> None:
    world.network.listen(*ADDRESS, SocketOptions())
    await asyncio.sleep(1.0)


# Settling.


class _Reader:
    """What the check reads of a member."""

    def __init__(self, name: str, *numbers: int, epoch: int = 3) -> None:
        self.member_id = name
        self.generation_id = epoch
        self.assignment: frozenset[TopicPartition] | None = frozenset(
            TopicPartition(POSTS_TOPIC, number) for number in numbers
        )


def _posts(count: int) -> list[TopicPartition]:
    return [TopicPartition(POSTS_TOPIC, number) for number in range(count)]


def _described(state: str = "Stable", **shares: tuple[int, ...]) -> DescribedGroup:
    members = [
        Member(
            member_id=name,
            assignment=Assignment(topic_partitions=[TopicPartitions(topic_name=POSTS_TOPIC, partitions=[*numbers])]),
        )
        for name, numbers in shares.items()
    ]
    return DescribedGroup(group_id="g", group_state=state, group_epoch=3, members=members)


def test_a_consumer_group_has_settled_when_every_partition_is_owned_once_and_all_agree():
    readers = [_Reader("a", 0), _Reader("b", 1)]
    assert not list(consumer_group_problems(_described(a=(0,), b=(1,)), readers, _posts(2)))
    assert not list(consumer_group_problems(_described("Empty"), [], _posts(2)))


def test_the_reason_why_a_consumer_group_has_not_settled_is_reported():
    readers = [_Reader("a", 0), _Reader("b", 1)]
    for group, partitions, living in (
        (_described("Reconciling", a=(0,), b=(1,)), 2, readers),
        (_described(a=(0,), b=(1,)), 3, readers),
        (_described(a=(0,), b=(0,)), 2, readers),
        (_described(a=(0,), b=(1,)), 2, [_Reader("a", 0), _Reader("b")]),
        (_described(a=(0,), b=(1,)), 2, [_Reader("a", 0), _Reader("b", 1, epoch=2)]),
        (_described(a=(0,), b=(1,), c=()), 2, readers),
        (_described(a=(0,), b=(1,)), 2, []),
    ):
        assert list(consumer_group_problems(group, living, _posts(partitions)))
