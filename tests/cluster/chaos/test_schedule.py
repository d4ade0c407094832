"""What a seed's plan promises."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.cluster.chaos.schedule import AFTER_SECONDS, OFTEN, OUTAGES, Kind, plan, room


def test_ten_minutes_have_every_fault_as_often_as_they_should() -> None:
    slots = plan(7)
    assert Counter(slot.kind for slot in slots) == OFTEN
    assert len(slots) == 37
    assert slots[0].at == 40
    assert slots[-1].at + room(slots[-1].kind, is_whole=True) <= 600 - AFTER_SECONDS


@pytest.mark.parametrize("minutes", [2, 3, 10])
def test_the_next_fault_comes_when_its_predecessor_has_had_its_time(minutes: int) -> None:
    for seed in range(20):
        for one, following in pairwise(plan(seed, minutes)):
            assert following.at == one.at + room(one.kind, is_whole=minutes == 10)


def test_a_seed_means_the_same_plan_for_ever_and_another_seed_another() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


def test_no_fault_is_longer_than_its_slot_leaves_time_to_heal() -> None:
    others = [slot for seed in range(50) for slot in plan(seed) if slot.kind not in OUTAGES]
    assert all(2 <= slot.seconds <= 6 for slot in others)


def test_zookeeper_is_away_for_a_minute_in_a_whole_plan_with_all_brokers_up_and_with_a_kill() -> None:
    for seed in range(20):
        away = {slot.kind: slot.seconds for slot in plan(seed) if slot.kind in OUTAGES}
        assert away == dict.fromkeys(OUTAGES, 60)


def test_two_minutes_have_one_outage_of_twenty_seconds_and_three_minutes_both() -> None:
    for seed in range(20):
        (one,) = [slot for slot in plan(seed, 2) if slot.kind in OUTAGES]
        assert (one.kind, one.seconds) == (OUTAGES[seed % 2 == 0], 20)
        assert Counter(slot.kind for slot in plan(seed, 3) if slot.kind in OUTAGES) == dict.fromkeys(OUTAGES, 1)


def test_two_minutes_have_different_faults_and_some_seeds_have_them_all() -> None:
    few = [plan(seed, 2) for seed in range(60)]
    assert all(len({slot.kind for slot in slots}) == len(slots) == 5 for slots in few)
    assert {slot.kind for slots in few for slot in slots} == set(Kind)


def test_a_plan_that_is_too_short_for_an_outage_has_another_fault() -> None:
    assert all([slot.kind not in OUTAGES for slot in plan(seed, 1)] == [True] for seed in range(20))
    assert all(plan(seed, 0.75) == [] for seed in range(20))
