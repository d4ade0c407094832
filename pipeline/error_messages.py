"""One sentence of any exception that a user's settings, data or machine can cause, whichever library raised it.

Spark, py4j, deltalake, pyiceberg, pyarrow and SQLAlchemy have no class in common, and their texts hold a stack of the
JVM's, of Python's, or of both. All of them are put into words here and nowhere else; what is none of them is a mistake
of ours, and stays a traceback.
"""

from __future__ import annotations

import re
from typing import Final

from sordini.pipeline.errors import PipelineError

LIBRARIES: Final = frozenset(
    {"pyspark", "py4j", "deltalake", "_internal", "pyiceberg", "pyarrow", "sqlalchemy", "sqlite3", "botocore", "fsspec"}
)
"""The outermost packages of exceptions that are put into words; deltalake's own module calls itself `_internal`."""

LETTERS_MAX: Final = 600
_SQLSTATE: Final = re.compile(r"[;.]? ?SQLSTATE: ?\w{5}\b.*$")
_NO_WORKER: Final = ("Python worker failed to connect back", "Python worker exited unexpectedly")
_WORKER: Final = (
    "Spark's Python process did not start in the ten seconds that Spark gives it: the machine is too busy, or Python "
    "does not start there; run the command again"
)


def has_message(error: BaseException) -> bool:
    """Whether `message_of` has a sentence for it: else it is a mistake of ours."""
    return isinstance(error, PipelineError | OSError) or type(error).__module__.partition(".")[0] in LIBRARIES


def message_of(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, PipelineError):
        return str(error)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ConnectionError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return root_cause_of(str(error)) if str(error).strip() else type(error).__name__


def root_cause_of(text: str) -> str:
    """The part of a long message that says what happened: what Python's last traceback ends with, if there is one."""
    if any(said in text for said in _NO_WORKER) and "Traceback" not in text:
        return _WORKER
    lines = text.splitlines()
    ours = [line for line in map(str.strip, lines) if line.startswith("sordini.")]
    if ours:
        return _shortened(ours[-1].partition(": ")[2] or ours[-1])
    if raised := _raised(lines):
        kind, colon, what = raised.partition(": ")
        return _shortened(f"{kind.rpartition('.')[2]}{colon}{what}")
    return _shortened(next((line.strip() for line in lines if line.strip()), "no reason was given"))


def _raised(lines: list[str]) -> str:
    """The line behind the last traceback of Python's; empty where there is none."""
    found, is_inside = "", False
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            is_inside = True
        elif is_inside and line.strip() and not line[0].isspace():
            found, is_inside = line, False
    return found


def _shortened(line: str) -> str:
    plain = _SQLSTATE.sub("", line).rstrip()
    return plain if len(plain) <= LETTERS_MAX else f"{plain[:LETTERS_MAX]} ..."
