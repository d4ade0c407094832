"""What an application uses of the machine that has no simulated form: a finding at once, with the place of the call.

An application that is started again and again would die of it each time: the run ends, and says where.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from sordini.testing.brokers.loop_processes import current_process

_KIT: Final = str(Path(__file__).resolve().parents[1])
_PATHS: Final = sysconfig.get_paths()
_LIBRARY: Final = (_PATHS["stdlib"], _PATHS["platstdlib"], "<")
_INSTALLED: Final = (_PATHS["purelib"], _PATHS["platlib"])


class NotSimulated(BaseException):
    """The application used something that has no simulated form; the text says what to use instead.

    No `except Exception` catches it: a blocking client would wait for ever, on a clock that does not move meanwhile.
    """


class Refusals:
    """What was refused in one run."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.on_first: Callable[[str], None] = _nothing
        """Called with the first finding."""

    def refused(self, call: str) -> NotSimulated:
        """Note a call of the application, which is being made; the exception for it."""
        process = current_process()
        who = "test" if process is None else process.name.partition(".")[0]
        if not self.findings:  # What comes after it came of it: the run ends.
            place = _place(sys._getframe(1))  # noqa: SLF001 - there is no public way.
            self.findings.append(f"{who}: not simulated: {call}, at {place}")
            self.on_first(self.findings[0])
        return NotSimulated(call)


def _place(frame: FrameType | None) -> str:
    """File and line of the innermost call of the application, or else of a library that it uses."""
    of_library = ""
    while frame is not None:
        file = frame.f_code.co_filename
        is_installed = file.startswith(_INSTALLED)
        if not _is_kits(file) and (is_installed or not file.startswith(_LIBRARY)):
            place = f"{file}:{frame.f_lineno}"
            if not is_installed:
                return place
            of_library = of_library or place
        frame = frame.f_back
    return of_library or "an unknown place"


def _is_kits(file: str) -> bool:
    return file.startswith(_KIT) or str(Path(file).resolve()).startswith(_KIT)


def _nothing(_: str) -> None:
    """Nothing is called."""
