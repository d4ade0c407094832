"""The child process that reads pushes: one push in, its values out, until its input ends.

    to it      JSON size int32 | data size int32 | {"codec": 4, "bytes_max": ..., "cpu_ms": ...} | the push
    from it    the same, without data: {"values": [[metric, [[key, value]...], kind, number]...], "dropped": 0,
               "member": [group, member], "cpu_ms": 3}, or instead of values {"refused": "why"} or {"bug": "traceback"}

A push that takes more CPU time than it may, or more memory than MEMORY_BYTES_MAX, is refused: both depend on what it
expands to.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

from sordini.broker.metrics.telemetry.decoding import decode_push
from sordini.broker.metrics.telemetry.machine.figures import Decoded, FigureKind, GroupMember, Name, PushedValue
from sordini.protocol.errors import BrokerError
from sordini.system.child_requests import serve_requests
from sordini.system.processes import limit_address_space

MEMORY_BYTES_MAX: Final = 768 * 1024 * 1024
"""Of address space: a mebibyte of empty messages takes 60 MiB as objects; Python and its libraries take the rest."""
REPEATED_S: Final = 0.05
"""Interval at which the exception is raised again, in case foreign code has caught it."""


class CpuTimeSpent(BaseException):
    """A push takes too long to be read."""


def _spent(_signal: int, _frame: FrameType | None) -> None:
    raise CpuTimeSpent


def answer(about: dict[str, Any], data: bytes | bytearray) -> dict[str, Any]:
    """What came of one push."""
    began_s = _cpu_s()
    made = _limited(about, data)
    made["cpu_ms"] = round((_cpu_s() - began_s) * 1000)
    return made


def _cpu_s() -> float:
    """Processor time of this process, in seconds."""
    spent = os.times()
    return spent.user + spent.system


def _limited(about: dict[str, Any], data: bytes | bytearray) -> dict[str, Any]:
    cpu_ms = about["cpu_ms"]
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_ms / 1000, REPEATED_S)
        try:
            return decoded_as_json(decode_push(about["codec"], data, about["bytes_max"]))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except BrokerError as error:
        return {"refused": str(error)}
    except CpuTimeSpent:
        return {"refused": f"the metrics take more than {cpu_ms} ms of processor time to read"}
    except MemoryError:
        return {"refused": f"the metrics take more than {MEMORY_BYTES_MAX} bytes of memory to read"}
    except Exception:  # noqa: BLE001 - sent to the broker, which logs it.
        return {"bug": traceback.format_exc()}


def decoded_as_json(decoded: Decoded) -> dict[str, Any]:
    """A wire form: the broker does not trust the memory of a process that has read hostile bytes."""
    rows = [(value.name.metric, value.name.labels, int(value.kind), value.value) for value in decoded.values]
    return {"values": rows, "dropped": decoded.dropped, "member": decoded.member}


def decoded_from_json(about: dict[str, Any]) -> Decoded:
    """Raises KeyError, TypeError or ValueError for a malformed answer."""
    member = about["member"]
    named = None if member is None else GroupMember(*map(str, member))
    return Decoded([_value(*row) for row in about["values"]], int(about["dropped"]), named)


def _value(metric: str, labels: Sequence[Sequence[str]], kind: int, number: float) -> PushedValue:
    pairs = tuple((str(key), str(text)) for key, text in labels)
    return PushedValue(Name(str(metric), pairs), FigureKind(kind), float(number))


def main() -> None:
    signal.signal(signal.SIGPROF, _spent)
    limit_address_space(MEMORY_BYTES_MAX)
    serve_requests(lambda about, data: (answer(about, data), b""))


if __name__ == "__main__":
    main()
