"""A limit on the work on records that is done on the event loop, in steps that are spent before the work.

The cost of opening a record set is not known from its size: 2 KiB may expand to 62 MiB, and one record may hold half a
million headers. So the functions that open, check and write records charge a `WorkBudget` as they proceed. The event
loop gives a small one (`INLINE_STEPS`): when it is spent, `BudgetExceeded` ends the work without any change, and the
whole work is done in a child process instead (`jobs.py`), where the CPU time is limited.

One step is about a microsecond of a slow core. The rates are measured with the worst input of each kind
(tests/support/worst_batches.py); ordinary input costs a fraction of its charge.
"""

from __future__ import annotations

from typing import Final

# About 2 MiB expanded, 30,000 records of changing shape, 10,000 headers, or 150 KiB compressed with gzip.
INLINE_STEPS: Final = 10_000
"""For one request on the loop: at most about 10 ms."""
BYTES_PER_STEP: Final = 200
"""Expanded."""
COMPILED_RECORDS_PER_STEP: Final = 3
"""Read by the compiled reader."""
RECORD_STEPS: Final = 4
"""One record or message read in Python, checked or written."""
HEADER_STEPS: Final = 1
"""One header of a record."""


class BudgetExceeded(Exception):
    """The work takes more steps than are left. Nothing has been changed."""


class CpuTimeExceeded(BaseException):
    """The CPU time of a job is used up; raised anywhere, by a signal (`broker/records/jobs/child.py`).

    Not an Exception, so that handlers for exceptions of foreign code do not catch it.
    """


class WorkBudget:
    """Steps that are left. One budget may be shared by consecutive pieces of work."""

    __slots__ = ("left",)

    def __init__(self, steps: int = INLINE_STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Raises BudgetExceeded when fewer are left."""
        left = self.left - steps
        if left < 0:
            raise BudgetExceeded
        self.left = left


class UnlimitedBudget(WorkBudget):
    """No limit on the steps: for processes that do nothing else, and for records that the broker made itself."""

    __slots__ = ()

    def spend(self, steps: int) -> None:
        del steps


UNBOUNDED: Final = UnlimitedBudget()
