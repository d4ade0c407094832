"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Float64, Int8, Int16, Int32, NullableArray, NullableString, String


@message(versions=range(2), flexible=1)
class DescribeClientQuotasRequest:
    """Which entities are requested."""

    components: Array[FilterComponent] = EMPTY
    strict: Bool = False  # Whether an entity may have no part without a component.


@struct
class FilterComponent:
    """What one part of an entity must be."""

    entity_type: String = ""  # user, client-id or ip.
    match_type: Int8 = 0  # 0: this name; 1: the default; 2: any name.
    match: NullableString = ""


@message(versions=range(2), flexible=1)
class DescribeClientQuotasResponse:
    """The entities with their quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    entries: NullableArray[DescribedEntry] = EMPTY


@struct
class DescribedEntry:
    """One entity."""

    entity: Array[DescribedEntity] = EMPTY
    values: Array[DescribedValue] = EMPTY


@struct
class DescribedEntity:
    """One part of an entity."""

    entity_type: String = ""
    entity_name: NullableString = ""  # None: the default.


@struct
class DescribedValue:
    """One quota."""

    key: String = ""
    value: Float64 = 0.0
