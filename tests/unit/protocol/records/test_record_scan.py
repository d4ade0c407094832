"""The checks of records: three ways of looking, one answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader, record_scan
from sordini.protocol.records.batch import HEADER_SIZE, Record, build_batch
from sordini.protocol.records.record_runs import find_run
from sordini.protocol.records.varint import read_varint, varint
from tests.support.parts import examples


def a_body(records: list[Record]) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def uniform_records(count: int, value_bytes: int = 20, key: bytes | None = None, step_ms: int = 1) -> list[Record]:
    return [Record(index, 1000 + index * step_ms, key, bytes(value_bytes)) for index in range(count)]


def by_the_letter(body: bytes, count: int) -> tuple[int, int, bool] | ErrorCode:
    try:
        return record_scan._walk_exactly(body, 0, 0, count)
    except BrokerError as refusal:
        return refusal.code


def scanned(body: bytes, count: int) -> tuple[int, int, bool] | ErrorCode:
    try:
        return record_scan.scan(body, count, want_keys=True)
    except BrokerError as refusal:
        return refusal.code


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Stretches of alike records with times that mostly go on: what runs, their ends and the walk meet."""
    records: list[Record] = []
    time = 10**12
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([0, 5, 55, 63, 64, 100, 8192]))
        key = draw(st.sampled_from([None, b"", b"key", b"k" * 64]))
        headers = draw(st.sampled_from([(), (("h", b"v"),), (("h", None), ("", b"x" * 70))]))
        step = draw(st.sampled_from([0, 1, 7, 300, -1]))
        for _ in range(draw(st.sampled_from([1, 3, 14, 30, 90]))):
            time += step
            value = None if draw(st.integers(0, 200)) == 0 else bytes(size)
            records.append(Record(len(records), time, key, value, headers))
    return records


@settings(deadline=None, max_examples=40)
@given(record_lists())
def test_right_records_pass_every_way_with_one_answer(records: list[Record]) -> None:
    body, count = a_body(records), len(records)
    times = [record.timestamp - records[0].timestamp for record in records]
    expected = (min(times), max(times), any(record.key is None for record in records))
    assert record_scan.scan(body, count, want_keys=True) == expected
    assert record_scan._walk(body, 0, 0, count) == expected
    assert compiled_reader.scan(body, count, want_keys=True) == expected
    assert by_the_letter(body, count) == expected


@settings(deadline=None, max_examples=examples(120))
@given(st.sampled_from([(3, 3), (40, 3), (70, 20), (90, 64)]), st.data())
def test_a_changed_byte_is_judged_as_the_letter_judges_it(shape: tuple[int, int], data: st.DataObject) -> None:
    count, size = shape
    body = bytearray(a_body(uniform_records(count, size, key=b"k")))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert scanned(bytes(body), count) == by_the_letter(bytes(body), count)


def a_headless_record(delta: int, head: bytes, size: int) -> bytes:
    """A record after its attributes and time, which are `head`: a key, a value of a size, and no headers."""
    content = head + varint(delta) + varint(1) + b"k" + varint(size) + bytes(size) + varint(0)
    return varint(len(content)) + content


@pytest.mark.parametrize("size", [2, 200, 9_000])
@pytest.mark.parametrize("attributes", [b"\x80\x00", b"\xff\x7f", b"\x80\x80\x00"])
def test_attributes_are_one_byte_whatever_it_is(attributes: bytes, size: int) -> None:
    """The compiled reader takes them for a longer number: a record that only it can read would poison a partition."""
    plain = [a_headless_record(delta, b"\0\0", delta * 7 % 40) for delta in range(30)]
    plain[17] = a_headless_record(17, attributes + b"\0", size)
    body = b"".join(plain)
    assert by_the_letter(body, 30) == scanned(body, 30) == ErrorCode.INVALID_RECORD
    plain[17] = a_headless_record(17, attributes[:1] + b"\0", size)
    body = b"".join(plain)
    assert by_the_letter(body, 30) == scanned(body, 30) == (0, 0, False)


@settings(deadline=None, max_examples=examples(60))
@given(record_lists(), st.data())
def test_changed_bytes_of_records_of_many_shapes_are_judged_alike_by_all_three_ways(
    records: list[Record], data: st.DataObject
) -> None:
    body, count = bytearray(a_body(records)), len(records)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(body), 400) - 1) | st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255) | st.sampled_from([body[at] ^ 1, body[at] ^ 0x80]))
    expected = by_the_letter(bytes(body), count)
    assert scanned(bytes(body), count) == expected
    try:
        walked: tuple[int, int, bool] | ErrorCode = record_scan._walk(bytes(body), 0, 0, count)
    except BrokerError as refusal:
        walked = refusal.code
    assert walked == expected
    taken, end, seen = find_run(bytes(body), 0, 0, count)
    if taken:
        assert by_the_letter(bytes(body[:end]), taken) == seen


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.integers(-70, 70) | st.integers(0, 20_000), min_size=24, max_size=200),
    st.booleans(),
)
def test_the_times_of_a_run_have_the_range_that_reading_each_gives(times: list[int], in_order: bool) -> None:
    times = [0, *(sorted(times) if in_order else times)]
    body = a_body([Record(at, 10**12 + time, None, b"value") for at, time in enumerate(times)])
    assert scanned(body, len(times)) == (min(times), max(times), True) == by_the_letter(body, len(times))


