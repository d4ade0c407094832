"""The rule of FindCoordinator."""

from __future__ import annotations

from typing import Any

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, add_rows, split
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from sordini.replication.metadata_store.acl_model import CLUSTER_NAME, AclOperation, ResourceType
from sordini.system.named_tuple import NamedTuple

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_BATCHED = 4


class FindCoordinatorRule(NamedTuple):
    """DESCRIBE on each group, or each transactional id; brokers alone find the coordinators of share partitions."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each group, or on each transactional id; for share partitions CLUSTER_ACTION on the cluster"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: FindCoordinatorRequest = call.body
        access, peer = deps.access, call.peer
        if request.key_type == GROUP:
            ask, code = access.to_group, ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif request.key_type == TRANSACTION:
            ask, code = access.to_transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        else:
            if request.key_type == SHARE:
                yield 1
                access.require(peer, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            return None
        if call.version < FIRST_BATCHED:
            yield 1
            if not ask(peer, AclOperation.DESCRIBE, request.key):
                raise BrokerError(code, f"{peer.principal} has no permission DESCRIBE for {request.key}")
            return None
        allowed, refused = yield from split(request.coordinator_keys, lambda key: ask(peer, AclOperation.DESCRIBE, key))
        if refused:
            request.coordinator_keys = allowed
            rows = [Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=None) for key in refused]
            add_rows(call, "coordinators", rows)
        return None
