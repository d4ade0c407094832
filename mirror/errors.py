"""What goes wrong while a mirror runs, beside the errors of its client. The text is for the operator.

All but `TakenOver` are tried again.
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.client.errors import ClientError


class MirrorError(ClientError):
    """A flow failed: it begins again from its last committed transaction."""


class TakenOver(MirrorError):
    """Another mirror with the same name writes into the target: this one ends."""


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group of tasks; a bug before any error of a cluster."""
    errors = list(_leaves(group))
    bugs = [error for error in errors if not isinstance(error, ClientError)]
    return (bugs or errors)[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
