"""Rules of APIs that are about one thing: the cluster, a group, a transactional id, or a list of topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.access import NOUNS, REFUSALS
from sordini.broker.security.rules.rule import RuleDeps, name_of, refuse_part, split
from sordini.replication.metadata_store.acl_model import CLUSTER_NAME, AclOperation, ResourceType
from sordini.system.named_tuple import NamedTuple


class On(NamedTuple):
    """An operation on the one thing that the request names, or on the cluster; refused as a whole."""

    kind: ResourceType
    operation: AclOperation
    field: str = ""
    """Of the request, which names the thing."""

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on the {NOUNS[self.kind]}"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        deps.access.require(call.peer, self.operation, self.kind, getattr(call.body, self.field, CLUSTER_NAME))
        return None


class OnEach(NamedTuple):
    """An operation on each thing of a list; each is refused by itself."""

    kind: ResourceType
    operation: AclOperation
    field: str
    """Of the request."""
    rows: str
    """Of the response."""

    @property
    def meaning(self) -> str:
        return f"{self.operation.name} on each {NOUNS[self.kind]}"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        access, peer, kind, metadata = deps.access, call.peer, self.kind, deps.metadata

        def is_allowed(element: Any) -> bool:
            name = name_of(element, metadata) if kind is ResourceType.TOPIC else element
            # Of a topic's id that is unknown the handler says so.
            return name is None or access.to(peer, self.operation, kind, name)

        allowed, refused = yield from split(getattr(call.body, self.field), is_allowed)
        return refuse_part(call, self.field, allowed, refused, code=REFUSALS[kind], rows=self.rows)


def on_cluster(operation: AclOperation) -> On:
    return On(ResourceType.CLUSTER, operation)


def on_group(operation: AclOperation) -> On:
    return On(ResourceType.GROUP, operation, "group_id")


def on_transactional_id(operation: AclOperation) -> On:
    return On(ResourceType.TRANSACTIONAL_ID, operation, "transactional_id")


def on_topics(operation: AclOperation, rows: str = "topics") -> OnEach:
    return OnEach(ResourceType.TOPIC, operation, "topics", rows)


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


class OfItself(NamedTuple):
    """Every peer may, once it is logged in: the request is about the peer alone."""

    @property
    def meaning(self) -> str:
        return "nothing; it is about the client itself"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        del call, deps
        yield 1
        return None


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


class BrokerOrClient(NamedTuple):
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


BROKERS_ONLY: Final = on_cluster(AclOperation.CLUSTER_ACTION)
"""The rule of requests that only brokers send. They must also arrive on the brokers' listener."""
