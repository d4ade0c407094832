"""Plans that take all replicas off a broker: what has to hold of each, and a few that can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.cli.commands.reassign.broker_drain import balance_choices, drain_brokers
from sordini.cli.commands.reassign.reassignment_plan import ReassignmentPlan, Replicas
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.replica_placement import Racks
from tests.unit.cli.commands.reassign.test_reassignment_plan import a_plan

SQUARES_TRIED_MAX = 20_000
"""Ways to choose that are tried one by one."""


class Situation(NamedTuple):
    held: ReassignmentPlan
    leaving: frozenset[BrokerId]
    racks: Racks
    targets: Sequence[BrokerId]

    def drain_brokers(self) -> ReassignmentPlan:
        return drain_brokers(self.held, self.held.keys(), self.leaving, self.racks, self.targets)


def ids(*numbers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


@st.composite
def situations(draw: st.DrawFn, *, partitions_max: int = 12, leaving_max: int = 2) -> Situation:
    """A cluster of up to seven brokers, with or without racks, in which some leave and there is room for all."""
    factor = draw(st.integers(1, 3))
    leaving = frozenset(ids(*range(1, draw(st.integers(1, leaving_max)) + 1)))
    staying = ids(*range(len(leaving) + 1, len(leaving) + 1 + draw(st.integers(factor, 5))))
    gone = ids(9) if draw(st.booleans()) else []  # It does not run, and keeps what it has.
    names = draw(st.none() | st.lists(st.sampled_from("abc"), min_size=len(staying), max_size=len(staying)))
    racks = dict(zip(staying, names or [None] * len(staying), strict=True))
    some = st.lists(st.sampled_from([*leaving, *staying, *gone]), min_size=1, max_size=factor, unique=True)
    rows = draw(st.lists(some, min_size=1, max_size=partitions_max))
    return Situation(a_plan(orders=[tuple(row) for row in rows]), leaving, racks, staying)


def spread(replicas: Iterable[BrokerId], racks: Mapping[BrokerId, str | None]) -> int:
    """In how many racks the replicas are, as far as racks are known."""
    return len({racks[broker] for broker in replicas if racks.get(broker) is not None})


def squares(loads: Mapping[BrokerId, int], chosen: Iterable[BrokerId]) -> int:
    return sum(load**2 for load in (Counter(loads) + Counter(chosen)).values())


def remaining(situation: Situation, replicas: Replicas) -> list[BrokerId]:
    return [broker for broker in replicas if broker not in situation.leaving]


@settings(max_examples=40)
@given(situations())
def test_no_replica_is_left_on_a_broker_that_is_drained_and_as_few_as_can_be_are_moved(situation: Situation) -> None:
    plan = situation.drain_brokers()
    assert plan.keys() == {one for one, row in situation.held.items() if not situation.leaving.isdisjoint(row)}
    for one, target in plan.items():
        held = situation.held[one]
        assert situation.leaving.isdisjoint(target)
        assert len(target) == len(set(target)) == len(held)
        assert set(remaining(situation, held)) <= set(target)
        assert set(target) - set(held) <= set(situation.targets)


@settings(max_examples=40)
@given(situations())
def test_replicas_that_stay_keep_their_places_where_the_preferred_leader_stays(situation: Situation) -> None:
    for one, target in situation.drain_brokers().items():
        held = situation.held[one]
        if held[0] not in situation.leaving:
            assert [new for new, old in zip(target, held, strict=True) if old not in situation.leaving] == remaining(
                situation, held
            )
            assert target[0] == held[0]
        else:
            assert target[0] in situation.racks, "a broker that runs is to lead"
            others = [broker for broker in remaining(situation, held) if broker != target[0]]
            assert [broker for broker in target[1:] if broker in others] == others


@settings(max_examples=40)
@given(situations())
def test_a_partition_is_in_as_many_racks_as_before_where_a_broker_allows_it(situation: Situation) -> None:
    racks = situation.racks
    for one, target in situation.drain_brokers().items():
        stay = remaining(situation, situation.held[one])
        free = {racks[broker] for broker in situation.targets} - {racks.get(broker) for broker in stay} - {None}
        newcomers = len(target) - len(stay)
        assert spread(target, racks) == spread(stay, racks) + min(len(free), newcomers)


@settings(max_examples=40)
@given(situations(partitions_max=6, leaving_max=1))
def test_loads_are_as_level_as_any_choice_within_the_rule_of_racks_makes_them(situation: Situation) -> None:
    plan = situation.drain_brokers()
    (leaving,) = situation.leaving
    kept = Counter(broker for row in situation.held.values() for broker in row if broker != leaving)
    options = []
    for one in plan:
        stay = remaining(situation, situation.held[one])
        used = Counter(situation.racks[broker] for broker in stay if situation.racks.get(broker) is not None)
        free = [broker for broker in situation.targets if broker not in stay]
        fewest = min(used[situation.racks[broker]] for broker in free)
        options.append([broker for broker in free if used[situation.racks[broker]] == fewest])
    chosen = [broker for one, row in plan.items() for broker in row if broker not in situation.held[one]]
    assert squares(kept, chosen) == least(kept, options)


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(ids(1, 2, 3, 4)), st.integers(0, 4)),
    st.lists(st.lists(st.sampled_from(ids(1, 2, 3, 4)), min_size=1, unique=True), max_size=6),
)
def test_no_choice_is_more_level_than_the_one_that_is_made(
    load: dict[BrokerId, int], rows: list[list[BrokerId]]
) -> None:
    options = {TopicPartition("orders", number): row for number, row in enumerate(rows)}
    chosen = balance_choices(options, load)
    assert all(chosen[one] in row for one, row in options.items())
    assert squares(load, chosen.values()) == least(load, rows)


def least(load: Mapping[BrokerId, int], options: Sequence[Sequence[BrokerId]]) -> int:
    ways = list(product(*options))
    assert len(ways) <= SQUARES_TRIED_MAX
    return min(squares(load, way) for way in ways)


def test_a_choice_is_undone_where_that_lets_a_later_one_be_level() -> None:
    options = {TopicPartition("orders", number): row for number, row in enumerate([ids(1, 2), ids(1, 3)])}
    assert list(balance_choices(options, {BrokerId(3): 5}).values()) == [2, 1]
    chained = {TopicPartition("orders", number): row for number, row in enumerate([ids(2, 3), ids(1, 2), ids(1, 4)])}
    assert list(balance_choices(chained, {BrokerId(4): 5}).values()) == [3, 2, 1]


def test_the_newcomer_stands_where_the_one_that_leaves_stood() -> None:
    held = a_plan(orders=[(1, 2), (2, 1), (3, 2)])
    plan = drain_brokers(held, held.keys(), ids(2), dict.fromkeys(ids(1, 3, 4)), ids(4))
    assert plan == a_plan(orders=[(1, 4), (4, 1), (3, 4)])


def test_single_replicas_are_dealt_out_evenly_and_so_are_leaderships() -> None:
    held = a_plan(orders=[(1,)] * 9, bills=[(2, 3)] * 2)
    plan = drain_brokers(held, held.keys(), ids(1), dict.fromkeys(ids(2, 3, 4)), ids(2, 3, 4))
    loads = Counter(broker for row in plan.values() for broker in row)
    assert loads == {2: 2, 3: 2, 4: 5} or loads == {2: 2, 3: 3, 4: 4}
    total = loads + Counter({BrokerId(2): 2, BrokerId(3): 2})
    assert max(total.values()) - min(total.values()) <= 1


def test_two_replicas_of_one_partition_that_leave_count_where_they_have_gone() -> None:
    held = a_plan(orders=[(1, 2), (1,)])
    plan = drain_brokers(held, held.keys(), ids(1, 2), dict.fromkeys(ids(3, 4, 5)), ids(3, 4, 5))
    assert Counter(broker for row in plan.values() for broker in row) == {3: 1, 4: 1, 5: 1}


def test_leaderships_go_to_those_who_lead_the_least_and_not_all_to_newcomers() -> None:
    held = a_plan(orders=[(1, 2), (1, 3), (1, 2), (1, 3)])
    plan = drain_brokers(held, held.keys(), ids(1), dict.fromkeys(ids(2, 3, 4)), ids(2, 3, 4))
    assert Counter(len(set(row)) for row in plan.values()) == {2: 4}
    leads = Counter(row[0] for row in plan.values())
    assert max(leads.values()) - min(leads.values()) <= 1
    assert leads.keys() == {2, 3, 4}


def test_a_broker_that_does_not_run_is_not_made_the_preferred_leader() -> None:
    held = a_plan(orders=[(1, 9)], bills=[(2,), (2,)])
    plan = drain_brokers(held, held.keys(), ids(1), dict.fromkeys(ids(2)), ids(2))
    assert plan == a_plan(orders=[(2, 9)])


def test_a_replacement_is_in_the_rack_that_would_be_left_without_a_copy() -> None:
    racks: Racks = dict(zip(ids(2, 3, 4), ["a", "b", "b"], strict=True))
    held = a_plan(orders=[(1, 3), (1, 4)], bills=[(2,)] * 5)  # 2 has the most already, and the only rack that is free.
    plan = drain_brokers(held, held.keys(), ids(1), racks, ids(2, 3, 4))
    assert {one: set(row) for one, row in plan.items()} == {
        TopicPartition("orders", 0): {2, 3},
        TopicPartition("orders", 1): {2, 4},
    }


def test_topics_that_are_not_named_stay_and_count_all_the_same() -> None:
    held = a_plan(orders=[(1,), (1,)], bills=[(1,), (2,), (2,)])
    wanted = [one for one in held if one.topic == "orders"]
    plan = drain_brokers(held, wanted, ids(1), dict.fromkeys(ids(2, 3)), ids(2, 3))
    assert plan == a_plan(orders=[(3,), (3,)])


def test_too_few_brokers_are_a_reason_for_each_number_that_is_needed() -> None:
    topics = {f"wide-{number}": [(1, 2, 3)] for number in range(7)}
    held = a_plan(**topics, lone=[(1,)], narrow=[(1, 2)])
    with pytest.raises(ValueError, match="not enough") as refused:
        drain_brokers(held, held.keys(), ids(1), dict.fromkeys(ids(2, 3)), ids(2, 3))
    (reason,) = refused.value.args
    named = "wide-0, wide-1, wide-2, wide-3, wide-4 and 2 more topics"
    assert reason == f"not enough brokers remain for {named}: 3 needed, 2 remaining (2, 3)"
    with pytest.raises(ValueError, match="not enough") as refused:
        drain_brokers(held, held.keys(), ids(1, 2, 3), {}, [])
    assert [reason.rpartition(": ")[2] for reason in refused.value.args] == [
        "1 needed, 0 remaining (none)",
        "2 needed, 0 remaining (none)",
        "3 needed, 0 remaining (none)",
    ]
