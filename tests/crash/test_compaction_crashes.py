"""A compaction is struck at every call: the log that is found is the old one or the new one, never half of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from sordini.storage import names, temporary_files
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.compaction import COMPACTED, Keyed, Line, lines, newest_values
from tests.crash.expected_log import Violation
from tests.crash.planted import patched, unsynced
from tests.support.log_model import PARTITION, a_manager

SHARES = (0.0, 0.5, 1.0)
KEPT = range(2)


@pytest.fixture(scope="module")
def filled() -> Keyed:
    """A store that was filled and stopped; `again` opens a copy of it."""
    store = Keyed()
    asyncio.run(store.fill())
    return store


async def _old_and_new(filled: Keyed) -> tuple[list[Line], list[Line]]:
    store = filled.again()
    old = lines(store.log, store.disk)
    await store.compact()
    return old, lines(store.log, store.disk)


async def _struck(filled: Keyed, call: int) -> Keyed | None:
    """A store whose process crashed at that call of a compaction; None when it has fewer calls."""
    store = filled.again()
    store.disk.die_at(call, SHARES[call % 3])
    try:
        await store.compact()
    except Died:
        return store
    return None


def _found(disk: ForgetfulDisk, store: Keyed) -> list[Line]:
    """What the next process finds; opened again, it finds the same bytes."""
    manager = a_manager(disk, COMPACTED)
    manager.open(store.now_ms)
    assert manager.offline_directories == []
    log = manager.get(PARTITION)
    assert log is not None
    found = lines(log, disk)
    assert log.log_end_offset == store.log.log_end_offset
    entries = {entry.producer_id: (entry.epoch, entry.last_sequence) for entry in log.producers.entries()}
    assert entries == {entry.producer_id: (entry.epoch, entry.last_sequence) for entry in store.log.producers.entries()}
    before = disk.tree()
    assert not [path for path in before if path.endswith((names.CLEANED, names.SWAP, names.DELETED))]
    again = disk.killed()
    a_manager(again, COMPACTED).open(store.now_ms)
    assert again.tree() == before
    return found


async def test_compaction_keeps_the_newest_value_of_every_key(filled: Keyed) -> None:
    old, new = await _old_and_new(filled)
    assert newest_values(new) == newest_values(old)
    assert {line.offset for line in new} < {line.offset for line in old}
    assert len(new) < len(old) - 8


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
async def test_a_compaction_that_crashes_at_any_call_leaves_the_old_or_the_new_log(filled: Keyed, power: bool) -> None:
    old, new = await _old_and_new(filled)
    call, times = 1, {"old": 0, "new": 0}
    while (store := await _struck(filled, call)) is not None:
        for seed in KEPT if power else KEPT[:1]:
            disk = store.disk.power_lost(1_000 * call + seed) if power else store.disk.killed()
            found = _found(disk, store)
            assert found in (old, new), f"call {call}, seed {seed}"
            times["new" if found == new else "old"] += 1
        call += 1
    assert call > 30
    assert min(times.values()) > 5, times


async def test_a_swap_interrupted_by_a_crash_at_startup_is_completed_by_the_next_start(filled: Keyed) -> None:
    old, new = await _old_and_new(filled)
    last = 0
    for call in range(1, 300, 5):
        store = await _struck(filled, call)
        if store is None:
            break
        last = call
        for again in range(1, 12, 3):
            disk = store.disk.power_lost(call)
            disk.die_at(again, SHARES[again % 3])
            manager = a_manager(disk, COMPACTED)
            try:
                manager.open(store.now_ms)
            except Died:
                assert _found(disk.power_lost(again), store) in (old, new), f"calls {call} and {again}"
    assert last > 30


async def test_a_cleaning_that_finds_no_room_leaves_the_log_as_it_was(filled: Keyed) -> None:
    old, new = await _old_and_new(filled)
    healed = 0
    for call in range(1, 80, 2):
        store = filled.again()
        store.disk.fail(call, 28)
        try:
            await store.compact()
        except OSError:
            healed += 1
            assert lines(store.log, store.disk) == old
            assert store.manager.offline_directories == []
        except Exception:  # noqa: BLE001 - the swap refuses in the store's own words; what counts is the log.
            pass
        store.disk.heal()
        assert _found(store.disk.killed(), store) in (old, new), f"call {call}"
    assert healed > 10


def _every_swap(_disk: ForgetfulDisk, _directory: str, file_names: list[str]) -> list[str]:
    return [name for name in file_names if name.endswith(names.SWAP)]


@pytest.mark.parametrize(
    ("what", "plant"),
    [
        ("new segments are not synced before they take their names", lambda: unsynced(_is_compacted)),
        (
            "a start completes a swap of which a part was not yet staged",
            lambda: patched((temporary_files, "_undo_unfinished", _every_swap)),
        ),
    ],
)
async def test_a_planted_bug_of_a_swap_is_found(
    filled: Keyed, what: str, plant: Callable[[], AbstractContextManager[None]]
) -> None:
    old, new = await _old_and_new(filled)
    found = 0
    with plant():
        for call in range(1, 400):
            store = await _struck(filled, call)
            if store is None:
                break
            for seed in KEPT:
                try:
                    found += _found(store.disk.power_lost(1_000 * call + seed), store) not in (old, new)
                except (AssertionError, Violation):
                    found += 1
            if found:
                break
    assert found, what


def _is_compacted(path: str) -> bool:
    return path.endswith(names.CLEANED)