TWO_BYTES = st.integers(64, 8_191)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(TWO_BYTES | TWO_BYTES.map(lambda time: -time - 1), min_size=40, max_size=63),
    st.sampled_from(["as they are", "in order", "one earlier", "one later", "one negative"]),
    st.integers(0, 39),
)
def test_the_times_of_a_run_that_take_two_bytes_have_the_range_that_reading_each_gives(
    times: list[int], order: str, where: int
) -> None:
    if order != "as they are":
        times = sorted(min(max(abs(time), 200), 8_000) for time in times)
        times[where] = {"one earlier": 64, "one later": 8_191, "one negative": -times[where]}.get(order, times[where])
    body = a_body([Record(at, 10**12 + time, None, b"value") for at, time in enumerate([0, *times])])
    second = read_varint(body, 0)[0] + 1
    taken, _, seen = find_run(body, second, 1, len(times))
    assert (taken, seen) == (len(times), (min(times), max(times), True))


def test_a_run_ends_where_a_time_differs_beyond_its_two_lowest_bytes() -> None:
    times = [20_000] * 30 + [40_000] * 30
    body = a_body([Record(at, 10**12 + time, None, b"value") for at, time in enumerate([0, *times])])
    taken, _, seen = find_run(body, read_varint(body, 0)[0] + 1, 1, len(times))
    assert (taken, seen) == (30, (20_000, 20_000, True))
    assert scanned(body, 61) == (0, 40_000, True)


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=200), st.integers(-2, 30))
def test_any_bytes_are_judged_as_the_letter_judges_them(body: bytes, count: int) -> None:
    if count > 0:
        assert scanned(body, count) == by_the_letter(body, count)
    else:
        assert scanned(body, count) == ErrorCode.INVALID_RECORD


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([1, 5, 13, 80, 200]), st.data())
def test_records_cut_or_followed_by_something_are_refused(count: int, data: st.DataObject) -> None:
    body = a_body(uniform_records(count, 30))
    cut = data.draw(st.integers(1, len(body)))
    for wrong in (body[:-cut], body + body[:cut], body + bytes(1)):
        assert scanned(wrong, count) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [1, 12, 13, 64, 65, 300])
def test_a_count_that_is_off_by_one_is_refused(count: int) -> None:
    body = a_body(uniform_records(count, 30))
    assert scanned(body, count + 1) == ErrorCode.INVALID_RECORD
    assert scanned(body, count - 1) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [2**31 - 1, -1, 0])
def test_an_absurd_count_is_refused_at_once(count: int) -> None:
    assert scanned(a_body(uniform_records(20)), count) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [3, 30, 200])
@pytest.mark.parametrize("where", [0, 2, -1])
@pytest.mark.parametrize("jump", [1, -1, 64, 128, 8192])
def test_offsets_that_do_not_count_up_are_refused(count: int, where: int, jump: int) -> None:
    offsets = list(range(count))
    offsets[where] += jump
    assert scanned(b"".join(map(a_record, offsets)), count) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [150, 200])
def test_an_offset_of_two_bytes_is_compared_in_both(count: int) -> None:
    offsets = list(range(count))
    offsets[140] += 64  # The lower of its two bytes is that of the right offset.
    assert scanned(b"".join(map(a_record, offsets)), count) == ErrorCode.INVALID_RECORD


NEGATIVE = {
    "a length": b"\x0f\x00\x00\x00\x01\x02x\x00",
    "a longer length": b"\x91\x01\x00\x00\x00\x01\x82\x01" + bytes(65) + b"\x00",
    "a value's length": b"\x0e\x00\x00\x00\x01\x03\x00\x00",
    "a key's length": b"\x0e\x00\x00\x00\x03\x00\x01\x00",
}


@pytest.mark.parametrize("which", NEGATIVE)
def test_a_negative_number_is_not_taken_for_the_positive_one_beside_it(which: str) -> None:
    assert scanned(NEGATIVE[which], 1) == by_the_letter(NEGATIVE[which], 1) == ErrorCode.INVALID_RECORD


