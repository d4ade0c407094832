"""The child process that runs record jobs: `protocol/records/jobs.py` has their JSON and data.

A job carries its limit of CPU time (`cpu_ms`), and an outcome the time used. A job beyond its limit is answered with
MESSAGE_TOO_LARGE, and so is one that needs more memory than `MEMORY_BYTES_MAX`: both depend on what the records expand
to.
"""

from __future__ import annotations

import gc
import signal
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import (
    DecodeJob,
    Job,
    Outcome,
    Wire,
    error_as_wire,
    job_from_wire,
    outcome_as_wire,
    run_job,
)
from sordini.protocol.records.work_budget import CpuTimeExceeded
from sordini.system.child_requests import serve_requests
from sordini.system.processes import limit_address_space

MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""Of address space: 64 MiB of expanded records, a few copies of them, and their Python objects."""
REPEATED_S = 0.05
"""Interval at which CpuTimeExceeded is raised again, in case foreign code has caught it."""


def _cpu_time_exceeded(_signal: int, _frame: FrameType | None) -> None:
    raise CpuTimeExceeded


def answer(about: dict[str, Any], data: bytearray, run: Callable[[Job], Outcome]) -> Wire:
    """The outcome of one job in wire form."""
    began_s = time.process_time()
    about_outcome, made = _limited(about, data, run)
    about_outcome["cpu_ms"] = round((time.process_time() - began_s) * 1000)
    return about_outcome, made


def _limited(about: dict[str, Any], data: bytearray, run: Callable[[Job], Outcome]) -> Wire:
    cpu_ms = about["cpu_ms"]
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_ms / 1000, REPEATED_S)
        try:
            return outcome_as_wire(run(job_from_wire(about, data)))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except BrokerError as error:
        return error_as_wire(error)
    except CpuTimeExceeded:
        return _too_large(f"the records take more than {cpu_ms} ms of processor time to open")
    except MemoryError:
        return _too_large(f"the records take more than {MEMORY_BYTES_MAX} bytes of memory to open")
    except Exception:  # noqa: BLE001 - sent to the broker, which logs it.
        return {"bug": traceback.format_exc()}, b""


def _too_large(why: str) -> Wire:
    return error_as_wire(BrokerError(ErrorCode.MESSAGE_TOO_LARGE, why))


def serve(run: Callable[[Job], Outcome]) -> NoReturn:
    """Answer jobs until the input ends."""
    signal.signal(signal.SIGPROF, _cpu_time_exceeded)
    limit_address_space(MEMORY_BYTES_MAX)
    serve_requests(lambda about, data: answer(about, data, run))


def _run(job: Job) -> Outcome:
    assert not isinstance(job, DecodeJob), "the children that decode have the libraries"
    return run_job(job)


def main() -> None:
    # Records are created by the million and form no cycles.
    gc.disable()
    serve(_run)


if __name__ == "__main__":
    main()
