"""What a declaration means on the wire, shown on small messages made for the purpose."""

from __future__ import annotations

import struct as packing
import traceback
from typing import Any

import pytest

from sordini.protocol import codecs
from sordini.protocol.codecs import EMPTY, message, since, struct, tagged, until
from sordini.protocol.declare import fields_of
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import (
    TAGS_MAX,
    Array,
    Bool,
    Bytes,
    FetchedRecords,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableBytes,
    NullableString,
    String,
    Uuid,
    read_varint,
    varint,
)


@struct
class Point:
    x: Int16 = 0
    y: Int16 = since(1, default=-1)


@message(versions=range(4), flexible=2)
class Drawing:
    name: String = "untitled"
    title: NullableString = since(0, default="", nullable=1)
    points: Array[Point] = EMPTY
    layers: NullableArray[String] = since(1, until=2, default=None)
    origin: Point | None = tagged(0, since=2, default=None)
    scale: Int32 = tagged(5, since=2, default=1)
    notes: NullableString = tagged(300, since=3, default=None)
    marks: Array[Int8] = tagged(6, since=3, default=EMPTY)


@message(versions=range(2), flexible=1)
class Every:
    flag: Bool = False
    small: Int8 = 0
    large: Int64 = 0
    real: Float64 = 0.0
    key: Uuid = bytes(16)
    keys: Array[Uuid] = EMPTY
    flags: Array[Bool] = EMPTY
    blob: Bytes = b""
    maybe: NullableBytes = None
    old: Int32 = until(0, default=7)


@message(versions=range(2), flexible=1)
class Load:
    before: Int32 = 0
    records: FetchedRecords = None
    after: Int32 = 0


@message(versions=range(1), flexible=1)
class Word:
    text: String = ""


@message(versions=range(2), flexible=1)
class Page:
    number: Int16 = 0
    first: Point | None = since(0, default=None, nullable=1)
    last: Int8 = 0


@struct
class Leaf:
    first: Point | None = None


@message(versions=range(1), flexible=0)
class Book:
    leaves: Array[Leaf] = EMPTY


@message(versions=range(1), flexible=1)
class Nothing:
    """A version may have no fields at all."""


class FileSliceOf10:
    size = 10

    def release(self) -> None:
        raise AssertionError("the sender releases it, not the encoder")


def read(cls: type, version: int, text: str) -> Any:
    frame = memoryview(bytes.fromhex(text))
    made, end = codecs.decode(cls, version, frame)
    assert end == len(frame)
    return made


def written(made: object, version: int) -> str:
    return codecs.encode(made, version).hex(" ")


def test_classic_lengths_are_fixed_numbers() -> None:
    drawing = Drawing(name="ab", title="", points=[Point(x=1)])
    assert written(drawing, 0) == "00 02 61 62 00 00 00 00 00 01 00 01"
    assert read(Drawing, 0, written(drawing, 0)) == drawing


def test_flexible_lengths_are_varints_of_one_more_and_structs_end_with_tags() -> None:
    drawing = Drawing(name="ab", title=None, points=[Point(x=1, y=2)], layers=["c"])
    assert written(drawing, 2) == "03 61 62 00 02 00 01 00 02 00 02 02 63 00"
    assert read(Drawing, 2, written(drawing, 2)) == drawing


def test_a_long_value_has_a_varint_of_more_than_one_byte() -> None:
    for size in (126, 127, 128, 16382, 16383, 32767):
        drawing = Drawing(name="n" * size, layers=["l"] * size)
        made, _ = codecs.decode(Drawing, 2, memoryview(codecs.encode(drawing, 2)))
        assert made == drawing


def test_null_is_minus_one_in_classic_and_zero_in_flexible_versions() -> None:
    assert written(Drawing(title=None, layers=None, name=""), 1) == "00 00 ff ff 00 00 00 00 ff ff ff ff"
    assert written(Drawing(title=None, layers=None, name=""), 2) == "01 00 01 00 00"


def test_a_struct_that_may_be_null_has_a_byte_in_front_that_says_whether_it_is_there() -> None:
    there, absent = Page(number=1, first=Point(x=2, y=3), last=4), Page(number=1, last=4)
    assert written(there, 1) == "00 01 01 00 02 00 03 00 04 00"
    assert written(absent, 1) == "00 01 ff 04 00"
    assert read(Page, 1, written(there, 1)) == there
    assert read(Page, 1, written(absent, 1)) == absent
    assert read(Page, 1, "00 01 80 04 00") == absent


def test_what_may_be_null_needs_one_byte_of_what_is_left_for_each_element() -> None:
    book = Book(leaves=[Leaf(), Leaf()])
    assert written(book, 0) == "03 ff 00 ff 00 00"
    assert read(Book, 0, written(book, 0)) == book


def test_a_struct_has_no_byte_in_front_in_versions_where_it_may_not_be_null() -> None:
    page = Page(number=1, first=Point(x=2), last=4)
    assert written(page, 0) == "00 01 00 02 04"
    assert read(Page, 0, written(page, 0)) == page


