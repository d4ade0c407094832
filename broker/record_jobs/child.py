"""The process in which records are opened, checked and written anew: a job in, an outcome out, until its input ends.

    each way    bytes of JSON int32 | bytes of data int32 | JSON | data        (`protocol/records/jobs.py`)

With a job comes the processor time that it may take (`cpu_ms`), and with the outcome the time it took. A job that takes
more is answered with MESSAGE_TOO_LARGE, one that needs more memory than `MEMORY_BYTES_MAX` as well: both depend on what
the records expand to.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import struct
import sys
import time
import traceback
from io import BufferedReader
from types import FrameType
from typing import Any

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import Wire, carry_out, job_from_wire, outcome_as_wire, refusal_as_wire
from sordini.protocol.records.work_budget import OutOfTime

SIZES = struct.Struct(">II")
MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""Of address space: 64 MiB of expanded records, a few copies of them, and what they are as objects."""
REPEATED_S = 0.05
"""So often OutOfTime is raised again, should foreign code have swallowed it."""


def _out_of_time(_signal: int, _frame: FrameType | None) -> None:
    raise OutOfTime


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
            return outcome_as_wire(carry_out(job_from_wire(about, data)))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except BrokerError as error:
        return refusal_as_wire(error)
    except OutOfTime:
        return _too_large(f"the records take more than {cpu_ms} ms of processor time to open")
    except MemoryError:
        return _too_large(f"the records take more than {MEMORY_BYTES_MAX} bytes of memory to open")
    except Exception:  # noqa: BLE001 - the broker, which can log it, is given whatever it was.
        return {"bug": traceback.format_exc()}, b""


def _too_large(why: str) -> Wire:
    return refusal_as_wire(BrokerError(ErrorCode.MESSAGE_TOO_LARGE, why))


def _read(stream: BufferedReader, size: int) -> bytearray:
    """Exactly so many bytes; ends the process where the input ends: the broker is gone."""
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
    # A key pressed at the broker's terminal is the broker's business, which then ends this process in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _out_of_time)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    # What is made here by the million has no cycles.
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
