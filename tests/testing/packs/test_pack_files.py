"""The file of a pack: what is written is read, and what is damaged is found where it is."""

from __future__ import annotations

import re
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.packs import pack_writer
from sordini.packs.pack_format import BATCH, BEGINNING, FRAME, framed, gap
from sordini.packs.pack_reader import batches_of, open_pack
from sordini.protocol.records.batch import Record
from sordini.protocol.records.compression import GZIP, NO_CODEC, ZSTD
from sordini.testing import PackError, read_pack
from tests.testing.packs.made_packs import Given, givens, plain, read, write

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.sampled_from([-1, 0, 1_700_000_000_000, 1_700_000_000_001]) | INT64


@settings(max_examples=30)
@given(st.lists(givens(TIMES), min_size=1, max_size=3), st.sampled_from([NO_CODEC, GZIP, ZSTD]))
@example([Given(0, 3, [(Record(0, -(2**63), None, None), False), (Record(1, 2**63 - 1, None, None), False)])], NO_CODEC)
def test_what_is_written_is_read(slices: list[Given], codec: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path, again = Path(directory) / "a", Path(directory) / "b"
        wanted = {("orders", number): one for number, one in enumerate(slices)}
        write(path, wanted, codec=codec, partitions=len(slices))
        assert read(path) == wanted
        assert path.read_bytes() == write(again, wanted, codec=codec, partitions=len(slices)).read_bytes()
        _batches_follow_one_another(path)


def _batches_follow_one_another(path: Path) -> None:
    position: dict[int, int] = {}
    for batch in batches_of(str(path)):
        one = open_pack(str(path)).slices[batch.number]
        assert batch.header.base_offset == position.get(batch.number, one.start_offset)
        position[batch.number] = batch.header.next_offset
    assert all(open_pack(str(path)).slices[number].end_offset == end for number, end in position.items())


def test_records_in_one_batch_with_log_append_time_have_one_time(tmp_path: Path) -> None:
    times = [5, 5, 6, 5, 5]
    rows = [(Record(offset, time, None, b"v"), offset != 4) for offset, time in enumerate(times)]
    path = write(tmp_path / "a", {("orders", 0): Given(0, 5, rows)})
    found = [(batch.header.record_count, batch.header.is_log_append_time) for batch in batches_of(str(path))]
    assert found == [(2, True), (1, True), (1, True), (1, False)]


def test_one_batch_is_in_memory_at_a_time(tmp_path: Path) -> None:
    rows = [(Record(offset, 0, None, bytes(1_000)), False) for offset in range(1_000)]
    rows.append((Record(1_000, 0, None, bytes(2 * pack_writer.BATCH_BYTES)), False))
    path = write(tmp_path / "a", {("orders", 0): Given(0, 1_001, rows)})
    sizes = [len(batch.data) for batch in batches_of(str(path))]
    assert len(sizes) == 5
    assert max(sizes[:-1]) <= pack_writer.BATCH_BYTES < sizes[-1]


def test_a_file_is_readable_by_its_owner_alone_and_has_no_other_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pack", {("orders", 0): plain(b"one")})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a.pack"]


def test_a_pack_that_is_not_finished_leaves_what_was_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pack", {("orders", 0): plain(b"one")})
    before = path.read_bytes()
    rows = {("orders", 0): Given(0, 2, [(Record(1, 0, None, b"x"), False), (Record(0, 0, None, b"y"), False)])}
    with pytest.raises(AssertionError, match="offset 0 does not follow"):
        write(path, rows)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["a.pack"]


def small(tmp_path: Path) -> Path:
    return write(
        tmp_path / "small", {("orders", 0): plain(b"one", None, start=7), ("orders", 1): plain()}, partitions=2
    )


def places(whole: bytes) -> list[int]:
    """Some of the header's, and all behind it."""
    return [*range(0, len(whole) - 250, 9), *range(len(whole) - 250, len(whole))]


def test_a_file_that_was_cut_off_anywhere_is_not_taken_as_whole(tmp_path: Path) -> None:
    whole = small(tmp_path).read_bytes()
    cut = tmp_path / "cut"
    for size in places(whole):
        cut.write_bytes(whole[:size])
        with pytest.raises(PackError) as raised:
            open_pack(str(cut))
        assert str(cut) in str(raised.value)
        if size >= len(BEGINNING):
            assert f"was cut off: it ends at byte {size}, " in str(raised.value)


def test_a_bit_that_was_flipped_anywhere_is_found(tmp_path: Path) -> None:
    whole = small(tmp_path).read_bytes()
    flipped = tmp_path / "flipped"
    for position in places(whole):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        flipped.write_bytes(damaged)
        with pytest.raises(PackError, match=re.escape(str(flipped))):
            list(read_pack(flipped))


