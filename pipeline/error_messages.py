"""One-sentence messages for exceptions that settings, data or the machine can cause, of any library.

The exceptions of Spark, py4j, deltalake, pyiceberg, pyarrow and SQLAlchemy have no common class, and their texts have
stacks of the JVM, of Python, or of both. Only this module makes messages of them; any other exception is a bug and
keeps its traceback.
"""

from __future__ import annotations

import re
from typing import Final

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.tables.store_client import problem_of

LIBRARIES: Final = frozenset(
    {
        "pyspark",
        "py4j",
        "deltalake",
        "_internal",
        "pyiceberg",
        "pyarrow",
        "sqlalchemy",
        "sqlite3",
        "botocore",
        "fsspec",
        "obstore",
    }
)
"""Top-level packages of exceptions that get a message; deltalake's native module is called `_internal`."""

LETTERS_MAX: Final = 600
_CAUSES: Final = re.compile(r"\s*\x1b\[\d+m\s*↳\s*\x1b\[0m\s*")
"""Between an error of deltalake's file system and its cause, each in a line of its own, in colours."""
_SQLSTATE: Final = re.compile(r"[;.]? ?SQLSTATE: ?\w{5}\b.*$")
_SIGNATURE: Final = re.compile(r"([?&](?:sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[^&\s'\"]+")
"""What grants a request by its URL: a shared access signature of Azure, which Arrow quotes, or a presigned URL."""
_HIDDEN: Final = r"\1(hidden)"
_NO_WORKER: Final = ("Python worker failed to connect back", "Python worker exited unexpectedly")
_WORKER: Final = (
    "Spark's Python process did not start in the ten seconds that Spark gives it: the machine is too busy, or Python "
    "does not start there; run the command again"
)


def has_message(error: BaseException) -> bool:
    """Whether `message_of` has a message for it; otherwise it is a bug."""
    return isinstance(error, PipelineError | OSError) or type(error).__module__.partition(".")[0] in LIBRARIES


def message_of(error: BaseException) -> str:
    """The message, in one line, without the signatures that libraries quote with their URLs."""
    if isinstance(error, PipelineError):
        return _SIGNATURE.sub(_HIDDEN, str(error))
    if problem_of(error):
        return root_cause_of(str(error))
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ConnectionError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return root_cause_of(str(error)) if str(error).strip() else type(error).__name__


def root_cause_of(text: str) -> str:
    """The relevant part of a long message: what a store refuses, or the last line of Python's last traceback."""
    refused = problem_of(text)
    if any(said in text for said in _NO_WORKER) and "Traceback" not in text:
        return _WORKER
    lines = _CAUSES.sub(": ", text).splitlines()
    ours = [line for line in map(str.strip, lines) if line.startswith("sordini.")]
    if refused:
        ours = [line for line in ours if refused in line]  # A sentence of ours has the place, too.
        ours = ours or [f": the object store {refused}"]
    if ours:
        return _shortened(ours[-1].partition(": ")[2] or ours[-1])
    if raised := _raised(lines):
        kind, colon, what = raised.partition(": ")
        return _shortened(f"{kind.rpartition('.')[2]}{colon}{what}")
    return _shortened(next((line.strip() for line in lines if line.strip()), "no reason was given"))


def _raised(lines: list[str]) -> str:
    """The line after Python's last traceback; empty if there is none."""
    found, is_inside = "", False
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            is_inside = True
        elif is_inside and line.strip() and not line[0].isspace():
            found, is_inside = line, False
    return found


def _shortened(line: str) -> str:
    plain = _SIGNATURE.sub(_HIDDEN, _SQLSTATE.sub("", line).rstrip())
    return plain if len(plain) <= LETTERS_MAX else f"{plain[:LETTERS_MAX]} ..."
