"""Compacted segments replace old ones: after a crash at any time there are the old or the new."""

from __future__ import annotations

import errno

import pytest

from sordini.storage.compaction.segment_replacement import OutdatedResult, portions, stage, swap_in
from sordini.storage.compaction.task import CleaningFigures, CleaningResult, Replacement
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.temporary_files import complete_interrupted
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.compacted_logs import Compacting, Held, cleaning_of, held_by
from tests.support.log_model import a_disk

FIGURES = CleaningFigures(0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)

# Old segments, and the room of a new one: how many replacements that makes, and which of them end early.
HISTORIES: dict[str, tuple[int, list[str]]] = {
    "one group": (2_000, ["a1 b1|c1", "a2 d1|b2", "a3 e1", "f1"]),
    "several groups": (350, ["a1 b1|c1", "a2|x1|b2", "c2 y1", "a3 d1|e1", "z1 a4|b3", "f1|a5", "g1", "h1"]),
    # The dirty part's end has newer records for all keys of the group's last segments.
    "the last segments become empty": (2_000, ["a1 b1|c1", "d1", "d2", "d3", "d4 a2"]),
    "a whole group becomes empty": (250, ["a1|b1", "a2|b2", "c1|d1", "a3|b3", "e1 c2"]),
    "segments end before the last one": (430, ["a1 b1|c1", "a2 x1", "a3 x2", "x3 a4", "a5 b3", "f1|x4", "y2 x5", "h1"]),
    "everything becomes empty": (2_000, ["a1", "a2", "a3", "b1"]),
}


async def a_store(name: str, disk: ForgetfulDisk | None = None) -> tuple[Compacting, CleaningResult]:
    room, history = HISTORIES[name]
    store = Compacting(disk, segment_bytes=room, file_delete_delay_ms=0)
    await store.filled(*history)
    return store, cleaning_of(store.log, store.now_ms)


async def swap(log: Log, result: CleaningResult) -> None:
    await swap_in(log, result, log.truncations, lambda: 0)


async def after(name: str) -> Held:
    store, result = await a_store(name)
    await swap(store.log, result)
    return held_by(store.log)


def reopened(disk: ForgetfulDisk, name: str) -> Held:
    """What the next process finds, which is what the one after it finds, to the byte."""
    store = Compacting(disk, segment_bytes=HISTORIES[name][0])
    found = held_by(store.log)
    first = {path: data for path, data in disk.tree().items() if path.endswith((".log", ".txnindex"))}
    again = disk.killed()
    second = Compacting(again, segment_bytes=HISTORIES[name][0])
    assert held_by(second.log) == found
    assert {path: data for path, data in again.tree().items() if path.endswith((".log", ".txnindex"))} == first
    assert store.files(".cleaned", ".swap", ".deleted") == []
    ends = [segment.base for segment in store.log.segments.all()]
    assert ends == sorted(set(ends))
    return found


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_swap_leaves_the_new_segments_under_the_names_of_the_old(name: str) -> None:
    store, result = await a_store(name)
    before = held_by(store.log)
    await swap(store.log, result)
    now = held_by(store.log)
    assert set(now) < set(before)
    newest = {key: (offset, key, value) for offset, key, value in before if offset < result.cleaned_to}
    assert set(newest.values()) <= set(now)
    assert store.files(".cleaned", ".swap") == []
    assert store.log.compaction.first_dirty_offset == result.cleaned_to
    assert reopened(store.disk.killed(), name) == now


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_crash_anywhere_in_a_swap_leaves_the_old_segments_or_the_new(name: str) -> None:
    new = await after(name)
    outcomes = set()
    call = 1
    while True:
        store, result = await a_store(name)
        old = held_by(store.log)
        store.disk.die_at(call)
        try:
            await swap(store.log, result)
        except Died:
            survivors = [store.disk.killed(), *(store.disk.power_lost(100 * call + seed) for seed in range(2))]
            for survivor in survivors:
                found = reopened(survivor, name)
                assert found in (old, new), f"call {call} of {store.disk.log[-1]}"
                outcomes.add("old" if found == old else "new")
        else:
            break
        call += 1
    assert call > 12
    assert outcomes == {"old", "new"}


