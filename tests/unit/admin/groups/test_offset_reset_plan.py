"""The plan of a reset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.groups.offset_reset_plan import (
    CannotReset,
    PartitionOffsets,
    ResetTarget,
    plan_reset,
    read_csv,
    shift_by,
    to_current,
    to_earliest,
    to_latest,
    to_offset,
    to_offsets,
    write_csv,
)
from sordini.protocol.types import TopicPartition

OFFSETS = st.integers(0, 2**40)


@st.composite
def offsets_now(draw: st.DrawFn) -> dict[TopicPartition, PartitionOffsets]:
    partitions = draw(st.sets(st.tuples(st.sampled_from(["a", "b,c", "d"]), st.integers(0, 9)), min_size=1, max_size=4))
    made = {}
    for topic, partition in partitions:
        earliest = draw(OFFSETS)
        latest = earliest + draw(OFFSETS)
        made[TopicPartition(topic, partition)] = PartitionOffsets(draw(OFFSETS), earliest, latest)
    return made


def within(standing: PartitionOffsets) -> PartitionOffsets:
    """The same log, with the group inside it."""
    assert standing.committed is not None
    return standing._replace(committed=min(max(standing.committed, standing.earliest), standing.latest))


TARGETS = st.one_of(
    st.sampled_from([to_earliest, to_latest, to_current]),
    OFFSETS.map(to_offset),
    st.integers(-(2**41), 2**41).map(shift_by),
)


@given(offsets_now(), TARGETS)
def test_a_planned_offset_is_in_the_log_or_at_its_end(
    now: dict[TopicPartition, PartitionOffsets], target: ResetTarget
) -> None:
    lines = plan_reset(now, target)
    assert [line.partition for line in lines] == sorted(now)
    for line in lines:
        standing = now[line.partition]
        assert standing.earliest <= line.new <= standing.latest
        assert line.lag_after == standing.latest - line.new >= 0
        assert line.current == standing.committed


@given(offsets_now(), TARGETS)
def test_only_what_lies_outside_the_log_is_clamped_and_to_the_nearer_end(
    now: dict[TopicPartition, PartitionOffsets], target: ResetTarget
) -> None:
    for line in plan_reset(now, target):
        standing = now[line.partition]
        assert line.wanted == target(line.partition, standing)
        assert line.is_clamped == (not standing.earliest <= line.wanted <= standing.latest)
        if line.wanted < standing.earliest:
            assert line.new == standing.earliest
        elif line.wanted > standing.latest:
            assert line.new == standing.latest
        else:
            assert line.new == line.wanted


@given(offsets_now())
def test_keeping_the_current_offsets_changes_nothing(now: dict[TopicPartition, PartitionOffsets]) -> None:
    inside = {partition: within(standing) for partition, standing in now.items()}
    assert all(line.new == line.current for line in plan_reset(inside, to_current))


@given(offsets_now(), st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20))
def test_two_shifts_are_one_unless_the_log_ends(
    now: dict[TopicPartition, PartitionOffsets], first: int, second: int
) -> None:
    before = plan_reset(now, shift_by(first))
    between = {line.partition: now[line.partition]._replace(committed=line.new) for line in before}
    for once, twice in zip(
        plan_reset(now, shift_by(first + second)), plan_reset(between, shift_by(second)), strict=True
    ):
        if not any(line.is_clamped for line in before):
            assert twice.new == once.new


@given(offsets_now(), OFFSETS)
def test_going_to_an_offset_twice_is_going_there_once(now: dict[TopicPartition, PartitionOffsets], offset: int) -> None:
    lines = plan_reset(now, to_offset(offset))
    after = {line.partition: now[line.partition]._replace(committed=line.new) for line in lines}
    assert [line.new for line in plan_reset(after, to_offset(offset))] == [line.new for line in lines]


@given(offsets_now(), TARGETS)
def test_a_plan_that_is_written_to_a_file_is_read_again(
    now: dict[TopicPartition, PartitionOffsets], target: ResetTarget
) -> None:
    plain = {partition: standing for partition, standing in now.items() if "," not in partition.topic}
    lines = plan_reset(plain, target)
    if lines:
        assert read_csv(write_csv(lines), "g") == {line.partition: line.new for line in lines}


def test_a_partition_without_an_offset_goes_to_the_end_as_its_current_one_and_cannot_be_shifted() -> None:
    now = {TopicPartition("a", 0): PartitionOffsets(None, 5, 9)}
    (line,) = plan_reset(now, to_current)
    assert (line.current, line.new) == (None, 9)
    with pytest.raises(CannotReset, match="a-0 cannot be shifted"):
        plan_reset(now, shift_by(1))


def test_a_shift_goes_forward_and_below_zero_back() -> None:
    now = {TopicPartition("a", 0): PartitionOffsets(10, 5, 20)}
    assert [plan_reset(now, shift_by(count))[0].new for count in (3, -2, 0)] == [13, 8, 10]


def test_a_partition_without_a_record_that_young_goes_to_the_end() -> None:
    now = {TopicPartition("a", 0): PartitionOffsets(6, 5, 9), TopicPartition("a", 1): PartitionOffsets(6, 5, 9)}
    lines = plan_reset(now, to_offsets({TopicPartition("a", 0): None, TopicPartition("a", 1): 7}))
    assert [line.new for line in lines] == [9, 7]


def test_a_file_of_several_groups_gives_this_group_s_lines() -> None:
    text = "# a comment\ng,a,0,5\nother,a,0,6\n\n g , b , 1 , 7\nc,2,8\n"
    assert read_csv(text, "g") == {TopicPartition("a", 0): 5, TopicPartition("b", 1): 7, TopicPartition("c", 2): 8}


@pytest.mark.parametrize("text", ["a,b,c", "a,0", "a,-1,5", ",0,5", "g,a,0,5,6", "a,0,5.5"])
def test_a_line_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(CannotReset, match="line 2 of the file"):
        read_csv(f"a,0,1\n{text}\n", "g")


def test_a_file_without_this_group_is_refused() -> None:
    with pytest.raises(CannotReset, match="names no partition of group 'g'"):
        read_csv("other,a,0,5\n", "g")
