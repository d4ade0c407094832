"""Rules of APIs that are about one thing: the cluster, a group, a transactional id, or a list of topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sordini.broker.dispatch import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, name_of, refuse_part, split
from sordini.protocol.errors import ErrorCode
from sordini.replication.metadata_store.acl_model import AclOperation


class OnCluster(NamedTuple):
    """An operation on the cluster; refused as a whole."""

    operation: AclOperation

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on the cluster"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        deps.access.require_cluster(call.peer, self.operation)
        return None


class OnGroup(NamedTuple):
    """An operation on the group that the request names; refused as a whole."""

    operation: AclOperation

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on the group"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        deps.access.require_group(call.peer, self.operation, call.body.group_id)
        return None


class OnTransactionalId(NamedTuple):
    """An operation on the transactional id that the request names; refused as a whole."""

    operation: AclOperation

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on the transactional id"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        deps.access.require_transactional_id(call.peer, self.operation, call.body.transactional_id)
        return None


class OnTopics(NamedTuple):
    """An operation on each topic of a list; each is refused by itself."""

    operation: AclOperation
    field: str = "topics"
    """Of the request."""
    rows: str = "topics"
    """Of the response."""

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        access, peer = deps.access, call.peer

        def is_allowed(topic: Any) -> bool:
            name = name_of(topic, deps.metadata)
            # The handler says of an unknown id that it is unknown.
            return name is None or access.to_topic(peer, self.operation, name)

        allowed, refused = yield from split(getattr(call.body, self.field), is_allowed)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return refuse_part(call, self.field, allowed, refused, code=code, rows=self.rows)


class OnGroups(NamedTuple):
    """An operation on each group of a list; each is refused by itself."""

    operation: AclOperation
    field: str
    rows: str

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on each group"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        access, peer = deps.access, call.peer
        groups = getattr(call.body, self.field)
        allowed, refused = yield from split(groups, lambda name: access.to_group(peer, self.operation, name))
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return refuse_part(call, self.field, allowed, refused, code=code, rows=self.rows)


class OnTransactionalIds(NamedTuple):
    """An operation on each transactional id of a list; each is refused by itself."""

    operation: AclOperation
    field: str
    rows: str

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on each transactional id"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        access, peer = deps.access, call.peer
        names = getattr(call.body, self.field)
        allowed, refused = yield from split(names, lambda name: access.to_transactional_id(peer, self.operation, name))
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return refuse_part(call, self.field, allowed, refused, code=code, rows=self.rows)


class Both(NamedTuple):
    """One rule, and then another."""

    first: Any
    second: Any

    @property
    def meaning(self) -> str:
        return f"{self.first.meaning}; {self.second.meaning}"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        response = yield from self.first.check(call, deps)
        if response is None:
            response = yield from self.second.check(call, deps)
        return response


class ClusterOr(NamedTuple):
    """An operation on the cluster, or else another rule."""

    operation: AclOperation
    other: Any

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on the cluster, or else {self.other.meaning}"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        if deps.access.quietly.to_cluster(call.peer, self.operation):
            yield 1
            return None
        return (yield from self.other.check(call, deps))


class Choice(NamedTuple):
    """One rule for brokers' requests, another for clients'."""

    is_broker: Callable[[Any], bool]
    """By the request."""
    of_broker: Any
    of_client: Any

    @property
    def meaning(self) -> str:
        return f"{self.of_client.meaning}; of a broker: {self.of_broker.meaning}"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        rule = self.of_broker if self.is_broker(call.body) else self.of_client
        return (yield from rule.check(call, deps))
