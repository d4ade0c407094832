"""What goes wrong while a mirror runs. The text is for the operator; all but `TakenOver` are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sordini.protocol.errors import ErrorCode, error_name

T = TypeVar("T")


class MirrorError(Exception):
    """A flow failed: it begins again from its last committed transaction."""


class Unreachable(MirrorError):
    """A broker cannot be reached, or a connection broke."""


class Unsupported(MirrorError):
    """A broker does not serve a request that is needed."""


class Refused(MirrorError):
    """A cluster answered with an error."""

    def __init__(self, subject: str, code: int, reason: str | None = None) -> None:
        self.code = code
        name = error_name(code)
        super().__init__(f"{subject}: {reason} ({name})" if reason else f"{subject}: {name}")


class TakenOver(MirrorError):
    """Another mirror with the same name writes into the target: this one ends."""


def check(subject: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a code other than NONE."""
    if code != ErrorCode.NONE:
        raise Refused(subject, code, reason)


def only_row(rows: Sequence[T], subject: str) -> T:
    """The row of a response that must have exactly one. Raises MirrorError for any other number."""
    if len(rows) != 1:
        raise MirrorError(f"{subject}: the broker's answer has {len(rows)} rows instead of one")
    return rows[0]


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group of tasks; a bug before any error of a cluster."""
    errors = list(_leaves(group))
    bugs = [error for error in errors if not isinstance(error, MirrorError)]
    return (bugs or errors)[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
