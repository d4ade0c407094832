"""The child process that runs record jobs: reads a job, writes its outcome, until its input ends.

    both directions    JSON size int32 | data size int32 | JSON | data        (`protocol/records/jobs.py`)

A job carries its limit of CPU time (`cpu_ms`), and an outcome the time used. A job beyond its limit is answered with
MESSAGE_TOO_LARGE, and so is one that needs more memory than `MEMORY_BYTES_MAX`: both depend on what the records expand
to.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import struct
import sys
import time
import traceback
from io import BufferedReader
from types import FrameType
from typing import Any

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import Wire, error_as_wire, job_from_wire, outcome_as_wire, run_job
from sordini.protocol.records.work_budget import CpuTimeExceeded
from sordini.system.processes import limit_address_space

SIZES = struct.Struct(">II")
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""Of address space: 64 MiB of expanded records, a few copies of them, and their Python objects."""
REPEATED_S = 0.05
"""Interval at which CpuTimeExceeded is raised again, in case foreign code has caught it."""


def _cpu_time_exceeded(_signal: int, _frame: FrameType | None) -> None:
    raise CpuTimeExceeded


def answer(about: dict[str, Any], data: bytearray) -> Wire:
    """The outcome of one job in wire form."""
    began_s = time.process_time()
    about_outcome, made = _limited(about, data)
    about_outcome["cpu_ms"] = round((time.process_time() - began_s) * 1000)
    return about_outcome, made


def _limited(about: dict[str, Any], data: bytearray) -> Wire:
    cpu_ms = about["cpu_ms"]
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_ms / 1000, REPEATED_S)
        try:
            return outcome_as_wire(run_job(job_from_wire(about, data)))
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


def _read(stream: BufferedReader, size: int) -> bytearray:
    """Exactly `size` bytes; exits at the end of the input: the broker has ended."""
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = stream.readinto(view[done:])
        if not count:
            os._exit(0)
        done += count
    return data


def main() -> None:
    # Ctrl-C at the terminal reaches this process, too; the broker handles it and ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _cpu_time_exceeded)
    limit_address_space(MEMORY_BYTES_MAX)
    # Records are created by the million and form no cycles.
    gc.disable()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    assert isinstance(source, BufferedReader)
    while True:
        about_bytes, data_bytes = SIZES.unpack(_read(source, SIZES.size))
        about = json.loads(_read(source, about_bytes))
        about, made = answer(about, _read(source, data_bytes))
        text = json.dumps(about).encode()
        target.write(SIZES.pack(len(text), len(made)))
        target.write(text)
        target.write(made)
        target.flush()


if __name__ == "__main__":
    main()