def test_null_before_the_version_that_allows_it_is_a_wire_error() -> None:
    with pytest.raises(WireError, match=r"Drawing\.title is null"):
        read(Drawing, 0, "00 00 ff ff 00 00 00 00")
    assert read(Drawing, 1, "00 00 ff ff 00 00 00 00 ff ff ff ff").title is None


def test_null_where_no_version_allows_it_is_a_wire_error() -> None:
    with pytest.raises(WireError, match=r"Drawing\.name is null"):
        read(Drawing, 0, "ff ff 00 00 00 00 00 00")
    with pytest.raises(WireError, match=r"Drawing\.points is null"):
        read(Drawing, 2, "01 00 00 00 00")


def test_a_field_that_the_version_lacks_has_its_default() -> None:
    drawing = read(Drawing, 0, "00 00 00 00 00 00 00 01 00 05")
    assert drawing == Drawing(name="", points=[Point(x=5, y=-1)], layers=None, scale=1)
    assert read(Drawing, 3, "01 00 01 00").layers is None


def test_a_tagged_field_is_sent_only_when_it_differs_from_its_default() -> None:
    assert written(Drawing(name=""), 3) == "01 01 01 00"
    full = Drawing(name="", origin=Point(x=1, y=2), scale=2, notes="n", marks=[9])
    assert written(full, 3) == ("01 01 01 04 00 05 00 01 00 02 00 05 04 00 00 00 02 ac 02 02 02 6e 06 02 02 09")
    assert read(Drawing, 3, written(full, 3)) == full


def test_a_tagged_field_of_a_later_version_is_not_sent() -> None:
    assert written(Drawing(name="", notes="n"), 2) == "01 01 01 00 00"


def test_unknown_tags_are_skipped_wherever_they_stand() -> None:
    assert read(Drawing, 3, "01 00 02 00 01 00 02 01 63 03 aa bb cc 02 05 04 00 00 00 09 07 00") == Drawing(
        name="", title=None, points=[Point(x=1, y=2)], scale=9
    )
    assert read(Nothing, 0, "") == Nothing()


def test_a_tag_that_is_longer_or_shorter_than_it_says_is_a_wire_error() -> None:
    for size in ("03", "05"):
        with pytest.raises(WireError, match="another size"):
            read(Drawing, 2, f"01 00 01 00 01 05 {size} 00 00 00 09 00 00 00")


def test_a_tag_that_ends_behind_the_frame_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="ends after"):
        read(Drawing, 2, "01 00 01 00 01 63 ff ff ff ff 0f")
    with pytest.raises(WireError, match="ends after"):
        read(Drawing, 2, "01 00 02 00 01 00 02 01 63 7f 00 00")


def tags(count: int) -> bytes:
    return varint(count) + b"".join(varint(1000 + number) + b"\0" for number in range(count))


def test_a_struct_may_carry_a_bounded_number_of_tags() -> None:
    head = bytes.fromhex("01 00 02 00 01 00 02")  # One point, whose tags follow; then those of the drawing.
    for of_point, of_drawing in ((TAGS_MAX, 0), (0, TAGS_MAX)):
        frame = memoryview(head + tags(of_point) + b"\x00" + tags(of_drawing))
        assert codecs.decode(Drawing, 2, frame)[1] == len(frame)
    for of_point, of_drawing in ((TAGS_MAX + 1, 0), (0, TAGS_MAX + 1)):
        with pytest.raises(WireError, match="1024 are allowed"):
            codecs.decode(Drawing, 2, memoryview(head + tags(of_point) + b"\x00" + tags(of_drawing)))


def test_a_count_that_the_bytes_left_cannot_hold_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="claims 2147483647 elements, 4 bytes are left"):
        read(Drawing, 0, "00 00 00 00 7f ff ff ff 00 00 00 00")
    with pytest.raises(WireError, match="claims 2 elements, 9 bytes are left"):
        read(Drawing, 2, "01 00 03" + " 00" * 9)


def test_a_string_longer_than_a_classic_length_can_say_is_a_wire_error() -> None:
    frame = varint(32769) + b"n" * 32768 + bytes(8)
    with pytest.raises(WireError, match="has 32768 bytes"):
        codecs.decode(Drawing, 2, memoryview(frame))


def test_a_value_cut_short_is_a_wire_error_although_a_slice_of_it_would_not_fail() -> None:
    with pytest.raises(WireError, match="ends after the frame"):
        read(Word, 0, "00 03 61 62")
    with pytest.raises(WireError, match=r"Load v0: .* requires a buffer of at least 17 bytes"):
        read(Load, 0, "00 00 00 01 00 00 00 05 aa")


def test_text_that_is_not_utf_8_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="Drawing v0: 'utf-8' codec"):
        read(Drawing, 0, "00 01 ff 00 00 00 00 00 00")