def a_record(
    offset_delta: int,
    *,
    attributes: int = 0,
    key_length: int = -1,
    value_length: int = 3,
    header_count: int = 0,
    length_off: int = 0,
    tail: bytes = b"",
) -> bytes:
    """One record whose numbers may lie."""
    content = bytearray([attributes])
    content += varint(0)
    content += varint(offset_delta)
    content += varint(key_length)
    content += varint(value_length)
    content += b"abc"
    content += varint(header_count)
    content += tail
    out = bytearray()
    out += varint(len(content) + length_off)
    return bytes(out + content)


LIES = {
    "two to the thirty headers": {"header_count": 2**30},
    "a negative header count": {"header_count": -1},
    "more headers than bytes": {"header_count": 3, "tail": bytes(4)},
    "a header without a key": {"header_count": 1, "tail": b"\x01\x00"},
    "a header key beyond the record": {"header_count": 1, "tail": b"\x7e\x00"},
    "a length beyond the batch": {"length_off": 2**20},
    "a negative length": {"length_off": -40},
    "a length too long by one": {"length_off": 1},
    "a length too short by one": {"length_off": -1},
    "a key beyond the record": {"key_length": 2**20},
    "a value beyond the record": {"value_length": 4},
    "a value shorter than its bytes": {"value_length": 2},
    "a value of two gigabytes": {"value_length": 2**31 - 1},
    "bytes after the headers": {"tail": b"\x00"},
}


@pytest.mark.parametrize("count", [1, 13, 100])
@pytest.mark.parametrize("lie", LIES)
def test_a_record_that_lies_is_invalid_wherever_it_stands(lie: str, count: int) -> None:
    for liar in {0, count // 2, count - 1}:
        records = [a_record(at, **(LIES[lie] if at == liar else {})) for at in range(count)]  # type: ignore[arg-type]
        assert scanned(b"".join(records), count) == ErrorCode.INVALID_RECORD
    assert scanned(b"".join(a_record(at, **LIES[lie]) for at in range(count)), count) == ErrorCode.INVALID_RECORD  # type: ignore[arg-type]


def test_a_varint_that_does_not_end_is_invalid() -> None:
    for count in (1, 13):
        assert scanned(b"\xff" * 300, count) == ErrorCode.INVALID_RECORD


def test_negative_lengths_are_null_and_attributes_are_free_as_in_apache_kafka() -> None:
    for count in (1, 40):
        body = b"".join(a_record(at, attributes=5) for at in range(count))
        assert record_scan.scan(body, count, want_keys=True) == (0, 0, True)
        content = b"\x00\x00%c\x03\x05\x00"
        body = b"".join(b"\x0c" + content % (at * 2) for at in range(count))
        assert record_scan.scan(body, count, want_keys=True) == (0, 0, True)


def test_alike_records_are_taken_in_runs() -> None:
    body = a_body(uniform_records(600, 100))
    taken, end, seen = find_run(body, 0, 0, 600)
    assert taken == 64  # One byte of offset delta.
    assert seen == (0, 63, True)
    assert find_run(body, end, 64, 536)[0] == 536


def test_a_run_ends_where_a_record_differs_in_any_of_its_numbers() -> None:
    alike = [a_record(at) for at in range(40)]
    assert find_run(b"".join(alike), 0, 0, 40)[0] == 40
    for other in (
        a_record(30, key_length=2, value_length=-1, tail=b""),
        a_record(30, header_count=1),
        a_record(30, value_length=2),
        a_record(30, length_off=1),
    ):
        changed = b"".join([*alike[:30], other, *alike[31:]])
        assert find_run(changed, 0, 0, 40)[0] in {0, 30}


def test_the_compiled_reader_is_there_and_compiled() -> None:
    assert compiled_reader.load()
    assert "cython" in type(
        compiled_reader._reader.validate_crc
    ).__name__.lower() or compiled_reader._reader.__module__.endswith(  # type: ignore[union-attr]
        "default_records"
    )
    body = a_body([Record(index, index, None, bytes(index)) for index in range(50)])
    assert compiled_reader.scan(body, 50, want_keys=True) == (0, 49, True)


def test_the_compiled_reader_keeps_inside_its_buffer() -> None:
    for length in (2**31 - 1, 2**62, 2**63 - 1, 2**63 - 30):
        for field in ("key_length", "value_length", "header_count"):
            assert compiled_reader.scan(a_record(0, **{field: length}), 1, want_keys=True) is None
    assert compiled_reader.scan(b"\xff" * 64, 1, want_keys=True) is None
    assert compiled_reader.scan(b"", 1, want_keys=True) is None


def test_without_the_compiled_reader_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    body = a_body([Record(index, index, None, bytes(index * 7 % 50)) for index in range(50)])
    expected = record_scan.scan(body, 50, want_keys=True)
    monkeypatch.setattr(compiled_reader, "_reader", None)
    assert record_scan.scan(body, 50, want_keys=True) == expected == (0, 49, True)
