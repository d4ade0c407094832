"""Which part of what takes long a run has: SORDINI_PART.

Without it, a run has a short slice, the same each time. With a number it has more, and another part for the next number:
`.ci/run` takes one from the commit id. `all` is everything (`make parts`).

Tests marked `slow` are in no plain run: others there have their subject, and these cost more than a second of processor
time. A number selects the files of one part, so that what the tests of a file share is started once; `make slow` has all
of them, and so has the target of a folder (`make pipeline`, `make spin`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
PART = os.environ.get("SORDINI_PART", "")
SLOW = "slow: not in a plain run; SORDINI_PART is `all`, as `make slow` sets it, or a number of the file's part"
SLOW_PARTS = 6
FOLDER_PARTS = 5
"""One of so many long folders is in a run of `.ci/run`, by the same number."""


def part_of(cases: Sequence[T], count: int, part: str = PART) -> list[T]:
    """`count` of the cases, in their order."""
    if part == "all" or count >= len(cases):
        return list(cases)
    first = int(part or 0) * count
    chosen = {(first + each) % len(cases) for each in range(count)}
    return [case for index, case in enumerate(cases) if index in chosen]


def every(step: int, cases: Sequence[T], part: str = PART) -> list[T]:
    """Every `step`-th of the cases: those of successive parts together are all."""
    return list(cases) if part == "all" else list(cases[int(part or 0) % step :: step])


def examples(count: int, part: str = PART) -> int:
    """How many examples of a property a run draws: a quarter of them when nothing is asked for."""
    return count if part else max(count // 4, 1)


def leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker("slow") and not has_slow(item.nodeid)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        without = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in without]


def has_slow(nodeid: str, part: str = PART) -> bool:
    """Whether a test that is marked so is in the run."""
    if not part.isdigit():
        return part == "all"
    chosen = int(part) // FOLDER_PARTS % SLOW_PARTS  # Every part meets every folder.
    return zlib.crc32(nodeid.partition("::")[0].encode()) % SLOW_PARTS == chosen
