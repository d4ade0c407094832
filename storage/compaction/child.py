"""The process in which logs are compacted: a task a line in, an answer a line out, until its input ends.

    in    a task as JSON (`CleaningTask.as_json`)
    out   {"result": ...} (`CleaningResult.as_json`) or {"error": "...", "kind": "damage", "full", "io" or "bug"}

Judging records is work for a processor, so it must not be done beside the event loop. This is the one place below the
broker that reads a clock: a process of its own has no other to take it from.
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
from sordini.storage.disk import SystemDisk
from sordini.storage.log_dir_handle import PASSING


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def answer(disk: SystemDisk, clock: SystemClock, line: str) -> dict[str, Any]:
    """Carry out the task of one line."""
    try:
        return {"result": clean(disk, CleaningTask.from_json(json.loads(line)), clock).as_json()}
    except DamagedSegment as error:
        return {"error": str(error), "kind": "damage"}
    except OSError as error:
        return {"error": str(error), "kind": "full" if error.errno in PASSING else "io"}
    except Exception:  # noqa: BLE001 - the broker, which can log it, is to be told whatever it was.
        return {"error": traceback.format_exc(), "kind": "bug"}


def _listen(lines: SimpleQueue[str]) -> None:
    """Take tasks in, and end the process with its input, also in the middle of a task: the broker has gone.

    It may be started again at once, and nobody else may then be at work in its directories.
    """
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    # A key pressed at the broker's terminal is the broker's business, which then ends this process in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is made here by the million has no cycles.
    gc.disable()
    disk = SystemDisk()
    clock = SystemClock()
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    while True:
        line = lines.get()
        print(json.dumps(answer(disk, clock, line)), flush=True)  # noqa: T201 - the answer is its output.


if __name__ == "__main__":
    main()
