"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Float64, Int16, Int32, NullableString, String


@message(versions=range(2), flexible=1)
class AlterClientQuotasRequest:
    """The changes."""

    entries: Array[AlteredEntry] = EMPTY
    validate_only: Bool = False


@struct
class AlteredEntry:
    """The changes of one entity."""

    entity: Array[AlteredEntity] = EMPTY
    ops: Array[QuotaOp] = EMPTY


@struct
class AlteredEntity:
    """One part of an entity."""

    entity_type: String = ""
    entity_name: NullableString = ""  # None: the default.


@struct
class QuotaOp:
    """One quota that is set or removed."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@message(versions=range(2), flexible=1)
class AlterClientQuotasResponse:
    """One result for each entity."""

    throttle_time_ms: Int32 = 0
    entries: Array[AlterResult] = EMPTY


@struct
class AlterResult:
    """Whether an entity's changes were made."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    entity: Array[AlteredEntity] = EMPTY
