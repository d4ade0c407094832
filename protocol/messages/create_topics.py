"""CreateTopics: create topics, with a number of partitions or with assigned replicas.

v1 can check without creating; v4 leaves counts to the broker's defaults (-1, KIP-464); v5 is flexible and
returns the created topic (KIP-525); v7 returns its id (KIP-516).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, tagged
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
)


@message(versions=range(8), flexible=5)
class CreateTopicsRequest:
    """The topics to make."""

    topics: Array[CreatableTopic] = EMPTY
    timeout_ms: Int32 = 60_000
    validate_only: Bool = since(1, default=False)


@struct
class CreatableTopic:
    """One topic to make."""

    name: String = ""
    num_partitions: Int32 = 0  # -1: the broker's default, or assignments are given.
    replication_factor: Int16 = 0  # -1: the same.
    assignments: Array[CreatableReplicaAssignment] = EMPTY
    configs: Array[CreatableTopicConfig] = EMPTY


@struct
class CreatableReplicaAssignment:
    """Who shall hold one partition, the preferred leader first."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = EMPTY


@struct
class CreatableTopicConfig:
    """A setting the topic starts with."""

    name: String = ""
    value: NullableString = ""


@message(versions=range(8), flexible=5)
class CreateTopicsResponse:
    """The results of all topics."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Array[CreatableTopicResult] = EMPTY


@struct
class CreatableTopicResult:
    """One topic that was made, or why not."""

    name: String = ""
    topic_id: Uuid = since(7, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: NullableString = since(1, default="")
    topic_config_error_code: Int16 = tagged(0, since=5, default=0)  # Why `configs` is null.
    num_partitions: Int32 = since(5, default=-1)
    replication_factor: Int16 = since(5, default=-1)
    configs: NullableArray[CreatableTopicConfigs] = since(5, default=EMPTY)


@struct
class CreatableTopicConfigs:
    """A setting of the created topic."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
