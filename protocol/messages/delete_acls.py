"""DeleteAcls: remove the access control entries that match filters (KIP-140).

v1 adds the pattern type (KIP-290), v2 is flexible, v3 adds the resource type User.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, NullableString, String

LITERAL = 3


@message(versions=range(4), flexible=2)
class DeleteAclsRequest:
    """The filters."""

    filters: Array[DeleteAclsFilter] = EMPTY


@struct
class DeleteAclsFilter:
    """One filter; None matches everything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: NullableString = ""
    pattern_type_filter: Int8 = since(1, default=LITERAL)
    principal_filter: NullableString = ""
    host_filter: NullableString = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions=range(4), flexible=2)
class DeleteAclsResponse:
    """One result for each filter, in their order."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult] = EMPTY


@struct
class DeleteAclsFilterResult:
    """What one filter matched."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    matching_acls: Array[DeleteAclsMatchingAcl] = EMPTY


@struct
class DeleteAclsMatchingAcl:
    """One entry, and whether it was removed."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = since(1, default=LITERAL)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
