"""The impact of a stop, from the cluster's state of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.cli.commands.broker.stop_impact import PartitionReplicas, assess_stop, stop_impact_lines
from sordini.protocol.types import TopicPartition
from tests.support.parts import examples

BROKERS = (1, 2, 3)


def one(
    number: int, replicas: Sequence[int], in_sync: Sequence[int], in_sync_min: int = 1, *, is_unclean: bool = False
) -> PartitionReplicas:
    """A partition that the first in sync leads."""
    leader = in_sync[0] if in_sync else -1
    return PartitionReplicas(TopicPartition("orders", number), leader, replicas, in_sync, in_sync_min, is_unclean)


def reported(*partitions: PartitionReplicas, hands_over: bool = True) -> list[str]:
    return stop_impact_lines(assess_stop(2, partitions, BROKERS), hands_over=hands_over)


def test_a_broker_without_replicas_says_so() -> None:
    assert reported(one(0, [1, 3], [1, 3])) == ["broker 2 holds no replica"]


def test_a_stop_that_affects_no_partition_says_how_many_get_another_leader() -> None:
    rows = one(0, [2, 1, 3], [2, 1, 3], 2), one(1, [1, 2, 3], [1, 2, 3], 2)
    assert reported(*rows) == [
        "broker 2 holds 2 replicas and leads 1 of them; other brokers lead 1 of these before it stops"
    ]
    assert reported(*rows, hands_over=False)[0].endswith("lead 1 of these after it has stopped")
    assert not assess_stop(2, rows, BROKERS).affects_partitions


def test_partitions_are_named_that_have_no_leader_or_refuse_writes_until_it_is_back() -> None:
    assert reported(
        one(0, [2], [2]),
        one(1, [2, 1], [2]),
        one(2, [1, 2, 3], [1, 2], 2),
        one(3, [2, 1], [2, 1], 1, is_unclean=True),
    ) == [
        "broker 2 holds 4 replicas and leads 3 of them; other brokers lead 1 of these before it stops",
        "2 partitions have no other in-sync replica, and no leader until it is back: orders-0, orders-1",
        "1 partition has fewer in-sync replicas than min.insync.replicas without it: acks=all is refused: orders-2",
    ]


def test_many_partitions_are_named_in_part() -> None:
    (_, line) = reported(*(one(number, [2], [2]) for number in reversed(range(8))))
    assert line.endswith(": orders-0, orders-1, orders-2, orders-3, orders-4 and 3 more")


def test_an_unclean_election_loses_records_only_where_a_running_broker_has_a_replica() -> None:
    assert "records are lost: orders-0" in reported(one(0, [2, 1], [2], is_unclean=True))[1]
    assert "no leader" in reported(one(0, [2, 7], [2], is_unclean=True))[1]


def test_a_replica_on_a_broker_that_is_not_running_counts_as_missing() -> None:
    assert "no leader" in reported(one(0, [2, 7], [2, 7]))[1]
    assert "acks=all is refused" in reported(one(0, [2, 7, 1], [2, 7, 1], 2))[1]


COPIES = st.builds(
    lambda replicas, chosen, in_sync_min, is_unclean: one(
        0, replicas, [broker for broker in replicas if broker in chosen], in_sync_min, is_unclean=is_unclean
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True),
    st.sets(st.integers(1, 5)),
    st.integers(1, 3),
    st.booleans(),
)


@settings(max_examples=examples(60))
@given(COPIES)
def test_a_stop_affects_a_partition_exactly_if_the_remaining_replicas_cannot_do_what_all_did(
    copies: PartitionReplicas,
) -> None:
    def does(in_sync: set[int]) -> tuple[bool, bool]:
        return bool(in_sync), len(in_sync) >= copies.in_sync_min

    now = {broker for broker in copies.in_sync if broker in BROKERS}
    assert assess_stop(2, [copies], BROKERS).affects_partitions is (does(now) != does(now - {2}))
