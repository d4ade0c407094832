"""What a dead letter says, which of them a redrive takes, and which are done already."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.shares.dead_letters import PREFIX, LetterFilter, read_dead_letter
from sordini.admin.shares.redrive_positions import (
    ALL,
    Position,
    is_done,
    may_be_positions,
    position_group,
    position_metadata,
    read_filter,
    start_offset,
)
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition

REJECTED, EXCEEDED = "Offset rejected by client.", "Offset delivery count exceeded the threshold."
TEXTS = st.one_of(st.none(), st.text(min_size=1, max_size=5))
FILTERS = st.builds(LetterFilter, TEXTS, TEXTS)


def record(at: int = 7, of_group: str = "billing", reason: str = REJECTED, **changed: bytes | None) -> Record:
    context: dict[str, bytes | None] = {
        "topic": b"orders",
        "partition": b"2",
        "offset": b"41",
        "group": of_group.encode(),
        "delivery.count": b"5",
        "message": reason.encode(),
    }
    context |= {name.replace("_", "."): value for name, value in changed.items()}
    headers = tuple((PREFIX + name, value) for name, value in context.items() if value != b"none")
    return Record(at, 1_000, b"key", b"value", (*headers, ("trace", b"1")))


def test_a_dead_letter_names_its_record_its_group_and_its_reason() -> None:
    letter = read_dead_letter(record())
    assert letter is not None
    assert letter == (
        7,
        1_000,
        TopicPartition("orders", 2),
        41,
        "billing",
        5,
        REJECTED,
        b"key",
        b"value",
        (("trace", b"1"),),
    )


def test_records_without_the_headers_or_with_others_in_them_are_no_dead_letters() -> None:
    for name in ("topic", "partition", "offset", "group"):
        assert read_dead_letter(record(**{name: b"none"})) is None
    for text in (b"", b"-1", b"x", b"9" * 20, None):
        assert read_dead_letter(record(partition=text)) is None
        assert read_dead_letter(record(offset=text)) is None
    assert read_dead_letter(record(topic=b"")) is None


def test_what_is_not_needed_to_copy_it_may_be_missing() -> None:
    letter = read_dead_letter(record(delivery_count=b"none", message=b"none"))
    assert letter is not None
    assert (letter.deliveries, letter.reason) == (None, None)
    assert not LetterFilter(reason="rejected").passes(letter)


def test_a_dead_letter_without_key_and_value_has_no_record() -> None:
    for key, value, has_record in ((None, None, False), (b"", None, True), (None, b"", True)):
        letter = read_dead_letter(record()._replace(key=key, value=value))
        assert letter is not None
        assert letter.has_record == has_record


def test_filters_take_the_group_as_it_is_and_any_part_of_the_reason() -> None:
    letter = read_dead_letter(record())
    assert letter is not None
    for letters in (ALL, LetterFilter("billing"), LetterFilter(None, "REJECTED"), LetterFilter("billing", "client")):
        assert letters.passes(letter)
    for letters in (LetterFilter("bill"), LetterFilter(None, "threshold"), LetterFilter("shipping", "rejected")):
        assert not letters.passes(letter)


@given(FILTERS)
def test_a_filter_is_what_its_metadata_says(letters: LetterFilter) -> None:
    assert read_filter(position_metadata(letters)) == letters


def test_metadata_of_others_is_no_filter() -> None:
    for text in ("", "{}x", "[1]", '"x"', '{"group": 1}', '{"group": null, "reason": []}'):
        assert read_filter(text) is None


@given(FILTERS, FILTERS)
def test_filters_have_groups_of_their_own_which_are_found_by_the_topic(one: LetterFilter, other: LetterFilter) -> None:
    names = [position_group("dlq.orders", letters) for letters in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    assert may_be_positions("dlq.orders", [*names, "billing", "sordini-redrive.dlq.orders-2"]) == names


def test_what_any_filter_has_copied_is_done_for_all() -> None:
    rejected, exceeded = read_dead_letter(record(5)), read_dead_letter(record(5, reason=EXCEEDED))
    assert rejected is not None
    assert exceeded is not None
    positions = [Position(LetterFilter(None, "rejected"), 6)]
    assert is_done(rejected, positions)
    assert not is_done(exceeded, positions), "it does not pass the filter"
    assert not is_done(rejected, [Position(ALL, 5)]), "the position is the next one"
    assert is_done(exceeded, [Position(ALL, 6)])


@given(st.lists(st.builds(Position, FILTERS, st.integers(0, 20)), max_size=4), FILTERS, st.integers(0, 20))
def test_nothing_below_the_start_is_left_to_a_filter(
    positions: list[Position], letters: LetterFilter, offset: int
) -> None:
    letter = read_dead_letter(record(offset))
    assert letter is not None
    if letters.passes(letter) and offset < start_offset(positions, letters):
        assert is_done(letter, positions)
