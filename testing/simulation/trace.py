"""Everything that happened in a run, in order, folded into one hash; the last lines are kept for a reader."""

from __future__ import annotations

import hashlib
import traceback
from collections import deque
from collections.abc import Iterator

from sordini.testing.simulation.virtual_loop import SimLoop

LINES_KEPT = 400
TRACEBACK_SHOWN = 1_200
BUGS = frozenset({"connection closed by a bug", "request failed", "abandoning a request failed", "response truncated"})


class Trace:
    """Two runs did the same exactly when their digests are equal."""

    def __init__(self, loop: SimLoop, lines_kept: int | None = LINES_KEPT) -> None:
        """`lines_kept` of None keeps all of them, for a reader who follows one run."""
        self._loop = loop
        self._hash = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=lines_kept)
        self.count = 0

    def note(self, *fields: object) -> None:
        """Add one event. Only texts, numbers and bytes: the repr of an object may hold its address."""
        line = f"{self._loop.time():.6f} {' '.join(map(str, fields))}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.lines.append(line)
        self.count += 1

    def digest(self) -> str:
        return self._hash.hexdigest()


class TraceLog:
    """The logger port: every line becomes part of the trace, and so of its hash."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.bugs: list[str] = []
        """Errors that no fault explains: the broker caught a bug of its own."""

    def debug(self, event: str, **fields: object) -> None:
        self._note("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._note("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._note("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        if event in BUGS:
            self.bugs.append(f"{event}: {fields}")
        self._note("error", event, fields)

    def _note(self, level: str, event: str, fields: dict[str, object]) -> None:
        self._trace.note("log", level, event, *(f"{name}={value}" for name, value in fields.items()))


def escaped(error: BaseException) -> str:
    """The finding that a run ended by an exception: its name first, then where it was raised."""
    where = "".join(traceback.format_exception(error))[-TRACEBACK_SHOWN:]
    return f"an exception escaped: {error!r}\n{where}"


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group, however deep, or the one itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
