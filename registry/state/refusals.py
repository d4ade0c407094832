"""Requests that are not granted, with the status, the code and the text that clients of registries read. Pure."""

from __future__ import annotations

import json
from typing import Final


class Refusal(Exception):
    """The answer to a request that is not granted."""

    def __init__(self, code: int, text: str) -> None:
        """`code` begins with the HTTP status: 40401 is a 404."""
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> int:
        """The status of the HTTP response."""
        return int(str(self.code)[:3])


NOT_PERMITTED: Final = 42205
COMPATIBILITY_NAMES: Final = (
    "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
)


def subject_not_found(subject: str) -> Refusal:
    return Refusal(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> Refusal:
    return Refusal(40402, f"Version {version} not found.")


def schema_not_found(key: int | str | None = None) -> Refusal:
    return Refusal(40403, "Schema not found" if key is None else f"Schema {key} not found")


def subject_soft_deleted(subject: str) -> Refusal:
    return Refusal(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> Refusal:
    return Refusal(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Refusal:
    text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return Refusal(40406, text)


def version_not_soft_deleted(subject: str, version: int) -> Refusal:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Refusal(40407, text)


def compatibility_not_configured(subject: str) -> Refusal:
    return Refusal(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> Refusal:
    return Refusal(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, problems: tuple[str, ...]) -> Refusal:
    details = ", ".join(problems)
    text = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]'
    )
    return Refusal(409, text)


def invalid_schema(text: str) -> Refusal:
    return Refusal(42201, text)


def invalid_version(version: str) -> Refusal:
    text = (
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"'
    )
    return Refusal(42202, text)


def invalid_level() -> Refusal:
    return Refusal(42203, f"Invalid compatibility level. Valid values are {COMPATIBILITY_NAMES}")


def invalid_mode() -> Refusal:
    return Refusal(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT")


def not_permitted(text: str) -> Refusal:
    return Refusal(NOT_PERMITTED, text)


def reference_exists(subject: str, version: int) -> Refusal:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return Refusal(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> Refusal:
    return Refusal(42208, f"The specified subject {json.dumps(subject)} is not a valid subject.")


def context_not_empty(context: str) -> Refusal:
    return Refusal(42211, f"The specified context '{context}' is not empty.")
