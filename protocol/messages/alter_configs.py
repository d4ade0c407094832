"""AlterConfigs: replace everything that was set of a topic or a broker.

Settings that are not named return to their defaults, which is why KIP-339 replaced it by IncrementalAlterConfigs. v2 is
flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, NullableString, String


@message(versions=range(3), flexible=2)
class AlterConfigsRequest:
    """The resources, each with all that is to be set of it afterwards."""

    resources: Array[AlterConfigsResource] = EMPTY
    validate_only: Bool = False


@struct
class AlterConfigsResource:
    """A topic (type 2) or a broker (type 4)."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = EMPTY


@struct
class AlterableConfig:
    """One key and its value."""

    name: String = ""
    value: NullableString = ""


@message(versions=range(3), flexible=2)
class AlterConfigsResponse:
    """The results of all resources."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = EMPTY


@struct
class AlterConfigsResourceResponse:
    """One resource that was changed, or why not."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
