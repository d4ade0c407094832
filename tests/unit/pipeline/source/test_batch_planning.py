from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.source.batch_planning import DataLost, Range, advance, count, missing, ranges, split
from sordini.pipeline.source.positions import Offsets, Position

SIZES = st.lists(st.integers(0, 1000), max_size=8)


def at(offsets: Offsets, topic_id: str = "", started_at: Offsets | None = None) -> Position:
    return Position(offsets, dict.fromkeys(offsets, topic_id) if topic_id else {}, started_at)


def positions_of(sizes: list[int], first: int = 100) -> tuple[Position, Position]:
    """From `first` on in each partition of one topic, as far as the sizes say."""
    begin = {"a": dict.fromkeys(range(len(sizes)), first)}
    end = {"a": {partition: first + size for partition, size in enumerate(sizes)}}
    return at(begin), at(end)


@given(SIZES, st.integers(1, 3000))
def test_a_batch_takes_exactly_its_limit_or_all_there_is(sizes: list[int], limit: int) -> None:
    start, latest = positions_of(sizes)
    end = advance(start, latest, limit)
    assert count(ranges(start, end)) == min(limit, sum(sizes))
    assert all(end.offsets["a"][partition] <= offset for partition, offset in latest.offsets["a"].items())


@given(SIZES, st.integers(1, 3000))
def test_each_partition_gives_its_share_of_the_limit(sizes: list[int], limit: int) -> None:
    start, latest = positions_of(sizes)
    total = max(sum(sizes), 1)
    for one in ranges(start, advance(start, latest, limit)):
        assert abs(one.size - sizes[one.partition] * min(limit, total) / total) < 1


