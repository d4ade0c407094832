"""DeleteTopics: remove topics with all their records.

v1 returns throttling; v4 is flexible; v5 returns messages; v6 names topics by name or id (KIP-516).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, NullableString, String, Uuid


@message(versions=range(7), flexible=4)
class DeleteTopicsRequest:
    """The topics to remove."""

    topics: Array[DeleteTopicState] = since(6, default=EMPTY)
    topic_names: Array[String] = until(5, default=EMPTY)
    timeout_ms: Int32 = 0


@struct
class DeleteTopicState:
    """One topic, by name or (when the name is null) by id."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


@message(versions=range(7), flexible=4)
class DeleteTopicsResponse:
    """The results of all topics."""

    throttle_time_ms: Int32 = since(1, default=0)
    responses: Array[DeletableTopicResult] = EMPTY


@struct
class DeletableTopicResult:
    """One topic that is gone, or why not."""

    name: NullableString = since(0, default="", nullable=6)
    topic_id: Uuid = since(6, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None)
