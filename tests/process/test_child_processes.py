"""Pools of child processes: what a killed child leaves behind, and what becomes of idle ones."""

from __future__ import annotations

import asyncio
import sys

from sordini.system.child_processes import Children
from sordini.system.processes import ProcessHandle

SECONDS_MAX = 30.0
PARENT = """
import json, subprocess, sys
for line in sys.stdin:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
    print(json.dumps({"pid": started.pid}), flush=True)
"""
SILENT = "import sys; sys.stdin.read()"


async def test_a_child_that_is_killed_leaves_no_process_of_its_own_behind() -> None:
    children = Children([sys.executable, "-c", PARENT], idle_s=60, niceness=0)
    child = await children.take()
    started = ProcessHandle((await child.request({}))["pid"])
    await children.lose(child)
    assert await asyncio.to_thread(started.has_ended, SECONDS_MAX)


async def test_idle_children_end_but_for_those_that_are_retained() -> None:
    children = Children([sys.executable, "-c", SILENT], idle_s=0.01, niceness=0, retained=1)
    both = [await children.take(), await children.take()]
    ends = [ProcessHandle(child.pid) for child in both]
    for child in both:
        children.give_back(child)
    waiting = [asyncio.create_task(asyncio.to_thread(end.has_ended, SECONDS_MAX)) for end in ends]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert children.idle_count == 1
    assert [end.has_ended(0) for end in ends].count(True) == 1
    await children.close()
    assert await asyncio.gather(*waiting) == [True, True]
