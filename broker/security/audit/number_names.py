"""Names for numbers in requests of administrators, so that the audit log can be read. Pure.

An API that is not here is shown with its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sordini.broker.configuration.edits import Operation
from sordini.broker.configuration.resources import ResourceKind
from sordini.protocol.api_keys import ApiKey
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.metadata_store.acl_model import AclOperation, PatternType, Permission, ResourceType


class Mechanism(IntEnum):
    """Of SCRAM credentials (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_ACLS: Final[Mapping[str, type[IntEnum]]] = {
    "resource_type": ResourceType,
    "resource_type_filter": ResourceType,
    "resource_pattern_type": PatternType,
    "pattern_type": PatternType,
    "pattern_type_filter": PatternType,
    "operation": AclOperation,
    "permission_type": Permission,
}
_CONFIGS: Final[Mapping[str, type[IntEnum]]] = {"resource_type": ResourceKind, "config_operation": Operation}
_NAMES: Final[Mapping[ApiKey, Mapping[str, type[IntEnum]]]] = {
    ApiKey.CREATE_ACLS: _ACLS,
    ApiKey.DELETE_ACLS: _ACLS,
    ApiKey.ALTER_CONFIGS: _CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIGS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"mechanism": Mechanism},
    ApiKey.ELECT_LEADERS: {"election_type": ElectionType},
}


def name_of_number(key: ApiKey, field: str, number: int) -> int | str:
    """The name that a number has in this field, or the number itself."""
    kind = _NAMES.get(key, {}).get(field)
    try:
        return number if kind is None else kind(number).name
    except ValueError:
        return number