def one_by_one(result: CleaningResult) -> list[CleaningResult]:
    """The result as so many that each have one replacement."""
    return [CleaningResult((made,), made.base, FIGURES) for made in result.replacements]


@pytest.mark.parametrize("name", ["several groups", "a whole group becomes empty", "segments end before the last one"])
async def test_a_swap_in_parts_leaves_each_part_old_or_new(name: str) -> None:
    store, result = await a_store(name)
    states = [held_by(store.log)]
    for part in one_by_one(result):
        await swap(store.log, part)
        if held_by(store.log) != states[-1]:
            states.append(held_by(store.log))
    assert len(states) > 1
    found: list[int] = []
    call = 1
    while True:
        store, result = await a_store(name)
        store.disk.die_at(call)
        try:
            for part in one_by_one(result):
                await swap(store.log, part)
        except Died:
            survivors = (store.disk.killed(), store.disk.power_lost(call))
            found += [states.index(reopened(survivor, name)) for survivor in survivors]
        else:
            break
        call += 1
    assert set(found) == set(range(len(states)))
    assert found[0::2] == sorted(found[0::2])


async def test_an_empty_stand_in_covers_what_lies_past_the_end_of_the_last_replacement() -> None:
    store, result = await a_store("segments end before the last one")
    stage(store.log, result.replacements[:1])
    assert store.log.compaction.staged is not None
    assert store.log.compaction.staged.placeholder == result.replacements[0].replaces[-1]


@pytest.mark.parametrize("name", ["one group", "segments end before the last one"])
async def test_a_crash_while_a_crashed_swap_is_completed_or_undone_is_recovered_from(name: str) -> None:
    new = await after(name)
    store, result = await a_store(name)
    old = held_by(store.log)
    calls = 0
    for struck in range(2, 200, 3):
        store, result = await a_store(name)
        store.disk.die_at(struck)
        try:
            await swap(store.log, result)
            break
        except Died:
            pass
        for call in range(1, 100):
            survivor = store.disk.killed()
            survivor.die_at(call)
            try:
                complete_interrupted(survivor, store.log.directory)
                break
            except Died:
                calls += 1
            found = reopened(survivor.power_lost(call), name)
            assert found in (old, new), f"{struck}, then {call}"
    assert calls > 12


async def test_apache_kafkas_order_of_renames_is_understood() -> None:
    store, result = await a_store("one group")
    new = await after("one group")
    old = held_by(store.log)
    directory = store.log.directory
    (made,) = result.replacements
    disk = store.disk

    def rename(suffix: str, old_end: str, new_end: str) -> None:
        path = f"{directory}/{made.base:020d}{suffix}"
        disk.rename(path + old_end, path + new_end)

    # The log file is renamed first, here and at the end: while an index is still `.cleaned`, nothing is replaced.
    rename(".log", ".cleaned", ".swap")
    assert reopened(disk.killed(), "one group") == old
    rename(".index", ".cleaned", ".swap")
    rename(".timeindex", ".cleaned", ".swap")
    assert reopened(disk.killed(), "one group") == new
    for base in made.replaces:
        for suffix in (".log", ".index", ".timeindex"):
            disk.rename(f"{directory}/{base:020d}{suffix}", f"{directory}/{base:020d}{suffix}.deleted")
            assert reopened(disk.killed(), "one group") == new
    rename(".log", ".swap", "")
    assert reopened(disk.killed(), "one group") == new
    rename(".index", ".swap", "")
    assert reopened(disk.killed(), "one group") == new


async def test_an_abort_index_that_waits_for_its_name_is_not_lost() -> None:
    disk = a_disk()
    directory = "/data/orders-3"
    for name in ("00000000000000000000.log", "00000000000000000000.txnindex.swap", "00000000000000000005.index.swap"):
        disk.replace(f"{directory}/{name}", b"")
    assert complete_interrupted(disk, directory) == ["00000000000000000000.log", "00000000000000000000.txnindex"]


