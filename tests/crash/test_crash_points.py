"""Every storage operation is struck at every call that changes the disk, and the log is opened again."""

from __future__ import annotations

import pytest

from sordini.testing.brokers.loop_processes import Died
from tests.support.log_model import Step, Store, a_disk, check_recovered, run

BEGIN: list[Step] = [Store.open, Store.create]
FILL: list[Step] = [Store.append] * 12

SCRIPTS: dict[str, list[Step]] = {
    "append": [*BEGIN, *[Store.append] * 5, Store.flush, *[Store.append] * 5],
    "roll": [*BEGIN, *FILL, Store.roll, Store.append, Store.tick, Store.roll, Store.append, Store.flush],
    "retention delete": [*BEGIN, *FILL, *FILL, Store.retain, Store.tick, Store.append, Store.tick, Store.tick],
    "checkpoints": [*BEGIN, *FILL, Store.flush, Store.tick, *FILL, Store.tick, Store.append, Store.tick],
    "truncate": [
        *BEGIN,
        *FILL,
        Store.flush,
        Store.tick,
        Store.truncate,
        *FILL,
        Store.flush,
        Store.truncate,
        Store.append,
    ],
    "clean close": [*BEGIN, *FILL, Store.close],
    "delete partition": [*BEGIN, *FILL, Store.flush, Store.tick, Store.delete, Store.tick, Store.tick],
}


async def _strike(script: list[Step], call: int, share: float) -> Store | None:
    """Run a script until the process crashes inside that call; None when the script has fewer calls."""
    store = Store(a_disk())
    store.disk.die_at(call, share)
    try:
        await run(script, store)
    except Died:
        return store
    return None


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_killed_process_loses_nothing_it_had_written(name: str) -> None:
    call = 1
    while (store := await _strike(SCRIPTS[name], call, 0.5 if call % 2 else 0.0)) is not None:
        at_least = 0 if store.deleted else len(store.records)
        check_recovered(store, store.disk.killed(), at_least=at_least)
        call += 1
    assert call > 40


@pytest.mark.parametrize("name", SCRIPTS)
async def test_after_a_power_failure_the_log_is_a_prefix_that_holds_everything_synced(name: str) -> None:
    call = 1
    while (store := await _strike(SCRIPTS[name], call, 0.5)) is not None:
        for seed in range(4):
            check_recovered(store, store.disk.power_lost(1000 * call + seed), at_least=store.synced)
        call += 1


async def test_a_clean_stop_survives_a_power_failure_right_after_it() -> None:
    store = Store(a_disk())
    await run(SCRIPTS["clean close"], store)
    for seed in range(20):
        survivor = store.disk.power_lost(seed)
        assert survivor.exists("/data/.kafka_cleanshutdown")
        check_recovered(store, survivor, at_least=len(store.records))


async def test_a_crash_during_recovery_is_recovered_from() -> None:
    store = Store(a_disk())
    await run([*BEGIN, *FILL, Store.flush, *FILL, Store.truncate, *FILL], store)
    call = 1
    while True:
        survivor = store.disk.power_lost(7)
        survivor.die_at(call, 0.5)
        again = Store(survivor)
        try:
            await again.open()
        except Died:
            for seed in range(3):
                check_recovered(store, survivor.power_lost(seed), at_least=store.synced)
        else:
            break
        call += 1
    assert call > 5
