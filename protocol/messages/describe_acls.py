"""DescribeAcls: the access control entries that match a filter (KIP-140).

v1 adds the pattern type (KIP-290), v2 is flexible, v3 adds the resource type User.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableString, String

LITERAL = 3


@message(versions=range(4), flexible=2)
class DescribeAclsRequest:
    """A filter; None matches everything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=LITERAL)
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions=range(4), flexible=2)
class DescribeAclsResponse:
    """The entries, by resource pattern."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    resources: Array[DescribeAclsResource] = EMPTY


@struct
class DescribeAclsResource:
    """The entries of one pattern."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=LITERAL)
    acls: Array[AclDescription] = EMPTY


@struct
class AclDescription:
    """One entry."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
