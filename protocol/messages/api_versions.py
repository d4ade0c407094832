"""ApiVersions: the APIs and versions that the broker serves; the first request of most clients.

v1 returns throttling; v3 is flexible, sends the client's software and returns features (KIP-511, KIP-584); v4 allows a
feature's lowest version to be 0; v5 names the cluster and the node that the client means to reach, so that a misrouted
connection is refused with REBOOTSTRAP_REQUIRED (KIP-1242). The response header is never flexible: a client reads it
before it knows which versions it may use.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, tagged
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, NullableString, String


@message(versions=range(6), flexible=3)
class ApiVersionsRequest:
    """Who is asking."""

    client_software_name: String = since(3, default="")
    client_software_version: String = since(3, default="")
    cluster_id: NullableString = since(5, default=None)
    node_id: Int32 = since(5, default=-1)  # -1 with a cluster_id of None: the client knows neither yet.


@message(versions=range(6), flexible=3)
class ApiVersionsResponse:
    """What is served."""

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = EMPTY
    throttle_time_ms: Int32 = since(1, default=0)
    supported_features: Array[SupportedFeatureKey] = tagged(0, since=3, default=EMPTY)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1)
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, since=3, default=EMPTY)
    zk_migration_ready: Bool = tagged(3, since=3, default=False)  # KIP-866; always false here.


@struct
class ApiVersion:
    """One kind of request and the versions of it that are served."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    """A feature and the levels of it this broker could run at."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    """A feature and the levels the whole cluster has agreed on."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0
