from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.source.batch_planning import advance
from sordini.pipeline.source.positions import (
    ABSENT_PARTITIONS_MAX,
    BadPosition,
    Position,
    kept_absent,
    lag,
    parse_assignment,
    parse_offsets,
    read_offsets,
)

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=5)
OFFSETS = st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 9999), st.integers(0, 2**62), max_size=4), max_size=4)
POSITIONS = st.builds(
    Position, OFFSETS, st.dictionaries(TOPICS, st.text("AZaz09-_", min_size=22, max_size=22)), st.none() | OFFSETS
)


@given(POSITIONS)
def test_reading_a_position_undoes_writing_it(position: Position) -> None:
    text = json.dumps(position.to_json())
    assert Position.from_json(json.loads(text)) == position
    assert read_offsets(text) == position.offsets


@given(POSITIONS, st.randoms())
def test_the_same_position_is_always_the_same_text(position: Position, random: Random) -> None:
    def shuffled(value: dict) -> dict:
        items = list(value.items())
        random.shuffle(items)
        return {key: shuffled(each) if isinstance(each, dict) else each for key, each in items}

    other = Position(
        shuffled(position.offsets),
        shuffled(position.topic_ids),
        None if position.started_at is None else shuffled(position.started_at),
    )
    assert json.dumps(other.to_json()) == json.dumps(position.to_json())


def test_a_position_of_the_jvm_source_is_read_as_it_is() -> None:
    assert read_offsets('{"views":{"1":7,"0":5}}') == {"views": {0: 5, 1: 7}}


def test_an_option_takes_offsets_as_a_checkpoint_has_them() -> None:
    position = Position({"views": {0: 5}}, {"views": "id"}, {"views": {0: 0}})
    assert parse_offsets(json.dumps(position.to_json()), "startingOffsets") == {"views": {0: 5}}


def test_a_position_is_written_in_the_shape_of_the_jvm_source_with_two_more_entries() -> None:
    position = Position({"views": {1: 7, 0: 5}}, {"views": "id"}, {"views": {0: 0, 1: 0}})
    assert position.to_json() == {
        "views": {"0": 5, "1": 7},
        "$topic_ids": {"views": "id"},
        "$started_at": {"views": {"0": 0, "1": 0}},
    }
    assert Position({"views": {0: 5}}, {}).to_json() == {"views": {"0": 5}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "startingOffsets: '{' is not JSON"),
        ("[]", "startingOffsets needs an object"),
        ('{"a": 5}', "startingOffsets: 'a' needs an object"),
        ('{"a": {"x": 5}}', "'x' is no partition of 'a'"),
        ('{"a": {"-1": 5}}', "'-1' is no partition of 'a'"),
        ('{"a": {"0": "5"}}', "'a', partition 0 needs a whole number, not '5'"),
        ('{"a": {"0": 5.0}}', "needs a whole number, not 5.0"),
        ('{"a": {"0": true}}', "needs a whole number, not True"),
        ('{"a": {"0": null}}', "needs a whole number, not None"),
    ],
)
def test_offsets_are_checked_whole_and_the_error_says_where_they_are_wrong(text: str, complaint: str) -> None:
    with pytest.raises(BadPosition) as caught:
        parse_offsets(text, "startingOffsets")
    assert complaint in str(caught.value)


def test_an_assignment_lists_the_partitions_of_each_topic() -> None:
    assert parse_assignment('{"b": [2, 0, 2], "a": [1]}', "assign") == {"b": [0, 2], "a": [1]}


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": ["0"]}', '{"a": [-1]}', '{"a": [true]}', '["a"]', "a"])
def test_an_assignment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadPosition, match="assign"):
        parse_assignment(text, "assign")


def test_the_lag_of_a_partition_without_a_position_is_all_it_has() -> None:
    assert lag({"a": {0: 5}}, {"a": {0: 7, 1: 3}, "b": {0: 2}}) == {"a": {0: 2, 1: 3}, "b": {0: 2}}


def test_a_partition_whose_log_was_truncated_has_no_negative_lag() -> None:
    assert lag({"a": {0: 5}}, {"a": {0: 3}}) == {"a": {0: 0}}


def test_of_the_topics_that_are_not_there_a_position_keeps_the_last_ones_by_name() -> None:
    absent = {f"views-{day:03}": {0: day, 1: day} for day in range(5)}
    assert kept_absent(absent) == absent
    assert kept_absent(absent, 5) == {"views-003": {0: 3, 1: 3}, "views-004": {0: 4, 1: 4}}
    assert kept_absent(absent, 1) == {}


def test_a_position_does_not_grow_with_topics_of_days_that_are_deleted_for_good() -> None:
    position = Position({"views-0000": {0: 7}}, {"views-0000": "id"})
    for day in range(1, 1200):
        name = f"views-{day:04}"
        position = advance(position, Position({name: {0: day}}, {name: "id"}), None)
    assert len(position.offsets) == len(position.topic_ids) == ABSENT_PARTITIONS_MAX + 1
    assert position.offsets["views-1199"] == {0: 1199}
    assert position.offsets["views-1198"] == {0: 1198}
