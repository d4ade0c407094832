"""The rule of DescribeCluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps
from sordini.broker.topics.topic_rules import cluster_operations
from sordini.system.named_tuple import NamedTuple


class ClusterOperationsRule(NamedTuple):
    """Served to every peer; fills in what it may do to the cluster."""

    @property
    def meaning(self) -> str:
        return "none; every peer may see the brokers"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        if call.body.include_cluster_authorized_operations:
            operations = cluster_operations(deps.access, call.peer)
            call.amend = _setter("cluster_authorized_operations", operations)
        return None


def _setter(field: str, value: int) -> Callable[[Any], Any]:
    def amend(message: Any) -> Any:
        setattr(message, field, value)
        return message

    return amend
