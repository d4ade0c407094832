"""The rule of the documents: who consumes which partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from examples.heritage.assignment import Member, assign
from sordini.protocol.types import TopicPartition


def of_orders(owners: dict[TopicPartition, str]) -> dict[int, str]:
    return {partition.partition: thread for partition, thread in owners.items() if partition.topic == "orders"}


def test_the_unit_is_the_stream_and_neighbours_go_to_one() -> None:
    members = [Member("g_b", {"orders": 1}), Member("g_a", {"orders": 2})]
    owners = of_orders(assign(members, {"orders": range(6)}))
    assert owners == {0: "g_a-0", 1: "g_a-0", 2: "g_a-1", 3: "g_a-1", 4: "g_b-0", 5: "g_b-0"}


def test_the_remainder_goes_to_the_first_one_each() -> None:
    members = [Member("g_a", {"orders": 1}), Member("g_b", {"orders": 1}), Member("g_c", {"orders": 1})]
    owners = of_orders(assign(members, {"orders": range(5)}))
    assert owners == {0: "g_a-0", 1: "g_a-0", 2: "g_b-0", 3: "g_b-0", 4: "g_c-0"}


def test_more_streams_than_partitions_leave_some_without() -> None:
    owners = assign([Member("g_a", {"orders": 3})], {"orders": range(2)})
    assert of_orders(owners) == {0: "g_a-0", 1: "g_a-1"}


def test_a_topic_that_no_one_consumes_has_no_owners() -> None:
    assert assign([Member("g_a", {"sales": 1})], {"orders": range(2)}) == {}


def test_threads_are_sorted_as_text_as_java_sorts_them() -> None:
    owners = assign([Member("g_a", {"orders": 11})], {"orders": range(11)})
    assert [of_orders(owners)[number] for number in (1, 2, 3)] == ["g_a-1", "g_a-10", "g_a-2"]


def test_the_given_order_of_partitions_is_the_one_that_is_cut() -> None:
    owners = assign([Member("g_a", {"orders": 1}), Member("g_b", {"orders": 1})], {"orders": [0, 2, 1, 3]})
    assert of_orders(owners) == {0: "g_a-0", 2: "g_a-0", 1: "g_b-0", 3: "g_b-0"}


MEMBERS = some.dictionaries(some.text("abc", min_size=1, max_size=3), some.integers(1, 4), min_size=1, max_size=5)


@given(MEMBERS, some.integers(0, 30))
def test_every_partition_has_one_owner_and_shares_differ_by_one_at_most(streams: dict[str, int], count: int) -> None:
    members = [Member(name, {"orders": number}) for name, number in streams.items()]
    owners = of_orders(assign(members, {"orders": range(count)}))
    assert sorted(owners) == list(range(count))
    threads = sorted(f"{name}-{number}" for name, total in streams.items() for number in range(total))
    shares = [list(owners.values()).count(thread) for thread in threads]
    assert max(shares) - min(shares) <= 1
    assert [owners[number] for number in range(count)] == [
        thread for thread, share in zip(threads, shares, strict=True) for _ in range(share)
    ]
