"""The keys of the audit log."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, setting, string


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class AuditSettings:
    """Who failed to log in, who was denied what, and who changed what: where that is written."""

    audit_log_file: str = setting(
        "sordini.audit.log.file",
        string,
        "",
        "The file to which the audit log is appended, a line of JSON for each event; empty: none is written.",
    )
    audit_log_successes: bool = setting(
        "sordini.audit.log.successes",
        boolean,
        False,
        "Whether logins that succeed are in the audit log, too.",
    )
