"""How much work on records may be done at once: a sum of steps that is spent before the work is done.

What a record set costs to open is not known from its size: 2 KiB may expand to 62 MiB, and one record may hold half a
million headers. So the functions that open, check and write records charge an `Effort` as they go along. The event
loop gives a small one (`INLINE_STEPS`): when it is spent, `TooLong` ends the work, nothing has changed, and the same
work is done from its beginning in a child process (`jobs.py`). There the processor time is bounded instead.

One step stands for about a microsecond of a slow core. The rates are measured with the worst input of their kind
(tests/support/worst_batches.py); ordinary input costs a fraction of what it is charged.
"""

from __future__ import annotations

from typing import Final

INLINE_STEPS: Final = 10_000
"""Of one request, on the loop: at most about 10 ms."""
BYTES_PER_STEP: Final = 200
"""Expanded."""
COMPILED_RECORDS_PER_STEP: Final = 3
"""Read by the compiled reader."""
RECORD_STEPS: Final = 4
"""One record or message read in Python, checked or written."""
HEADER_STEPS: Final = 1
"""One header of a record."""


class TooLong(Exception):
    """The work takes more steps than are left. Nothing has been changed."""


class OutOfTime(BaseException):
    """The processor time of a piece of work is used up; raised anywhere, by a signal (`broker/record_jobs/child.py`).

    Not an Exception, so that what catches those of foreign code lets it pass.
    """


class Effort:
    """Steps that may still be made. One object may be used for several pieces of work, one after another."""

    __slots__ = ("left",)

    def __init__(self, steps: int = INLINE_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Raises TooLong when fewer are left."""
        left = self.left - steps
        if left < 0:
            raise TooLong
        self.left = left


class Unbounded(Effort):
    """No limit on the steps: for processes that do nothing else, and for records that the broker made itself."""

    __slots__ = ()

    def spend(self, steps: int) -> None:
        del steps


UNBOUNDED: Final = Unbounded()
