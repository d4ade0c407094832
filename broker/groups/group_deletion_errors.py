"""Why a group is not deleted, in words."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode

DELETION_ERRORS = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them, or wait until their sessions expire",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NOT_COORDINATOR: "another broker is the group's coordinator, or none is available",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the group is being loaded from the log: try again",
}
"""Why a group is not deleted. Other codes are given by name."""


def deletion_error(code: ErrorCode) -> str | None:
    """The message that goes with an error code of DeleteGroups; None for NONE."""
    return None if code == ErrorCode.NONE else DELETION_ERRORS.get(code, code.name)