def test_what_is_wrong_is_said_with_the_place(tmp_path: Path) -> None:
    whole = small(tmp_path).read_bytes()
    position = whole.index(b"one")
    frame = whole.rindex(b"B", 0, position - 61)
    path = tmp_path / "damaged"
    path.write_bytes(whole.replace(b"one", b"two"))
    with pytest.raises(
        PackError, match=f"damaged in the frame at byte {frame}, in its header: the checksum is .{{8}}, "
    ):
        open_pack(str(path))
    end = whole.rindex(b"E", 0, whole.rindex(b'"end_offsets"'))
    path.write_bytes(whole[:end])
    with pytest.raises(
        PackError, match=f"byte {end}, before another frame, after offset 8 of partition 0 of topic 'or"
    ):
        open_pack(str(path))
    path.write_bytes(whole + b"\n")
    with pytest.raises(PackError, match=f"bytes follow its end at byte {len(whole)}"):
        open_pack(str(path))


def test_frames_of_another_pack_are_refused_though_each_is_whole(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, {("orders", 0): plain(name.encode())}).read_bytes() for name in ("one", "two"))
    first, second = (frames_of(data) for data in (one, other))
    mixed = tmp_path / "mixed"
    mixed.write_bytes(BEGINNING + first[0] + first[1] + second[2])
    with pytest.raises(PackError, match="the checksum is"):
        open_pack(str(mixed))
    mixed.write_bytes(BEGINNING + b"".join(first))
    assert mixed.read_bytes() == one


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "this is no file that `sordini topics pack` has written"),
        (b"PK\3\4 something else", "this is no file that"),
        (b"sordini-pack 2\nH", "version 2 of packs; this release reads version 1"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(PackError, match=said):
        open_pack(str(tmp_path / "file"))


def frames_of(whole: bytes) -> list[bytes]:
    frames, position = [], len(BEGINNING)
    while position < len(whole):
        end = position + FRAME.size + FRAME.unpack_from(whole, position)[1]
        frames.append(whole[position:end])
        position = end
    return frames


def with_frames(whole: bytes, change: list[bytes] | None = None, order: tuple[int, ...] | None = None) -> bytes:
    """The same file with other contents of frames, or with them in another order, and right checksums."""
    contents = [(frame[0], frame[FRAME.size :]) for frame in frames_of(whole)]
    if change is not None:
        contents[1:-1] = [(BATCH, one) for one in change]
    if order is not None:
        contents = [contents[number] for number in order]
    out, checksum = BEGINNING, 0
    for kind, content in contents:
        frame, checksum = framed(kind, content, checksum)
        out += frame
    return out


def test_batches_that_a_pack_may_not_have_are_refused_though_the_checksum_is_right(tmp_path: Path) -> None:
    whole = small(tmp_path).read_bytes()
    path = tmp_path / "other"
    good = gap(7, 9)
    cases = [
        ([b"\0\0\0\0" + good, b"\0\0\0\0" + good], "a batch from offset 7 on is not what follows"),
        ([b"\0\0\0\5" + good], "a batch is none that a pack may have"),
        ([b"\0\0\0\0" + good + b"x"], "a batch is none that a pack may have"),
        ([b"\0\0\0\0" + good[:-1]], "neither a batch nor the end"),
        (
            [b"\0\0\0\0" + good[:22] + b"\x20" + good[23:]],
            "a batch is none that a pack may have",
        ),  # Of control records.
        ([b"\0\0\0\0" + good], "its batches are not those that its end names"),
    ]
    for frames, said in cases:
        path.write_bytes(with_frames(whole, frames))
        with pytest.raises(PackError, match=said):
            open_pack(str(path))
    path.write_bytes(with_frames(whole, order=(1, 0, 2)))
    with pytest.raises(PackError, match="its first frame is no header"):
        open_pack(str(path))
    path.write_bytes(with_frames(whole, order=(0, 0, 1, 2)))
    with pytest.raises(PackError, match="a frame is neither a batch nor the end"):
        open_pack(str(path))
    path.write_bytes(with_frames(whole))
    assert open_pack(str(path)).ending.records == (2, 0)


def test_some_topics_of_a_pack_can_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("bills", 0): plain(b"b"), ("orders", 0): plain(b"o")})
    assert [record.value for record in read_pack(path)] == [b"b", b"o"]
    (record,) = read_pack(path, ["orders"])
    assert record == ("orders", 0, 0, 1_000, b"k", b"o", ())
    with pytest.raises(ValueError, match="'order' is not in the pack; these are: bills, orders"):
        list(read_pack(path, ["order"]))
