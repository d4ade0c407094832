"""What the authorizer denies while a request is checked: counted, and written with the request it belongs to.

`Access` notes each denial. The caller of a rule reports them at the rule's next step, before any other request is
served. So a decision that allows costs nothing, and a rule needs to know nothing of the audit log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from sordini.broker.security.audit.audit_lines import AuditEvent, clipped
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType
from sordini.system.named_tuple import NamedTuple

NOTED_MAX: Final = 200
"""Denials of one step that are kept; more of them are counted only."""


class EventLog(Protocol):
    """The `AuditLog`, as far as denials use it."""

    @property
    def is_on(self) -> bool: ...

    def write(self, event: AuditEvent, address: str, fields: Mapping[str, Any]) -> None: ...

    def drop(self, event: AuditEvent, address: str, count: int) -> None: ...


class Denial(NamedTuple):
    """What was denied."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


class Denials:
    """Denials since the last report."""

    def __init__(self, audit: EventLog) -> None:
        self._audit = audit
        self._is_on = audit.is_on
        self.noted: list[Denial] = []
        self._further = 0
        self.total = 0
        """Since the start."""

    def note(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Something is denied to the peer whose request is checked now."""
        self.total += 1
        if not self._is_on:
            return
        if len(self.noted) < NOTED_MAX:
            self.noted.append(Denial(operation, resource_type, name))
        else:
            self._further += 1

    def report(self, call: Any) -> None:
        """Write what has been noted as denied to this call."""
        noted, self.noted = self.noted, []
        further, self._further = self._further, 0
        who = caller(call)
        for denial in noted:
            fields = {
                **who,
                "operation": denial.operation.name,
                "resource_type": denial.resource_type.name,
                "resource": clipped(denial.name),
            }
            self._audit.write(AuditEvent.DENIED, call.peer.address, fields)
        if further:
            self._audit.drop(AuditEvent.DENIED, call.peer.address, further)


def caller(call: Any) -> dict[str, Any]:
    """Who has sent a request: the first fields of a line. `call` is a `dispatch.Call`."""
    peer = call.peer
    return {
        "principal": clipped(str(peer.principal)),
        "address": peer.address,
        "listener": peer.listener,
        "client_id": None if call.client_id is None else clipped(call.client_id),
        "api": call.versioned_api.api.key.name,
    }
