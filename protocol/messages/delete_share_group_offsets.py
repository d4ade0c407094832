"""DeleteShareGroupOffsets: a share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import ZERO_UUID, Array, Int16, Int32, NullableString, String, Uuid


@message(versions=range(1), flexible=0)
class DeleteShareGroupOffsetsRequest:
    """Topics of one group."""

    group_id: String = ""
    topics: Array[DeleteShareGroupOffsetsRequestTopic] = EMPTY


@struct
class DeleteShareGroupOffsetsRequestTopic:
    """One topic."""

    topic_name: String = ""


@message(versions=range(1), flexible=0)
class DeleteShareGroupOffsetsResponse:
    """One row for each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic] = EMPTY


@struct
class DeleteShareGroupOffsetsResponseTopic:
    """One topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None
