"""DescribeConfigs: the settings of topics and brokers, with their sources.

v1 returns a setting's source and its synonyms (KIP-226); v3 its type and documentation (KIP-569); v4 is
flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, packable, since, struct, until
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, NullableArray, NullableString, String


@message(versions=range(5), flexible=4)
class DescribeConfigsRequest:
    """The resources whose settings are requested."""

    resources: Array[DescribeConfigsResource] = EMPTY
    include_synonyms: Bool = since(1, default=False)
    include_documentation: Bool = since(3, default=False)


@struct
class DescribeConfigsResource:
    """A topic (type 2) or a broker (type 4)."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: NullableArray[String] = EMPTY  # None: all.


@message(versions=range(5), flexible=4)
class DescribeConfigsResponse:
    """The settings found."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = EMPTY


@struct
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = packable(default=EMPTY)


@struct
class DescribeConfigsResourceResult:
    """One setting."""

    name: String = ""
    value: NullableString = ""  # None when it is sensitive.
    read_only: Bool = False
    is_default: Bool = until(0, default=False)
    config_source: Int8 = since(1, default=-1)
    is_sensitive: Bool = False
    synonyms: Array[DescribeConfigsSynonym] = since(1, default=EMPTY)
    config_type: Int8 = since(3, default=0)
    documentation: NullableString = since(3, default="")


@struct
class DescribeConfigsSynonym:
    """Another setting that would take effect if those before it were absent."""

    name: String = ""
    value: NullableString = ""
    source: Int8 = 0
