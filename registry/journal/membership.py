"""What members of a registry's group say of themselves, which one of them is to write, and what errors of the group
mean. Pure.

    metadata of a member   {"version":1,"host":"10.0.0.1","port":8081,"master_eligibility":true,"scheme":"http"}
    assignment, for all    {"version":1,"error":0,"master":"<member id>","master_identity":{...}}

The protocol type is `sr`, the protocol `v0`. These are the formats of the Confluent Schema Registry; Karapace has a
version 2 with a field more. All members get the same assignment, made by the leader of the group. Other registries
elect the member with the least URL; here the member that writes continues while it is a member, so that a registry that
joins interrupts no writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from sordini.protocol.errors import ErrorCode
from sordini.system.named_tuple import NamedTuple

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
GROUP: Final = "schema-registry"
"""The default of other registries."""
DUPLICATE_URLS: Final = 1
"""In an assignment: two members have one URL, so a request could not be forwarded to the one that writes."""
_VERSION: Final = 1
_PORT_MAX: Final = 65535


class MalformedMember(ValueError):
    """Metadata or an assignment that is not of this protocol."""


class Identity(NamedTuple):
    """A registry as others reach it."""

    scheme: str
    host: str
    port: int
    is_eligible: bool = True
    """Whether it may be elected to write."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Assignment(NamedTuple):
    """The result of an election."""

    writer_id: str | None
    """The member that writes; None where no member is eligible."""
    writer: Identity | None
    error: int = 0


NO_WRITER: Final = Assignment(None, None)


def metadata_of(identity: Identity) -> bytes:
    """What a member joins its group with."""
    return _encoded(_fields(identity))


def identity_in(metadata: bytes) -> Identity:
    """The identity in a member's metadata, of any registry. Raises MalformedMember."""
    return _identity(_decoded(metadata))


def elect(members: Mapping[str, bytes], incumbent: str | None) -> Assignment:
    """Which member writes, by the metadata of all; `incumbent` wrote until now, as far as the leader knows.

    A member whose metadata cannot be read is not eligible.
    """
    identities = {}
    for member_id, metadata in members.items():
        try:
            identities[member_id] = identity_in(metadata)
        except MalformedMember:
            continue
    urls = [identity.url for identity in identities.values()]
    if len(set(urls)) < len(urls):
        return Assignment(None, None, DUPLICATE_URLS)
    eligible = {member_id: one for member_id, one in identities.items() if one.is_eligible}
    if not eligible:
        return NO_WRITER
    chosen = incumbent if incumbent in eligible else min(eligible, key=lambda member_id: eligible[member_id].url)
    assert chosen is not None
    return Assignment(chosen, eligible[chosen])


def assignment_bytes(assignment: Assignment) -> bytes:
    """An assignment as members receive it."""
    writer = assignment.writer
    return _encoded(
        {
            "version": _VERSION,
            "error": assignment.error,
            "master": assignment.writer_id,
            "master_identity": None if writer is None else _fields(writer),
        }
    )


def assignment_in(data: bytes) -> Assignment:
    """An assignment that the leader of the group made, of any registry. Raises MalformedMember."""
    fields = _decoded(data)
    error, writer_id, writer = fields.get("error", 0), fields.get("master"), fields.get("master_identity")
    if not isinstance(error, int):
        raise MalformedMember("an assignment has an error that is no number")
    if writer_id is None or writer is None or error:
        return Assignment(None, None, error)
    if not isinstance(writer_id, str) or not isinstance(writer, dict):
        raise MalformedMember("an assignment names no member")
    identity = _identity(writer)
    # Karapace's leader names a member that is not eligible where none is.
    return Assignment(writer_id, identity) if identity.is_eligible else NO_WRITER


class Remedy(Enum):
    """What a member does about an error of its group."""

    REJOIN = auto()
    """Join the next generation with the same member id."""
    REJOIN_AS_NEW = auto()
    """The member id is not valid any more: join without one."""
    FIND_COORDINATOR = auto()
    """Find the coordinator, then continue."""
    FAIL = auto()
    """Another attempt needs a change of the cluster: report it, and try again much later."""


_REMEDIES: Final = {
    ErrorCode.REBALANCE_IN_PROGRESS: Remedy.REJOIN,
    # The response has the member id to join with (KIP-394).
    ErrorCode.MEMBER_ID_REQUIRED: Remedy.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.ILLEGAL_GENERATION: Remedy.REJOIN_AS_NEW,
    ErrorCode.FENCED_INSTANCE_ID: Remedy.REJOIN_AS_NEW,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Remedy.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Remedy.FIND_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Remedy.FIND_COORDINATOR,
}


def remedy_for(code: ErrorCode) -> Remedy:
    """What a member does about this error of JoinGroup, SyncGroup or Heartbeat."""
    return _REMEDIES.get(code, Remedy.FAIL)


def _fields(identity: Identity) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "host": identity.host,
        "port": identity.port,
        "master_eligibility": identity.is_eligible,
        "scheme": identity.scheme,
    }


def _identity(fields: Mapping[str, Any]) -> Identity:
    scheme, host, port = fields.get("scheme", "http"), fields.get("host"), fields.get("port")
    is_eligible = fields.get("master_eligibility")
    if not isinstance(scheme, str) or not isinstance(host, str) or not isinstance(is_eligible, bool):
        raise MalformedMember("the metadata of a member names no registry")
    if not isinstance(port, int) or not 0 < port <= _PORT_MAX:
        raise MalformedMember(f"the metadata of a member has port {port!r}")
    return Identity(scheme, host, port, is_eligible)


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise MalformedMember("no JSON, or nested too deeply") from None
    if not isinstance(found, dict):
        raise MalformedMember("JSON that is no object")
    return found
