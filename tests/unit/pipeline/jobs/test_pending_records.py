"""Where a job's next records are: its position, what was lost, and topics that are not there."""

from __future__ import annotations

from sordini.pipeline.jobs.pending_records import Extent, pending_of, position_after, sentence_of
from sordini.pipeline.source.positions import ABSENT_PARTITIONS_MAX, Offsets, Position


def extent(begins: Offsets, ends: Offsets, first: Offsets | None = None) -> Extent:
    return Extent(
        begins if first is None else first, begins, Position(ends, {topic: f"id of {topic}" for topic in ends})
    )


def test_the_position_in_a_topic_that_is_not_read_now_stays_and_is_gone_on_from_when_it_is_read_again() -> None:
    position = {"a": {0: 5}, "b": {0: 7}}
    pending = pending_of(extent({"a": {0: 0}}, {"a": {0: 9}}), position, [])
    assert (pending.start, pending.end, pending.absent) == ({"a": {0: 5}}, {"a": {0: 9}}, {"b": {0: 7}})
    both = extent({"a": {0: 0}, "b": {0: 0}}, {"a": {0: 9}, "b": {0: 9}})
    assert pending_of(both, {**pending.absent, **pending.end}, []).start == {"a": {0: 9}, "b": {0: 7}}


def test_a_first_run_has_lost_nothing_though_retention_and_producers_go_on_between_two_requests() -> None:
    begun = extent({"a": {0: 12}}, {"a": {0: 20}}, first={"a": {0: 10}})
    pending = pending_of(begun, None, [])
    assert (pending.start, pending.notices, pending.ends_behind) == ({"a": {0: 12}}, (), False)


def test_topics_and_partitions_that_come_between_two_requests_are_read_from_offset_0() -> None:
    found = extent({"a": {0: 3}}, {"a": {0: 9, 1: 4}, "b": {0: 2}})
    assert pending_of(found, {"a": {0: 5}}, []).start == {"a": {0: 5, 1: 0}, "b": {0: 0}}
    assert pending_of(found, None, []).start == {"a": {0: 3, 1: 0}, "b": {0: 0}}


def test_a_log_that_ends_before_the_position_is_another_loss_than_one_whose_start_has_moved() -> None:
    behind = pending_of(extent({"a": {0: 0}}, {"a": {0: 4}}), {"a": {0: 5}}, [])
    assert (behind.ends_behind, behind.notices) == (True, ("a-0 ends at offset 4, but was read up to 5",))
    passed = pending_of(extent({"a": {0: 8}}, {"a": {0: 9}}), {"a": {0: 5}}, [])
    assert (passed.ends_behind, passed.start) == (False, {"a": {0: 8}})
    assert passed.notices == ("a-0: offsets 5 to 7 were deleted before they were read",)
    again = pending_of(extent({"a": {0: 0}}, {"a": {0: 4}}), {"a": {0: 5}}, ["a"])
    assert (again.ends_behind, again.start, again.recreated) == (False, {"a": {0: 0}}, ("a",))


def test_the_position_in_a_topic_that_came_back_stays_until_spark_which_reads_it_from_its_start_is_there() -> None:
    position: Offsets = {"a": {0: 5}, "b": {0: 7, 1: 2}, "c": {0: 1}}
    back = {"b": {0: 7, 1: 2}}
    after = position_after(position, back, {"a": {0: 9}, "b": {0: 4, 1: 3, 2: 1}})
    assert after == {"a": {0: 9}, "b": {0: 7, 1: 3, 2: 1}, "c": {0: 1}}
    assert position_after(after, back, {"a": {0: 9}, "b": {0: 8, 1: 3, 2: 1}})["b"] == {0: 8, 1: 3, 2: 1}
    assert position_after(after, {}, {"a": {0: 6}}) == {"a": {0: 6}, "b": {0: 7, 1: 3, 2: 1}, "c": {0: 1}}


def test_positions_in_topics_that_are_gone_for_good_are_kept_of_the_last_ones_only() -> None:
    position: Offsets = {f"views-{day:04}": {0: day} for day in range(1200)}
    pending = pending_of(extent({"a": {0: 0}}, {"a": {0: 4}}), position, [])
    assert (len(pending.absent), pending.absent["views-1199"]) == (ABSENT_PARTITIONS_MAX, {0: 1199})
    after = position_after(position, {}, {"a": {0: 4}})
    assert after == {**pending.absent, "a": {0: 4}}


def test_of_many_topics_that_are_gone_a_sentence_names_the_last() -> None:
    kept = ": not in the cluster any more; the position is kept in case "
    assert sentence_of(["a"]) == f"'a'{kept}it comes back"
    assert sentence_of(list("abcde")) == f"'a', 'b', 'c', 'd', 'e'{kept}they come back"
    assert sentence_of(list("abcdefg")) == f"'c', 'd', 'e', 'f', 'g' and 2 others{kept}they come back"
