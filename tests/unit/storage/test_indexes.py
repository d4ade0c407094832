"""Offset and time indexes: look-ups against a list, preallocation, trimming, damage."""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.storage.index_entries import UNWRITTEN_BYTES_MAX, DamagedIndex
from sordini.storage.offset_index import OffsetIndex
from sordini.storage.open_files import Handle, OpenFiles
from sordini.storage.time_index import TimeIndex
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.watched_disk import Watched


def a_handle(data: bytes = b"") -> tuple[ForgetfulDisk, Handle]:
    disk = ForgetfulDisk()
    disk.replace("/d/i", data)
    return disk, Handle(OpenFiles(disk, 10), "/d/i")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=1_500), st.lists(st.integers(-5, 80_000), max_size=20))
def test_an_offset_is_found_as_in_a_sorted_list(steps: list[int], asked: list[int]) -> None:
    _, handle = a_handle()
    index = OffsetIndex(handle, 1_000)
    offset, offsets = 1_000, []
    for number, step in enumerate(steps):
        offset += step
        offsets.append(offset)
        index.append(offset, 100 * (number + 1), entries_max=2_000)
    for target in [*(1_000 + number for number in asked), *offsets[::97]]:
        assert index.lookup(target) == 100 * bisect_right(offsets, target)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=1_500), st.lists(st.integers(0, 9_000), max_size=30))
def test_a_time_is_found_as_in_a_sorted_list(steps: list[int], asked: list[int]) -> None:
    _, handle = a_handle()
    times = TimeIndex(handle, 0)
    entries = list(zip(accumulate(steps), range(len(steps)), strict=True))
    for timestamp, offset in entries:
        times.append(timestamp, offset, entries_max=2_000)
    for target in [*asked, *(timestamp for timestamp, _ in entries[::97])]:
        earlier = [entry for entry in entries if entry[0] <= target]
        assert times.lookup(target) == (earlier[-1] if earlier else None)


def test_a_look_up_near_the_end_touches_the_warm_section_alone_and_then_nothing() -> None:
    disk = Watched()
    disk.replace("/d/i", b"".join(struct.pack(">ii", number, number) for number in range(1, 100_001)))
    index = OffsetIndex(Handle(OpenFiles(disk, 10), "/d/i"), 0)
    index.load(log_bytes=1_000_000)
    warm = 8 * 100_000 - 8192
    disk.reads.clear()
    assert index.lookup(99_990) == 99_990
    assert disk.reads == [(warm, 8192)]
    disk.reads.clear()
    assert [index.lookup(offset) for offset in range(99_000, 99_990)] == list(range(99_000, 99_990))
    assert disk.reads == []
    assert index.lookup(5) == 5
    assert index.lookup(99_980) == 99_980
    cold = [position for position, _ in disk.reads]
    assert min(cold) < warm
    disk.reads.clear()
    assert [index.lookup(offset) for offset in (6, 99_981, 7)] == [6, 99_981, 7]
    assert disk.reads == [], "an old reader and one at the end do not take each other's block"


