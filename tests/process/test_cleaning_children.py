"""Children that work for the broker: started when there is work, ended when there is none, and never left behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from sordini.broker.process.cleaning_children import CleaningChildren
from sordini.storage.cleaner import FailureKind, WorkerFailed
from sordini.storage.compaction.task import CleaningTask, SegmentSpan

TASK = CleaningTask(
    directory="/nowhere",
    segments=(),
    first_dirty_offset=7,
    uncleanable_offset=9,
    log_start_offset=0,
    now_ms=0,
    delete_retention_ms=0,
    segment_bytes=1_000,
    segment_index_bytes=1_000,
    index_interval_bytes=100,
    map_bytes=1 << 20,
    map_load_factor=0.9,
    io_buffer_bytes=65_536,
    io_bytes_per_second=float("inf"),
    producers=(),
)
PATIENCE_S = 20.0


def saying(text: str) -> tuple[str, ...]:
    """A child that answers each line with the same."""
    return sys.executable, "-c", f"import sys\nfor line in sys.stdin: print({text!r}, flush=True)"


def running(command: str) -> list[int]:
    """Processes of ours whose command line holds that text."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()) and command in (directory / "cmdline").read_text():
                found.append(int(directory.name))
        except OSError:
            continue
    return found


async def test_an_empty_task_is_answered_by_the_real_child_which_is_used_again() -> None:
    children = CleaningChildren()
    try:
        result = await children.run(TASK)
        assert (result.replacements, result.cleaned_to) == ((), 7)
        first = running("sordini.storage.compaction.child")
        await children.run(TASK)
        assert running("sordini.storage.compaction.child") == first
        assert len(first) == 1
    finally:
        await children.close()
    assert running("sordini.storage.compaction.child") == []


async def test_tasks_at_the_same_time_have_a_child_each() -> None:
    children = CleaningChildren()
    await asyncio.gather(children.run(TASK), children.run(TASK))
    assert children.count == 2
    await children.close()


async def test_a_missing_directory_is_an_error_that_may_pass_and_the_child_goes_on() -> None:
    children = CleaningChildren()
    task = TASK._replace(segments=(SegmentSpan(0, 10, 1, 0, 0),))
    with pytest.raises(WorkerFailed, match="No such file") as raised:
        await children.run(task)
    assert raised.value.kind is FailureKind.PASSING
    assert (children.count, children.died) == (1, 0)
    await children.close()


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        ('{"error": "no room", "kind": "full"}', FailureKind.FULL, "no room"),
        ('{"error": "bad sector", "kind": "io"}', FailureKind.PASSING, "bad sector"),
        ('{"error": "bad batch", "kind": "damage"}', FailureKind.FINAL, "bad batch"),
        ('{"error": "oops", "kind": "bug"}', FailureKind.FINAL, "oops"),
        ('{"other": 1}', FailureKind.FINAL, "invalid answer of a cleaner process"),
        ('{"result": {}}', FailureKind.FINAL, "invalid answer of a cleaner process"),
        ("hello", FailureKind.PASSING, "invalid JSON"),
    ],
)
async def test_the_error_of_a_child_is_reported_with_its_kind(answer: str, kind: FailureKind, why: str) -> None:
    children = CleaningChildren(saying(answer))
    with pytest.raises(WorkerFailed, match=why) as raised:
        await children.run(TASK)
    assert raised.value.kind is kind
    await children.close()


async def test_a_child_that_ends_in_the_middle_of_its_work_is_counted_and_another_takes_the_next_task() -> None:
    children = CleaningChildren((sys.executable, "-c", "import os; os.read(0, 1); os._exit(5)"))
    for _ in range(2):
        with pytest.raises(WorkerFailed, match="ended with status 5"):
            await children.run(TASK)
    assert (children.died, children.count) == (2, 0)
    await children.close()


async def test_a_child_that_hangs_is_killed_when_patience_ends() -> None:
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)  # hangs"
    children = CleaningChildren((sys.executable, "-c", script), patience_s=lambda _: 0.05)
    with pytest.raises(WorkerFailed, match="no answer"):
        await children.run(TASK)
    assert (children.died, running("# hangs")) == (1, [])
    await children.close()


async def test_an_idle_child_ends_by_itself() -> None:
    children = CleaningChildren(saying('{"error": "", "kind": "io"}'), idle_s=0.0)
    with pytest.raises(WorkerFailed):
        await children.run(TASK)
    async with asyncio.timeout(PATIENCE_S):
        while running('"kind": "io"'):  # noqa: ASYNC110 - of another process there is no event.
            await asyncio.sleep(0.01)
    assert children.count == 0
    await children.close()


async def test_a_cleaning_that_is_cancelled_takes_its_child_with_it() -> None:
    children = CleaningChildren((sys.executable, "-c", "import time; time.sleep(1000)  # cancelled"))
    cleaning = asyncio.create_task(children.run(TASK))
    async with asyncio.timeout(PATIENCE_S):
        while not running("# cancelled"):  # noqa: ASYNC110 - as above.
            await asyncio.sleep(0.01)
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    await children.close()
    assert running("# cancelled") == []


async def test_a_missing_program_is_reported() -> None:
    children = CleaningChildren(("/nowhere/at/all",))
    with pytest.raises(WorkerFailed, match="no process could be started"):
        await children.run(TASK)
    await children.close()
