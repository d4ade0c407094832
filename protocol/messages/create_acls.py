"""CreateAcls: add access control entries (KIP-140).

v1 adds the pattern type (KIP-290), v2 is flexible, v3 adds the resource type User.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableString, String

LITERAL = 3


@message(versions=range(4), flexible=2)
class CreateAclsRequest:
    """The entries."""

    creations: Array[AclCreation] = EMPTY


@struct
class AclCreation:
    """One entry."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = since(1, default=LITERAL)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions=range(4), flexible=2)
class CreateAclsResponse:
    """One result for each entry, in their order."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult] = EMPTY


@struct
class AclCreationResult:
    """Whether one entry was added."""

    error_code: Int16 = 0
    error_message: NullableString = ""
