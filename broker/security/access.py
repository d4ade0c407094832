"""What rules ask before something is done for a peer. Without an authorizer everything is allowed. Pure.

A denial is noted for the audit log. `quietly` is for questions whose answer refuses nothing, such as which topics of
all are shown.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.security.acls.authorizer import Authorizer
from sordini.broker.security.audit.denials import Denials
from sordini.broker.security.principal import Requester
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.metadata_store.acl_model import (
    CLUSTER_NAME,
    OPERATIONS,
    AclOperation,
    ResourceType,
)

OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""In responses that can list the operations a peer may do (KIP-430)."""


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

    def to_topic(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return (
            self.authorizer is None
            or self.authorizer.allows(peer, operation, ResourceType.TOPIC, name)
            or self._denied(operation, ResourceType.TOPIC, name)
        )

    def to_group(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return (
            self.authorizer is None
            or self.authorizer.allows(peer, operation, ResourceType.GROUP, name)
            or self._denied(operation, ResourceType.GROUP, name)
        )

    def to_transactional_id(self, peer: Requester, operation: AclOperation, name: str) -> bool:
        return (
            self.authorizer is None
            or self.authorizer.allows(peer, operation, ResourceType.TRANSACTIONAL_ID, name)
            or self._denied(operation, ResourceType.TRANSACTIONAL_ID, name)
        )

    def to_cluster(self, peer: Requester, operation: AclOperation) -> bool:
        return (
            self.authorizer is None
            or self.authorizer.allows(peer, operation, ResourceType.CLUSTER, CLUSTER_NAME)
            or self._denied(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        )

    def to_some_topic(self, peer: Requester, operation: AclOperation) -> bool:
        """Whether there is any topic to which the peer may do this."""
        return self.authorizer is None or self.authorizer.allows_some(peer, operation, ResourceType.TOPIC)

    def require_topic(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError TOPIC_AUTHORIZATION_FAILED."""
        if not self.to_topic(peer, operation, name):
            raise _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, peer, operation, f"topic {name}")

    def require_group(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError GROUP_AUTHORIZATION_FAILED."""
        if not self.to_group(peer, operation, name):
            raise _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, peer, operation, f"group {name}")

    def require_transactional_id(self, peer: Requester, operation: AclOperation, name: str) -> None:
        """Raises BrokerError TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
        if not self.to_transactional_id(peer, operation, name):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            raise _refused(code, peer, operation, f"transactional id {name}")

    def require_cluster(self, peer: Requester, operation: AclOperation) -> None:
        """Raises BrokerError CLUSTER_AUTHORIZATION_FAILED."""
        if not self.to_cluster(peer, operation):
            raise _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, peer, operation, "the cluster")

    def operations(self, peer: Requester, resource_type: ResourceType, name: str) -> int:
        """The operations that the peer may do to a resource, as a bit field by the operations' numbers (KIP-430)."""
        field = 0
        for operation in OPERATIONS[resource_type]:
            if self.authorizer is None or self.authorizer.allows(peer, operation, resource_type, name):
                field |= 1 << operation
        return field

    def _denied(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Note a denial; returns False."""
        if self.denials is not None:
            self.denials.note(operation, resource_type, name)
        return False


def _refused(code: ErrorCode, peer: Requester, operation: AclOperation, what: str) -> BrokerError:
    return BrokerError(code, f"{peer.principal} has no permission {operation.name} for {what}")
