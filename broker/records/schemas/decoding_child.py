"""The child process that decodes values (`decoding.py`), with the limits of `jobs/child.py` and one for each value."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

from sordini.broker.records.jobs.child import REPEATED_S, serve
from sordini.broker.records.schemas.decoding import VALUE_MS_MAX, Check, Decoder, ValueTimeExceeded
from sordini.protocol.records.jobs import DecodeJob, Job, Outcome
from sordini.schemas.unused_libraries import leave_out_unused
from sordini.system.processes import omit_core_dumps


def _exceeded(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise ValueTimeExceeded


def limited(check: Check, value: bytes) -> None:
    """Check one value within VALUE_MS_MAX of CPU time."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, VALUE_MS_MAX / 1000, REPEATED_S)
        try:
            check(value)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except ValueTimeExceeded:
        # It may have been raised before the timer was ended.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        raise


def main() -> None:
    decoder = Decoder(limited)

    def run(job: Job) -> Outcome:
        assert isinstance(job, DecodeJob)
        return decoder.run(job)

    omit_core_dumps()
    leave_out_unused()
    signal.signal(signal.SIGVTALRM, _exceeded)
    serve(run)


if __name__ == "__main__":
    main()