@given(SIZES, st.integers(1, 300))
def test_batches_with_a_limit_reach_the_end_and_stay_there(sizes: list[int], limit: int) -> None:
    position, latest = positions_of(sizes)
    for _ in range(sum(sizes) // limit + 1):
        position = advance(position, latest, limit)
    assert position.offsets == latest.offsets
    assert advance(position, latest, limit) is position


def test_without_a_limit_a_batch_goes_to_the_end() -> None:
    start, latest = positions_of([5, 0, 7])
    assert advance(start, latest, None) == latest


def test_a_new_partition_is_read_from_its_first_offset() -> None:
    start, latest = at({"a": {0: 5}}), at({"a": {0: 6, 1: 3}, "b": {0: 2}})
    assert ranges(start, latest) == [Range("a", 0, 5, 6), Range("a", 1, 0, 3), Range("b", 0, 0, 2)]


def test_the_end_of_the_first_batch_remembers_where_the_query_started() -> None:
    start = at({"a": {0: 40}}, started_at={"a": {0: 40}})
    end = advance(start, at({"a": {0: 50}}), None)
    # Killed here, the query resolves "latest" again, to 60; the logged end applies.
    asked_again = at({"a": {0: 60}}, started_at={"a": {0: 60}})
    assert ranges(asked_again, end) == ranges(start, end) == [Range("a", 0, 40, 50)]


def test_a_batch_without_anything_new_after_the_first_reads_nothing_again() -> None:
    end = advance(at({"a": {0: 40}}, started_at={"a": {0: 40}}), at({"a": {0: 50}}), None)
    assert ranges(end, end) == []


def test_later_batches_forget_where_the_query_started() -> None:
    start = at({"a": {0: 50}}, started_at={"a": {0: 40}})
    end = advance(start, at({"a": {0: 60}}), None)
    assert end.started_at is None
    assert ranges(start, end) == [Range("a", 0, 50, 60)]


def test_a_first_batch_without_records_leaves_the_position_as_it_is() -> None:
    start = at({"a": {0: 40}}, "one", started_at={"a": {0: 40}})
    assert advance(start, at({"a": {0: 40}}, "one"), None) is start


def test_a_topic_that_was_made_again_is_read_from_its_first_offset() -> None:
    start, latest = at({"a": {0: 50}}, "one"), at({"a": {0: 60}}, "two")
    assert ranges(start, advance(start, latest, None)) == [Range("a", 0, 0, 60)]


def test_a_topic_made_again_that_ends_at_the_same_offset_is_noticed_all_the_same() -> None:
    start, latest = at({"a": {0: 50}}, "one"), at({"a": {0: 50}}, "two")
    assert missing(start, latest) == ["topic 'a' has been deleted and created again"]
    assert ranges(start, advance(start, latest, None)) == [Range("a", 0, 0, 50)]


@pytest.mark.parametrize(
    ("latest", "what"),
    [
        (at({}), ["topic 'a' does not exist any more"]),
        (at({"a": {0: 50}}), ["partition 1 of 'a' does not exist any more"]),
        (at({"a": {0: 49, 1: 50}}), ["partition 0 of 'a' ends at offset 49, but was read up to 50"]),
        (at({"a": {0: 50, 1: 50}}), []),
        (at({"a": {0: 51, 1: 50, 2: 0}, "b": {0: 1}}), []),
    ],
)
def test_what_is_gone_is_reported_in_words(latest: Position, what: list[str]) -> None:
    assert missing(at({"a": {0: 50, 1: 50}}), latest) == what


@pytest.mark.parametrize(("before", "now"), [("", "two"), ("one", ""), ("one", "one")])
def test_a_topic_counts_as_made_again_only_where_both_ids_are_known(before: str, now: str) -> None:
    assert missing(at({"a": {0: 5}}, before), at({"a": {0: 5}}, now)) == []


def test_a_partition_that_ends_before_the_position_goes_on_from_there_when_losses_are_accepted() -> None:
    start, latest = at({"a": {0: 50, 1: 5}}), at({"a": {0: 30, 1: 6}})
    end = advance(start, latest, None)
    assert ranges(start, end) == [Range("a", 1, 5, 6)]
    assert ranges(end, at({"a": {0: 31, 1: 6}})) == [Range("a", 0, 30, 31)]


@given(SIZES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 400))
def test_pieces_are_the_ranges_again_in_order_and_without_gaps(
    sizes: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    start, end = positions_of(sizes)
    whole = ranges(start, end)
    joined: list[Range] = []
    for piece in split(whole, partitions_min, records_max):
        assert piece.size > 0
        if joined and joined[-1].partition == piece.partition:
            assert joined[-1].end == piece.start
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == whole


@given(SIZES, st.integers(1, 40), st.none() | st.integers(1, 400))
def test_there_are_as_many_pieces_as_asked_and_none_is_too_long(
    sizes: list[int], partitions_min: int, records_max: int | None
) -> None:
    start, end = positions_of(sizes)
    pieces = split(ranges(start, end), partitions_min, records_max)
    assert len(pieces) >= min(partitions_min, sum(sizes))
    assert all(piece.size <= (records_max or piece.size) for piece in pieces)


@given(SIZES, st.integers(1, 40))
def test_no_partition_is_cut_while_another_has_pieces_twice_as_long(sizes: list[int], partitions_min: int) -> None:
    start, end = positions_of(sizes)
    pieces = split(ranges(start, end), partitions_min, None)
    cut = {piece.partition for piece in pieces if sum(other.partition == piece.partition for other in pieces) > 1}
    longest = max((piece.size for piece in pieces), default=0)
    assert all(2 * piece.size + 2 >= longest for piece in pieces if piece.partition in cut)


def test_one_long_partition_is_cut_before_short_ones() -> None:
    pieces = split([Range("a", 0, 0, 1000), Range("a", 1, 0, 10)], 4, None)
    assert [(piece.partition, piece.size) for piece in pieces] == [(0, 333), (0, 333), (0, 334), (1, 10)]


def test_the_error_about_lost_records_names_the_option_and_survives_the_way_to_the_driver() -> None:
    error = DataLost("topic 'a' does not exist any more")
    assert "topic 'a' does not exist any more" in str(error)
    assert "failOnDataLoss" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