async def test_a_new_segment_is_never_without_its_abort_index() -> None:
    found, call = set(), 1
    while True:
        store, result = await a_store("one group")
        stem = f"{store.log.directory}/{0:020d}"
        store.disk.replace(f"{stem}.txnindex.cleaned", bytes(34))
        store.disk.die_at(call)
        try:
            await swap(store.log, result)
            break
        except Died:
            survivor = store.disk.killed()
            complete_interrupted(survivor, store.log.directory)
            is_new = survivor.file_size(f"{stem}.log") == result.replacements[0].size
            assert survivor.exists(f"{stem}.txnindex") == is_new
            found.add(is_new)
        call += 1
    assert found == {False, True}
    assert store.log.segments.all()[0].transactions.exists


async def test_an_old_abort_index_does_not_outlive_its_segment() -> None:
    disk = a_disk()
    directory = "/data/orders-3"
    for name in ("00000000000000000000.log.swap", "00000000000000000000.log", "00000000000000000000.txnindex"):
        disk.replace(f"{directory}/{name}", b"")
    assert complete_interrupted(disk, directory) == ["00000000000000000000.log"]


@pytest.mark.parametrize(
    ("replacements", "why"),
    [
        ((Replacement(1, 0, (1, 3)),), "no closed segment 1"),
        ((Replacement(0, 0, (0, 6)),), "not the segments"),
        ((Replacement(6, 0, (6, 8)),), "not the segments"),
        ((Replacement(8, 0, (8,)),), "no closed segment 8"),
        ((Replacement(3, 0, (3,)), Replacement(0, 0, (0,))), "no closed segment 0"),
        ((Replacement(0, 5, (0, 3, 6)),), "bytes, not 5"),
        ((Replacement(3, 0, (3, 6)),), "is missing"),
    ],
)
async def test_a_result_that_does_not_fit_the_log_changes_nothing(
    replacements: tuple[Replacement, ...], why: str
) -> None:
    store, _ = await a_store("one group")
    before = store.disk.tree()
    with pytest.raises(OutdatedResult, match=why):
        stage(store.log, replacements)
    assert store.disk.tree() == before


async def test_files_that_a_cleaning_left_before_are_no_part_of_the_swap() -> None:
    new = await after("segments end before the last one")
    call = 1
    while True:
        store, result = await a_store("segments end before the last one")
        old = held_by(store.log)
        store.disk.replace(f"{store.log.directory}/{2:020d}.log.cleaned", b"of another cleaning")
        store.disk.die_at(call)
        try:
            await swap(store.log, result)
        except Died:
            assert reopened(store.disk.killed(), "segments end before the last one") in (old, new)
        else:
            break
        call += 1
    assert reopened(store.disk.killed(), "segments end before the last one") == new


async def test_a_rename_that_fails_for_want_of_room_leaves_the_log_as_it_was() -> None:
    store, result = await a_store("several groups")
    before = held_by(store.log)
    store.disk.fail(3, errno.EIO)
    with pytest.raises(StorageError):
        await swap(store.log, result)
    assert reopened(store.disk.killed(), "several groups") == before


async def test_a_swap_that_fails_half_way_takes_the_directory_and_the_next_start_completes_it() -> None:
    new = await after("several groups")
    store, result = await a_store("several groups")
    sync = await _call_that_syncs("several groups")
    store.disk.fail(sync + 2, errno.EIO)
    with pytest.raises(StorageError):
        await swap(store.log, result)
    assert store.log.log_dir.failure is not None
    assert reopened(store.disk.killed(), "several groups") == new


async def _call_that_syncs(name: str) -> int:
    """Which of a swap's changes it is that makes the new names durable."""
    store, result = await a_store(name)
    before = len(store.disk.log)
    await swap(store.log, result)
    return [kind for kind, _ in store.disk.log[before:]].index("sync directory") + 1


def test_a_large_result_is_swapped_in_parts_that_keep_each_replacement_whole() -> None:
    replacements = tuple(Replacement(10 * number, 1, tuple(range(10 * number, 10 * number + 6))) for number in range(7))
    parts = list(portions(CleaningResult(replacements, 70, FIGURES)))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert [made for part in parts for made in part] == list(replacements)
    huge = Replacement(0, 1, tuple(range(100)))
    assert list(portions(CleaningResult((huge,), 70, FIGURES))) == [(huge,)]
    assert list(portions(CleaningResult((), 70, FIGURES))) == []
