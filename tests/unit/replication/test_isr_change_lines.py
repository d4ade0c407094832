"""Which log lines changes of in-sync sets get, by how many there are within an interval."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.isr_change_lines import INTERVAL_MS, LINES_MAX, NAMED_MAX, IsrChange, IsrChangeLines, Line

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def change(index: int, former: tuple[BrokerId, ...], now: tuple[BrokerId, ...]) -> IsrChange:
    return IsrChange(TopicPartition("orders", index), former, now, partition_epoch=index + 5, leader_epoch=7)


def taken(*changes: IsrChange) -> list[Line]:
    lines = IsrChangeLines()
    for one in changes:
        lines.add(one, 0)
    return lines.take()


def test_each_of_few_changes_has_its_own_line() -> None:
    assert taken(change(0, (ONE, TWO), (ONE,)), change(1, (ONE,), (ONE, THREE, TWO))) == [
        ("ISR shrunk", {"partition": "orders-0", "isr": [1], "left": [2], "partition_epoch": 5, "leader_epoch": 7}),
        (
            "ISR expanded",
            {"partition": "orders-1", "isr": [1, 3, 2], "joined": [3, 2], "partition_epoch": 6, "leader_epoch": 7},
        ),
    ]


def test_a_change_in_which_replicas_join_and_leave_says_both() -> None:
    ((event, fields),) = taken(change(0, (ONE, TWO), (ONE, THREE)))
    assert (event, fields["joined"], fields["left"]) == ("ISR expanded", [3], [2])


def test_the_last_number_with_lines_of_their_own_and_the_first_that_is_counted() -> None:
    many = [change(index, (ONE, TWO), (ONE,)) for index in range(LINES_MAX + 1)]
    assert [line.fields["partition"] for line in taken(*many[:-1])] == [f"orders-{n}" for n in range(LINES_MAX)]
    assert taken(*many) == [
        ("ISR shrunk", {"partitions": LINES_MAX + 1, "left": [2], "first": ["orders-0", "orders-1", "orders-2"]})
    ]


def test_each_interval_has_its_own_number_of_lines() -> None:
    lines = IsrChangeLines()
    for _ in range(2):
        for index in range(LINES_MAX):
            lines.add(change(index, (ONE, TWO), (ONE,)), 0)
        assert len(lines.take()) == LINES_MAX


def test_many_changes_are_counted_for_each_event_and_follower() -> None:
    both = [change(index, (ONE, TWO, THREE), (ONE,)) for index in range(3_000)]
    joins = [change(9_000, (ONE,), (ONE, TWO))]
    assert taken(*both, *joins, change(9_001, (ONE, THREE), (ONE,))) == [
        ("ISR shrunk", {"partitions": 3_000, "left": [2], "first": ["orders-0", "orders-1", "orders-2"]}),
        ("ISR shrunk", {"partitions": 3_001, "left": [3], "first": ["orders-0", "orders-1", "orders-2"]}),
        ("ISR expanded", {"partitions": 1, "joined": [2], "first": ["orders-9000"]}),
    ]


def test_another_order_of_the_same_replicas_is_no_change() -> None:
    lines = IsrChangeLines()
    lines.add(change(0, (ONE, TWO), (TWO, ONE)), 0)
    assert lines.due_ms is None
    assert lines.take() == []


def test_the_interval_begins_with_its_first_change_and_later_ones_do_not_extend_it() -> None:
    lines = IsrChangeLines()
    for now_ms in (500, 600, 1_400):
        lines.add(change(0, (ONE, TWO), (ONE,)), now_ms)
    assert lines.due_ms == 500 + INTERVAL_MS
    assert len(lines.take()) == 3
    assert lines.due_ms is None
    lines.add(change(1, (ONE, TWO), (ONE,)), 2_000)
    assert lines.due_ms == 2_000 + INTERVAL_MS
    assert len(lines.take()) == 1, "what was written is not written again, and counts no more"


sets = st.sets(st.sampled_from([TWO, THREE, BrokerId(4)])).map(lambda others: (ONE, *sorted(others)))


@given(st.lists(st.tuples(sets, sets), max_size=3 * LINES_MAX))
def test_lines_are_bounded_and_count_every_replica_that_joined_or_left(pairs: list) -> None:
    changes = [change(index, former, now) for index, (former, now) in enumerate(pairs)]
    lines = taken(*changes)
    assert len(lines) <= max(LINES_MAX, 2 * 3)
    counted = 0
    for _, fields in lines:
        members = [*fields.get("joined", ()), *fields.get("left", ())]  # type: ignore[call-overload]
        counted += len(members) * fields.get("partitions", 1)  # type: ignore[operator]
        assert len(fields.get("first", ())) <= NAMED_MAX  # type: ignore[arg-type]
    assert counted == sum(len(set(one.former) ^ set(one.now)) for one in changes)
