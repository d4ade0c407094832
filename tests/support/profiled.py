"""Counting calls by the interpreter's profile hook: a cost that no load of the machine can disturb."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sordini

ProfileHook = Callable[[FrameType, str, Any], None]
PACKAGE = str(Path(sordini.__file__).parent)
BESIDE = (str(Path(__file__).parents[1]), str(Path(sordini.__file__).parent / "testing"))
"""Tests and the test kit, whose disks and loops stand for the system."""

_places: dict[CodeType, bool] = {}


def is_ours(code: CodeType) -> bool:
    """Whether a function is the broker's: with compiled decoders and named tuples, without tests, their kit and libraries."""
    place = _places.get(code)
    if place is None:
        name = code.co_filename
        inside = name.startswith(PACKAGE) and not name.startswith(BESIDE) and ".venv" not in name
        place = _places[code] = inside or name.startswith("<")
    return place


@contextmanager
def profiled(hook: ProfileHook) -> Iterator[None]:
    """Have `hook` called at every call and return of this thread.

    Garbage is not collected meanwhile: libraries (hypothesis) have callbacks at a collection, which would be counted
    whenever it happens to fall into the measured work.
    """
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
