"""Which open transactions hang."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.transactions.hanging import (
    CoordinatedTransaction,
    OpenTransaction,
    hanging,
    marker_epoch,
)
from sordini.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
partitions = st.builds(TopicPartition, st.sampled_from(["orders", "bills"]), st.integers(0, 1))
producer_ids = st.integers(1, 3)


def an_open(
    partition: TopicPartition = ORDERS, producer_id: int = 7, coordinator_epoch: int = 4, last_ms: int = 0
) -> OpenTransaction:
    return OpenTransaction(partition, producer_id, 0, coordinator_epoch, 10, last_ms)


def test_a_transaction_that_its_coordinator_will_end_does_not_hang() -> None:
    assert hanging([an_open()], {"t": CoordinatedTransaction(7, frozenset({ORDERS}))}) == []


def test_a_transaction_without_a_transactional_id_hangs() -> None:
    assert hanging([an_open()], {}) == [an_open()]


def test_a_transaction_whose_coordinator_has_other_partitions_hangs() -> None:
    others = frozenset({TopicPartition("orders", 1)})
    assert hanging([an_open()], {"t": CoordinatedTransaction(7, others)}) == [an_open()]


def test_a_transaction_of_another_producer_in_the_same_partition_is_no_end_of_it() -> None:
    """The producer was fenced, and its transactional id has a new producer id."""
    assert hanging([an_open()], {"t": CoordinatedTransaction(8, frozenset({ORDERS}))}) == [an_open()]


@given(
    st.lists(st.builds(an_open, partitions, producer_ids), unique=True, max_size=6),
    st.dictionaries(
        st.sampled_from("tuv"), st.builds(CoordinatedTransaction, producer_ids, st.frozensets(partitions)), max_size=3
    ),
)
def test_hanging_are_exactly_those_that_no_coordinator_has(
    candidates: list[OpenTransaction], coordinated: dict[str, CoordinatedTransaction]
) -> None:
    found = hanging(candidates, coordinated)
    for one in candidates:
        is_coordinated = any(
            one.producer_id == known.producer_id and one.partition in known.partitions for known in coordinated.values()
        )
        assert (one in found) != is_coordinated


def test_a_transaction_is_older_only_after_the_whole_age() -> None:
    assert not an_open(last_ms=1_000).is_older_than(500, 1_500)
    assert an_open(last_ms=1_000).is_older_than(500, 1_501)


def test_a_marker_has_the_coordinator_epoch_of_the_last_one_or_the_first() -> None:
    assert marker_epoch(an_open(coordinator_epoch=4)) == 4
    assert marker_epoch(an_open(coordinator_epoch=-1)) == 0
