"""What rules ask before something is done for a peer. Without an authorizer everything is allowed. Pure.

A denial is noted for the audit log. `quietly` is for questions whose answer refuses nothing, such as which topics of
all are shown.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.network.principal import Requester
from sordini.broker.security.acls.authorizer import Authorizer
from sordini.broker.security.audit.denials import Denials
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.metadata_store.acl_model import (
    CLUSTER_NAME,
    OPERATIONS,
    AclOperation,
    ResourceType,
)

OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""In responses that can list the operations a peer may do (KIP-430)."""

NOUNS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.CLUSTER: "cluster",
}
REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""The code for a resource that a peer may not touch."""


class Access:
    """The authorizer of a broker, or none."""

    __slots__ = ("authorizer", "denials", "quietly")

    def __init__(self, authorizer: Authorizer | None = None, denials: Denials | None = None) -> None:
        self.authorizer = authorizer
        """None: everything is allowed. The hot paths compare with None before they ask."""
        self.denials = denials
        """Where denials are noted; None: nowhere."""
        self.quietly: Access = self if denials is None else Access(authorizer)
        """The same answers, of which none is noted."""

    @property
    def revision(self) -> int:
        """Grows when a decision may have changed."""
        return 0 if self.authorizer is None else self.authorizer.revision

    def to(self, peer: Requester, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether the peer may do this to a resource."""
        if self.authorizer is None or self.authorizer.allows(peer, operation, kind, name):
            return True
        if self.denials is not None:
            self.denials.note(operation, kind, name)
        return False

    def to_topic(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return self.to(peer, operation, ResourceType.TOPIC, name)

    def to_group(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return self.to(peer, operation, ResourceType.GROUP, name)

    def to_transactional_id(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return self.to(peer, operation, ResourceType.TRANSACTIONAL_ID, name)

    def to_cluster(self, peer: Requester, operation: AclOperation) -> bool:
        return self.to(peer, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def to_some_topic(self, peer: Requester, operation: AclOperation) -> bool:
        """Whether there is any topic to which the peer may do this."""
        return self.authorizer is None or self.authorizer.allows_some(peer, operation, ResourceType.TOPIC)

    def require(self, peer: Requester, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Raises BrokerError with the code of the kind (`REFUSALS`)."""
        if not self.to(peer, operation, kind, name):
            shown = "the cluster" if kind is ResourceType.CLUSTER else f"{NOUNS[kind]} {name}"
            raise BrokerError(REFUSALS[kind], f"{peer.principal} has no permission {operation.name} for {shown}")

    def require_topic(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError TOPIC_AUTHORIZATION_FAILED."""
        self.require(peer, operation, ResourceType.TOPIC, name)

    def require_group(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError GROUP_AUTHORIZATION_FAILED."""
        self.require(peer, operation, ResourceType.GROUP, name)

    def require_transactional_id(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
        self.require(peer, operation, ResourceType.TRANSACTIONAL_ID, name)

    def require_cluster(self, peer: Requester, operation: AclOperation) -> None:
        """Raises BrokerError CLUSTER_AUTHORIZATION_FAILED."""
        self.require(peer, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def operations(self, peer: Requester, resource_type: ResourceType, name: str) -> int:
        """The operations that the peer may do to a resource, as a bit field by the operations' numbers (KIP-430)."""
        field = 0
        for operation in OPERATIONS[resource_type]:
            if self.authorizer is None or self.authorizer.allows(peer, operation, resource_type, name):
                field |= 1 << operation
        return field
