"""What a seed's plan promises."""

from __future__ import annotations

from collections import Counter

from tests.cluster.chaos.schedule import OFTEN, SLOT_SECONDS, Kind, plan


def test_ten_minutes_have_every_fault_as_often_as_they_should() -> None:
    slots = plan(7)
    assert Counter(slot.kind for slot in slots) == OFTEN
    assert len(slots) == 48
    assert slots[0].at == 40
    assert slots[-1].at + SLOT_SECONDS <= 600 - 30


def test_a_seed_means_the_same_plan_for_ever_and_another_seed_another() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)


def test_no_fault_is_longer_than_its_slot_leaves_time_to_heal() -> None:
    assert all(2 <= slot.seconds <= 6 for seed in range(50) for slot in plan(seed))


def test_two_minutes_have_different_faults_and_a_few_seeds_have_them_all() -> None:
    few = [plan(seed, 2) for seed in range(20)]
    assert all(len({slot.kind for slot in slots}) == len(slots) == 6 for slots in few)
    assert {slot.kind for slots in few for slot in slots} == set(Kind)
