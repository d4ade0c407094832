"""Placement of replicas: the rule without and with racks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.topics import place_replicas
from sordini.replication.replica_placement import (
    broker_order,
    brokers_without_rack,
    place_from,
    start_of,
    without_racks,
)

BROKERS = [BrokerId(b) for b in (0, 1, 2)]
EVEN = {BrokerId(broker): rack for broker, rack in enumerate("aabbcc")}

starts = st.integers(0, 99)
racked = st.dictionaries(st.integers(0, 99).map(BrokerId), st.sampled_from("abcd"), min_size=1, max_size=9)


def test_the_documents_table_of_three_brokers_comes_out() -> None:
    # Partition i on broker i mod n, its j-th replica on (i + j) mod n (document 000's table; s = 0).
    assert place_from(0, without_racks(BROKERS), range(3), 2) == {0: (0, 1), 1: (1, 2), 2: (2, 0)}


def test_the_topics_name_determines_the_start_of_the_order() -> None:
    leads = [place_replicas(f"topic-{number}", without_racks(BROKERS), range(1), 1)[0][0] for number in range(12)]
    assert set(leads) == set(BROKERS), "small topics lie on all brokers"
    assert leads[:6] == [1, 2, 1, 0, 1, 1], "and on the same ones for ever, on every broker and in every version"


@given(st.text(min_size=1), st.sets(st.integers(0, 99), min_size=1, max_size=9), st.integers(1, 30), st.data())
def test_replicas_are_on_different_brokers_evenly_and_always_alike(
    name: str, brokers: set[int], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place_replicas(name, without_racks([BrokerId(b) for b in brokers]), range(partitions), factor)
    backwards = without_racks(sorted((BrokerId(b) for b in brokers), reverse=True))
    assert placed == place_replicas(name, backwards, range(partitions), factor)
    assert all(len(set(held)) == factor for held in placed.values())
    leads = [sum(held[0] == broker for held in placed.values()) for broker in brokers]
    assert max(leads) - min(leads) <= 1


def test_added_partitions_continue_where_the_topic_ended() -> None:
    for racks in (without_racks(BROKERS), EVEN):
        whole = place_from(7, racks, range(25), 2)
        assert {**place_from(7, racks, range(13), 2), **place_from(7, racks, range(13, 25), 2)} == whole


def test_the_order_alternates_between_the_racks() -> None:
    assert broker_order(EVEN) == [0, 2, 4, 1, 3, 5]
    assert broker_order({BrokerId(0): "z", BrokerId(1): "a", BrokerId(2): "z", BrokerId(3): "z"}) == [1, 0, 2, 3]


def test_with_racks_of_one_size_the_rule_holds_along_the_order() -> None:
    first_round = {partition: place_from(0, EVEN, range(6), 3)[partition] for partition in range(6)}
    assert first_round == {
        0: (0, 2, 4),
        1: (2, 4, 1),
        2: (4, 1, 3),
        3: (1, 3, 5),
        4: (3, 5, 0),
        5: (5, 0, 2),
    }
    assert place_from(0, EVEN, range(6, 7), 3) == {6: (0, 4, 3)}, "in the next round others follow"


@given(starts, racked, st.integers(1, 40), st.data())
def test_a_partition_is_in_as_many_racks_as_possible_evenly(
    start: int, racks: dict[BrokerId, str], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    sizes = Counter(racks.values())
    for held in place_from(start, racks, range(partitions), factor).values():
        assert len(set(held)) == factor
        used = Counter(racks[broker] for broker in held)
        assert len(used) == min(factor, len(sizes))
        most = max(used.values())
        assert all(used[rack] >= most - 1 or used[rack] == size for rack, size in sizes.items())


@given(starts, st.integers(1, 4), st.integers(1, 3), st.data())
def test_with_racks_of_one_size_leaders_and_replicas_are_spread_evenly(
    start: int, rack_count: int, rack_size: int, data: st.DataObject
) -> None:
    racks = {BrokerId(broker): str(broker // rack_size) for broker in range(rack_count * rack_size)}
    rounds, factor = data.draw(st.integers(1, 4)), data.draw(st.integers(1, len(racks)))
    placed = place_from(start, racks, range(rounds * len(racks)), factor)
    assert set(Counter(held[0] for held in placed.values()).values()) == {rounds}
    assert set(Counter(broker for held in placed.values() for broker in held).values()) == {rounds * factor}


def test_the_load_of_a_failed_broker_is_spread_over_several_others() -> None:
    seconds = {held[1] for held in place_from(0, EVEN, range(60), 2).values() if held[0] == 0}
    assert seconds == {2, 3, 4, 5}, "all brokers of other racks"


@given(starts, st.one_of(racked, st.sets(st.integers(0, 99).map(BrokerId), min_size=1).map(without_racks)))
def test_the_start_of_the_order_follows_from_the_first_leader(start: int, racks: dict[BrokerId, str | None]) -> None:
    ((leader,),) = place_from(start, racks, range(1), 1).values()
    assert place_from(start_of(leader, racks), racks, range(30), 1) == place_from(start, racks, range(30), 1)


def test_an_order_whose_first_leader_is_gone_starts_with_the_next_broker() -> None:
    assert start_of(BrokerId(1), without_racks([BrokerId(0), BrokerId(2)])) == 1
    assert start_of(BrokerId(9), without_racks(BROKERS)) == 0
    assert start_of(BrokerId(9), {BrokerId(0): "b", BrokerId(1): "a"}) == 1, "broker 0 is the second in the order"


def test_brokers_without_a_rack_are_reported_only_where_others_have_one() -> None:
    assert brokers_without_rack(without_racks(BROKERS)) == brokers_without_rack({}) == brokers_without_rack(EVEN) == []
    assert brokers_without_rack({BrokerId(0): "a", BrokerId(2): None, BrokerId(1): None}) == [1, 2]