def test_every_kind_of_value_survives() -> None:
    every = Every(
        flag=True,
        small=-1,
        large=-(2**63),
        real=0.5,
        key=bytes(range(16)),
        keys=[bytes(16), b"k" * 16],
        flags=[True, False],
        blob=b"b",
        maybe=b"",
    )
    for version in (0, 1):
        assert read(Every, version, written(every, version)) == every
    assert type(read(Every, 0, written(every, 0)).blob) is bytes


def test_the_last_version_of_a_field_is_its_last() -> None:
    assert len(codecs.encode(Every(old=8), 0)) == 1 + 1 + 8 + 8 + 16 + 4 * 4 + 4
    assert read(Every, 1, written(Every(old=8), 1)).old == 7


def test_received_records_are_a_view_of_the_frame() -> None:
    frame = bytearray(codecs.encode(Load(records=b"abcdef"), 0))
    load, _ = codecs.decode(Load, 0, memoryview(frame))
    assert isinstance(load.records, memoryview)
    load.records[0:1] = b"X"
    assert b"Xbcdef" in frame


@pytest.mark.parametrize(
    "records", [b"abc", bytearray(b"abc"), memoryview(b"abc")], ids=lambda value: type(value).__name__
)
def test_records_are_written_from_anything_like_bytes(records: bytes) -> None:
    assert written(Load(records=records), 1) == "00 00 00 00 04 61 62 63 00 00 00 00 00"


def test_records_in_a_file_are_left_out_and_their_position_is_returned() -> None:
    for version, length in ((0, packing.pack(">i", 10)), (1, b"\x0b")):
        out, slices, part = bytearray(b"head"), [], FileSliceOf10()
        codecs.encode_into(Load(before=1, records=part, after=2), version, out, slices)
        place = 4 + 4 + len(length)
        assert out[8:place] == length
        assert slices == [(place, part)]
        whole = out[4:place] + b"r" * 10 + out[place:]
        assert codecs.decode(Load, version, memoryview(whole))[0] == Load(before=1, records=b"r" * 10, after=2)


def test_null_records_are_null_and_empty_ones_are_empty() -> None:
    for version in (0, 1):
        assert read(Load, version, written(Load(records=None), version)).records is None
        assert read(Load, version, written(Load(records=b""), version)).records == b""


def test_records_in_a_file_cannot_be_copied_by_mistake() -> None:
    with pytest.raises(AssertionError):
        codecs.encode(Load(records=FileSliceOf10()), 0)


def test_each_object_gets_its_own_empty_list() -> None:
    assert Drawing().points is not Drawing().points
    assert read(Drawing, 0, "00 00 00 00 00 00 00 00").marks is not Drawing().marks


def test_messages_compare_by_value_and_print_their_fields() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point() != Drawing()
    assert repr(Point(x=1)) == "Point(x=1, y=-1)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point())


def test_a_misspelled_field_is_refused() -> None:
    with pytest.raises(TypeError, match="z"):
        Point(z=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Point().z = 1  # type: ignore[attr-defined]


def test_a_field_without_a_default_is_not_declared() -> None:
    with pytest.raises(AssertionError, match=r"Bare\.number has no default"):

        @struct
        class Bare:
            number: Int32


def test_a_version_that_was_not_declared_has_no_codec() -> None:
    with pytest.raises(AssertionError, match="no version 4"):
        codecs.decoder(Drawing, 4)
    with pytest.raises(AssertionError, match="no version -1"):
        codecs.encoder(Drawing, -1)


def test_a_codec_is_compiled_once() -> None:
    assert codecs.decoder(Drawing, 1) is codecs.decoder(Drawing, 1)
    assert codecs.encoder(Drawing, 1) is codecs.encoder(Drawing, 1)
    assert codecs.decoder(Drawing, 1) is not codecs.decoder(Drawing, 2)


def test_a_traceback_shows_the_line_of_the_compiled_text() -> None:
    try:
        codecs.encode(Drawing(name=None), 0)
    except AttributeError as problem:
        text = "".join(traceback.format_exception(problem))
    assert '"<Drawing v0 encoder>"' in text
    assert "v = m0.name\n" in text or "v.encode()" in text


def test_neighbouring_numbers_are_read_by_one_struct() -> None:
    text = codecs.decoder(Load, 0).__code__.co_filename
    assert text == "<Load v0 decoder>"
    assert [field.name for field in fields_of(Load)] == ["before", "records", "after"]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**32 - 1])
def test_a_varint_survives(value: int) -> None:
    spelled = varint(value)
    assert len(spelled) == max(1, -(-value.bit_length() // 7))
    assert read_varint(memoryview(b"\xff" + spelled + b"\x01"), 1) == (value, 1 + len(spelled))


def test_a_varint_that_does_not_end_or_is_too_large_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="does not end"):
        read_varint(memoryview(b"\xff" * 10), 0)
    with pytest.raises(WireError, match="does not end"):
        read_varint(memoryview(b"\x80\x80\x80\x80\x80\x00"), 0)
    with pytest.raises(WireError, match="more than 32 bits"):
        read_varint(memoryview(b"\xff\xff\xff\xff\x10"), 0)
    with pytest.raises(AssertionError):
        varint(2**32)
