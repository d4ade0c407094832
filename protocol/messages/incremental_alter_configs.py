"""IncrementalAlterConfigs: change some of what is set of topics and brokers, and leave the rest (KIP-339).

v1 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.messages.alter_configs import AlterConfigsResourceResponse
from sordini.protocol.primitives import Array, Bool, Int8, Int32, NullableString, String


@message(versions=range(2), flexible=1)
class IncrementalAlterConfigsRequest:
    """The resources, each with the keys to change."""

    resources: Array[AlterConfigsResource] = EMPTY
    validate_only: Bool = False


@struct
class AlterConfigsResource:
    """A topic (type 2), a broker (4) or a broker's loggers (8)."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = EMPTY


@struct
class AlterableConfig:
    """One key: set (operation 0), delete (1), append to its list (2) or subtract from it (3)."""

    name: String = ""
    config_operation: Int8 = 0
    value: NullableString = ""  # None where nothing is set: a deletion.


@message(versions=range(2), flexible=1)
class IncrementalAlterConfigsResponse:
    """The results of all resources."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = EMPTY