def test_one_read_serves_every_offset_of_a_cold_block_up_to_the_next() -> None:
    disk = Watched()
    disk.replace("/d/i", b"".join(struct.pack(">ii", 10 * number, number) for number in range(1, 5_001)))
    index = OffsetIndex(Handle(OpenFiles(disk, 10), "/d/i"), 0)
    index.load(log_bytes=1_000_000)
    assert index.lookup(20) == 2
    disk.reads.clear()
    assert [index.lookup(offset) for offset in range(10, 10 * 513)] == [offset // 10 for offset in range(10, 10 * 513)]
    assert disk.reads == []


@pytest.mark.parametrize("entries", [2_000, 20_000, 200_000])
def test_a_lookup_at_random_costs_one_read_whatever_the_size_of_the_index_once_each_block_was_searched(
    entries: int,
) -> None:
    disk = Watched()
    disk.replace("/d/i", b"".join(struct.pack(">ii", 10 * number, number) for number in range(1, entries + 1)))
    disk.replace("/d/t", b"".join(struct.pack(">qi", 10 * number, number) for number in range(1, entries + 1)))
    files = OpenFiles(disk, 10)
    index, times = OffsetIndex(Handle(files, "/d/i"), 0), TimeIndex(Handle(files, "/d/t"), 0)
    index.load(log_bytes=1_000_000)
    times.load()
    for number in range(1, entries, 256):
        assert index.lookup(10 * number + 5) == number
        assert times.lookup(10 * number + 5) == (10 * number, number)
    disk.reads.clear()
    sought = [number * 7_919 % entries + 1 for number in range(50)]
    for number in sought:
        assert index.lookup(10 * number + 5) == number
        assert times.lookup(10 * number + 5) == (10 * number, number)
    assert len(disk.reads) <= 2 * len(sought)
    assert max(size for _, size in disk.reads) <= 513 * 12


def test_a_search_of_an_index_that_was_truncated_and_written_again_finds_the_new_entries() -> None:
    _, handle = a_handle()
    index = OffsetIndex(handle, 0)
    for step in (10, 20):
        for number in range(1, 4_001):
            index.append(step * number, step * number, entries_max=8_000)
        for sought in (25, 9_999, 20_001, 39_995):
            assert index.lookup(sought) == sought // step * step
        index.truncate_to(5, 0)


def test_entries_that_are_appended_between_searches_are_found() -> None:
    _, handle = a_handle()
    index = OffsetIndex(handle, 0)
    for number in range(1, 4_001):
        index.append(10 * number, number, entries_max=5_000)
        if number % 300 == 0:
            assert [index.lookup(10 * sought + 5) for sought in (number - 1, number - 250, 1)] == [
                number - 1,
                number - 250,
                1,
            ]


def test_what_damage_makes_negative_is_read_as_past_every_log() -> None:
    entries = [(1, 10), (2, -(2**31)), (3, 30), (4, 40)]
    _, handle = a_handle(b"".join(struct.pack(">ii", *entry) for entry in entries))
    index = OffsetIndex(handle, 0)
    index.load(log_bytes=50)
    assert index.lookup(2) == 2**31


def test_entries_are_written_some_at_a_time_into_a_padded_file_and_trimming_writes_the_rest() -> None:
    disk, handle = a_handle()
    index = OffsetIndex(handle, 0)
    entries = [(10 * number, 500 + number) for number in range(UNWRITTEN_BYTES_MAX // 8 + 1)]
    for entry in entries[:-2]:
        index.append(*entry, entries_max=1024)
    assert (disk.contents("/d/i"), index.needs_trim) == (b"", True)
    assert [index.lookup(offset + 5) for offset, _ in entries[:-2]] == [position for _, position in entries[:-2]]
    for entry in entries[-2:]:
        index.append(*entry, entries_max=1024)
    packed = b"".join(struct.pack(">II", *entry) for entry in entries)
    assert disk.contents("/d/i") == packed[:-8] + bytes(1024 * 8 - len(packed) + 8)
    assert [index.lookup(offset + 5) for offset, _ in entries] == [position for _, position in entries]
    index.trim()
    assert (disk.contents("/d/i"), index.needs_trim) == (packed, False)
    again = OffsetIndex(handle, 0)
    again.load(log_bytes=600)
    assert (again.count, again.last_offset, again.last_position) == (len(entries), *entries[-1])


def test_entries_that_cannot_be_written_are_left_out_and_the_next_ones_are_added() -> None:
    disk, handle = a_handle()
    index = OffsetIndex(handle, 0)
    for number in range(1, 41):
        index.append(10 * number, number, entries_max=1000)
    disk.fail_while(lambda call, path: call == "write", errno.ENOSPC)
    written = UNWRITTEN_BYTES_MAX // 8
    for number in range(41, 2 * written):
        index.append(10 * number, number, entries_max=1000)
    with pytest.raises(OSError, match="space"):
        index.append(20 * written, 2 * written, entries_max=1000)
    assert (index.count, index.last_offset, index.last_position) == (written, 10 * written, written)
    assert index.lookup(999) == written
    disk.heal_faults()
    index.append(1000, 100, entries_max=1000)
    index.trim()
    assert [index.lookup(offset) for offset in (15, 999, 1001)] == [1, written, 100]
    assert disk.file_size("/d/i") == 8 * (written + 1)


@given(st.integers(0, 90), st.lists(st.integers(0, 100), max_size=6))
def test_truncating_drops_entries_written_or_not(appended: int, kept: list[int]) -> None:
    disk, handle = a_handle()
    index = OffsetIndex(handle, 0)
    left: list[int] = []
    for last in [100, *kept]:
        for number in range((left[-1] if left else 0) + 1, (left[-1] if left else 0) + 1 + appended):
            index.append(10 * number, number, entries_max=2000)
            left.append(number)
        index.truncate_to(10 * last, 10_000)
        left = [number for number in left if number < last]
        assert [index.lookup(10 * number + 1) for number in left] == left
        assert disk.contents("/d/i") == b"".join(struct.pack(">II", 10 * number, number) for number in left)


@pytest.mark.parametrize("data", [b"123", bytes(16), bytes.fromhex("00000009000001f4") + bytes(8)])
def test_a_padded_or_cut_index_is_damaged(data: bytes) -> None:
    _, handle = a_handle(data)
    with pytest.raises(DamagedIndex):
        OffsetIndex(handle, 0).load(log_bytes=600)


def test_an_index_that_points_past_the_log_is_damaged() -> None:
    _, handle = a_handle(bytes.fromhex("00000009000001f4"))
    with pytest.raises(DamagedIndex):
        OffsetIndex(handle, 0).load(log_bytes=500)


def test_truncating_an_index_drops_the_entries_from_there_on() -> None:
    _, handle = a_handle()
    index = OffsetIndex(handle, 0)
    for number in range(1, 6):
        index.append(10 * number, 100 * number, entries_max=8)
    index.truncate_to(30, 10_000)
    assert (index.count, index.lookup(99)) == (2, 200)
    index.append(33, 300, entries_max=8)
    assert index.lookup(33) == 300


def test_a_time_entry_is_only_made_when_the_time_grew() -> None:
    _, handle = a_handle()
    times = TimeIndex(handle, 0)
    for timestamp, offset in [(5, 1), (5, 2), (4, 3), (9, 4)]:
        times.append(timestamp, offset, entries_max=8)
    assert times.count == 2
    assert [times.lookup(at) for at in (4, 5, 8, 9, 100)] == [None, (5, 1), (5, 1), (9, 4), (9, 4)]


@pytest.mark.parametrize("size", [1, 12, 24, 120])
def test_a_time_index_of_zeros_is_damaged(size: int) -> None:
    _, handle = a_handle(bytes(size))
    with pytest.raises(DamagedIndex):
        TimeIndex(handle, 0).load()


def test_a_time_index_with_a_tail_of_zeros_is_damaged() -> None:
    _, handle = a_handle((7).to_bytes(8, "big") + (3).to_bytes(4, "big") + bytes(12))
    with pytest.raises(DamagedIndex):
        TimeIndex(handle, 0).load()


def test_no_more_files_stay_open_than_the_limit_and_pinned_ones_stay() -> None:
    disk = ForgetfulDisk()
    for number in range(20):
        disk.replace(f"/d/{number}", b"%d" % number)
    files = OpenFiles(disk, 5)
    handles = [Handle(files, f"/d/{number}") for number in range(20)]
    pinned = handles[0].pin()
    for _ in range(3):
        for number, handle in enumerate(handles):
            assert handle.reopen().read_at(0, 9) == b"%d" % number
            assert disk.open_files == files.open_count <= 5
    assert pinned.read_at(0, 9) == b"0"


def test_a_retired_file_closes_with_its_last_pin() -> None:
    disk, handle = a_handle(b"old")
    file = handle.pin()
    handle.pin()
    disk.remove("/d/i")
    handle.retire()
    handle.unpin()
    assert file.read_at(0, 9) == b"old"
    handle.unpin()
    assert disk.open_files == 0


def test_a_cleared_index_has_none_of_its_entries_written_or_not() -> None:
    disk, handle = a_handle()
    index = OffsetIndex(handle, 0)
    for number in range(1, 50):
        index.append(10 * number, number, entries_max=1000)
    index.clear()
    assert (index.count, index.last_offset, index.lookup(999)) == (0, 0, 0)
    index.append(7, 3, entries_max=1000)
    index.trim()
    assert disk.contents("/d/i") == struct.pack(">II", 7, 3)
