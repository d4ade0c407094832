"""The keys of quotas of clients: how rates are measured."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import integer, setting


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class QuotaSettings:
    """Settings of quotas; the quotas themselves are in the coordination store."""

    quota_window_num: int = setting(
        "quota.window.num", integer(1), 11, "Windows over which rates of clients are measured."
    )
    quota_window_size_seconds: int = setting(
        "quota.window.size.seconds", integer(1), 1, "Length of each of these windows."
    )
    controller_quota_window_num: int = setting(
        "controller.quota.window.num",
        integer(1),
        11,
        "Windows whose allowance of created and deleted partitions a client may use at once.",
    )
    controller_quota_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds", integer(1), 1, "Length of each of these windows."
    )
