"""Consumer groups of the simulated cluster: which there are, and what is judged of a coordinator that was superseded."""

from __future__ import annotations

from sordini.protocol.types import BrokerId, TopicPartition
from tests.sim.cluster.groups import MIXED_GROUP, PACE, check_cluster_groups, group_rules
from tests.sim.cluster.leaderships import Coordinators, Leaderships
from tests.sim.cluster.plan import cluster_scenario
from tests.sim.consumption import check_offsets
from tests.sim.group_client import ConsumerMemberRules, MemberRules
from tests.sim.group_history import Commit, ReportedState, Tenure
from tests.sim.history import History
from tests.sim.static_members import Holder, Outlived
from tests.sim.transactions.history import OFFSETS

TP = TopicPartition("t", 0)
OLD, NEW = ("node1", 9092), ("node2", 9092)


def _coordinators() -> Coordinators:
    """The old one is superseded from 10 on, and learns of it at 12."""
    leaderships = Leaderships()
    leaderships.elected(0.0, 0, BrokerId(1))
    leaderships.learned(0.1, BrokerId(1), 0, is_leader=True)
    leaderships.elected(10.0, 1, BrokerId(2))
    leaderships.learned(10.1, BrokerId(2), 1, is_leader=True)
    leaderships.learned(12.0, BrokerId(1), 1, is_leader=False)
    return Coordinators({OFFSETS: leaderships}, {OLD: BrokerId(1), NEW: BrokerId(2)})


def _history(*reads: ReportedState) -> History:
    history = History()
    groups = history.groups
    groups.consumer_groups = groups.reading_groups = {"g"}
    groups.tenures = [Tenure("g", TP, "a", 1, 1.0), Tenure("g", TP, "b", 2, 10.5)]
    groups.consumed = {("g", TP): set(range(20))}
    groups.commits = [Commit("g", TP, "a-1@9", 9.0, 9.1, "ok", "a", 1)]
    groups.reported = list(reads)
    return history


def _read(offset: int, at: float, coordinator: tuple[str, int], **changes: object) -> ReportedState:
    return ReportedState("g", TP, "n", offset, at, at + 0.1, "b", coordinator)._replace(**changes)


def test_an_older_offset_may_be_read_of_a_coordinator_only_while_it_is_superseded():
    assert not check_cluster_groups(_history(_read(5, 11.0, OLD), _read(9, 11.0, NEW)), _coordinators())
    (found,) = check_cluster_groups(_history(_read(5, 11.0, NEW)), _coordinators())
    assert found.startswith("K2 t-0 of g: a-1@9 at 9.100, and 5 was read at 11.100")
    assert check_cluster_groups(_history(_read(5, 9.5, OLD)), _coordinators())


def test_a_member_goes_on_from_an_older_offset_only_if_its_epoch_was_not_checked():
    commit = Commit("g", TP, "b-1@6", 11.5, 11.6, "ok", "b", 2)
    for is_checked in (False, True):
        history = _history(_read(5, 11.0, OLD, is_checked=is_checked))
        history.groups.commits.append(commit)
        assert bool(check_cluster_groups(history, _coordinators())) == is_checked


def test_a_static_member_may_be_served_beside_its_successor_only_by_a_superseded_coordinator():
    for at, is_found in ((11.0, False), (5.0, True), (18.0, True)):
        history = _history()
        history.groups.session_s = PACE.session_s
        history.groups.static.outlived = [Outlived("g", "a", at, Holder("b", at - 1.0))]
        found = check_cluster_groups(history, _coordinators())
        assert bool(found) == is_found, at


def test_answers_that_no_member_expects_are_found():
    history = _history()
    history.groups.strange = ["g1's OffsetCommit was answered with INVALID_REQUEST"]
    assert check_cluster_groups(history, _coordinators()) == [f"G6 {history.groups.strange[0]}"]
    assert not check_offsets(history)


def test_seeds_have_groups_of_each_kind_with_dynamic_and_static_members():
    plans = [cluster_scenario(seed) for seed in range(64)]
    with_groups = [plan for plan in plans if plan.has_groups]
    assert len(with_groups) == 32
    assert {plan.faults for plan in with_groups} == {plan.faults for plan in plans}
    assert {plan.has_transactions for plan in with_groups} == {False, True}
    assert any(plan.is_secured for plan in with_groups)
    rules = [
        each
        for plan in with_groups
        for each in group_rules(plan.seed, ("t",), has_topic_ids=plan.versions.uses_topic_ids)
    ]
    kinds = {(type(each), each.group_id == MIXED_GROUP, each.instance_id is not None) for each in rules}
    assert kinds >= {
        (kind, is_mixed, is_static)
        for kind in (MemberRules, ConsumerMemberRules)
        for is_mixed in (False, True)
        for is_static in (False, True)
        if kind is ConsumerMemberRules or not (is_mixed and is_static)
    }


def test_topics_without_ids_have_groups_of_the_classic_protocol_alone():
    assert {type(each) for each in group_rules(1, ("t",), has_topic_ids=False)} == {MemberRules}
