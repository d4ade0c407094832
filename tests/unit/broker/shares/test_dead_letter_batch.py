"""Dead letters as records."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.shares.machine.dead_letter_batch import RECORDS_MAX, Origin, behind, dead_letter_batch, offsets_of
from sordini.broker.shares.machine.record_states import DeathReason
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.protocol.records.batch import Record, read_header, read_records
from sordini.protocol.records.copied_records import CopiedRecords

ORIGIN = Origin("a group", "töpic", 7)
NOTHING = CopiedRecords({}, 2**62)
REJECTED, EXCEEDED = DeathReason.REJECTED, DeathReason.DELIVERIES_EXCEEDED


def records_of(batch: bytes) -> list[Record]:
    return list(read_records(batch, read_header(batch)))


def test_a_dead_letter_has_the_headers_of_apache_kafka() -> None:
    made = dead_letter_batch(ORIGIN, [DeadLetters(41, 42, 3, EXCEEDED)], NOTHING, 1_000, 10_000)
    headers = (
        ("__dlq.errors.topic", "töpic".encode()),
        ("__dlq.errors.partition", b"7"),
        ("__dlq.errors.offset", b"41"),
        ("__dlq.errors.group", b"a group"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
    )
    assert records_of(made.records) == [Record(0, 1_000, None, None, headers)]
    (other,) = records_of(dead_letter_batch(ORIGIN, [DeadLetters(1, 2, 1, REJECTED)], NOTHING, 0, 10_000).records)
    assert other.headers[-1] == ("__dlq.errors.message", b"Offset rejected by client.")


def test_a_copy_has_key_and_value_and_none_that_is_too_large_keeps_a_dead_letter_back() -> None:
    letters = [DeadLetters(0, 4, 1, REJECTED)]
    copied = CopiedRecords({0: (b"k", b"v"), 1: (b"k", b"x" * 2_000), 2: (None, b"")}, 4)
    made = dead_letter_batch(ORIGIN, letters, copied, 0, 2_000)
    assert [(record.key, record.value) for record in records_of(made.records)] == [
        (b"k", b"v"),
        (None, None),
        (None, b""),
        (None, None),
    ]
    assert made.headers_only == 1


def test_a_batch_ends_before_the_first_record_that_is_not_read_yet() -> None:
    made = dead_letter_batch(ORIGIN, [DeadLetters(3, 9, 1, REJECTED)], CopiedRecords({3: (b"k", b"v")}, 5), 0, 10_000)
    assert (made.letters, len(records_of(made.records))) == (2, 2)


def test_a_topic_with_too_small_batches_still_gets_one_dead_letter_at_a_time() -> None:
    assert dead_letter_batch(ORIGIN, [DeadLetters(3, 9, 1, REJECTED)], NOTHING, 0, 10).letters == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400), st.sampled_from(DeathReason)), min_size=1, max_size=8),
    st.integers(100, 30_000),
    st.integers(0, 3_000),
)
def test_all_dead_letters_are_written_once_and_in_order_by_batches_within_the_limit(
    rows: list[tuple[int, int, DeathReason]], bytes_max: int, value_size: int
) -> None:
    letters, end = [], 0
    for gap, size, reason in rows:
        letters.append(DeadLetters(end + gap, end + gap + size, 2, reason))
        end += gap + size
    expected = [offset for one in letters for offset in range(one.first, one.end)]
    assert offsets_of(letters) == expected[:RECORDS_MAX]
    copied = CopiedRecords(dict.fromkeys(expected[::50], (None, b"x" * value_size)), end)
    seen: list[int] = []
    left = letters
    while left:
        made = dead_letter_batch(ORIGIN, left, copied, 0, bytes_max)
        assert made.letters == 1 or len(made.records) <= bytes_max
        assert made.letters <= RECORDS_MAX
        seen += [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in records_of(made.records)]
        written, left = behind(left, made.letters)
        assert sum(one.end - one.first for one in written) == made.letters
    assert seen == expected
