"""The rule of requests that read and change settings."""

from __future__ import annotations

import copy
from typing import Any

from sordini.broker.configuration.resources import ResourceKind
from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, add_rows, error_response, split
from sordini.protocol.errors import ErrorCode
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.system.named_tuple import NamedTuple

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ConfigsRule(NamedTuple):
    """An operation on each topic or group whose settings are meant, and on the cluster for those of brokers."""

    operation: AclOperation
    rows: str

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on each topic or group, and on the cluster for settings of brokers"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        access, peer, operation = deps.access, call.peer, self.operation

        def is_allowed(resource: Any) -> bool:
            if resource.resource_type == ResourceKind.TOPIC:
                return access.to_topic(peer, operation, resource.resource_name)
            if resource.resource_type == ResourceKind.GROUP:
                return access.to_group(peer, operation, resource.resource_name)
            return access.to_cluster(peer, operation)

        allowed, refused = yield from split(call.body.resources, is_allowed)
        if not refused:
            return None
        rows = []
        for resource in refused:
            code = _denial_of(resource.resource_type)
            part = copy.copy(call.body)
            part.resources = [resource]
            rows += getattr(error_response(call, part, code), self.rows)
        if not allowed:
            part = copy.copy(call.body)
            part.resources = []
            response = error_response(call, part, DENIED)
            setattr(response, self.rows, rows)
            return response
        call.body.resources = allowed
        add_rows(call, self.rows, rows)
        return None


def _denial_of(resource_type: int) -> ErrorCode:
    if resource_type == ResourceKind.TOPIC:
        return DENIED
    if resource_type == ResourceKind.GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
