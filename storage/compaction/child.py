"""The child process that compacts logs: one task per input line, one result per output line, until its input ends.

    in    a task as JSON (`CleaningTask.as_json`)
    out   {"result": ...} (`CleaningResult.as_json`) or {"error": "...", "kind": "damage", "full", "io" or "bug"}

Compaction is CPU-bound, so it must not share a process with the event loop. This is the only module below the broker
that reads a clock: no other process hands it one.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from queue import SimpleQueue
from typing import Any

from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.task import CleaningTask
from sordini.storage.directory_failure import PASSING
from sordini.storage.disk import SystemDisk


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def answer(disk: SystemDisk, clock: SystemClock, line: str) -> dict[str, Any]:
    """Run the task of one line."""
    try:
        return {"result": clean(disk, CleaningTask.from_json(json.loads(line)), clock).as_json()}
    except DamagedSegment as error:
        return {"error": str(error), "kind": "damage"}
    except OSError as error:
        return {"error": str(error), "kind": "full" if error.errno in PASSING else "io"}
    except Exception:  # noqa: BLE001 - the broker logs it, whatever it is.
        return {"error": traceback.format_exc(), "kind": "bug"}


def _read_tasks(lines: SimpleQueue[str]) -> None:
    """Queue tasks, and exit at the end of input, also in the middle of a task: the broker has exited.

    A restarted broker must not meet another process that works in its directories.
    """
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    # The broker handles Ctrl-C at its terminal, and then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The millions of objects made here have no cycles.
    gc.disable()
    disk = SystemDisk()
    clock = SystemClock()
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read_tasks, args=(lines,), daemon=True).start()
    while True:
        line = lines.get()
        print(json.dumps(answer(disk, clock, line)), flush=True)  # noqa: T201 - the result is its output.


if __name__ == "__main__":
    main()
