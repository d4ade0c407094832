"""A consumer's subscription, its metadata in JoinGroup (ConsumerProtocolSubscription).

    int16 version | array of topics | bytes of user data
                  | v1: array of (topic, array of int32 partition) owned | v2: int32 generation | v3: rack

Of a newer version the fields of version 3 are read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from sordini.protocol.codecs import EMPTY, NEVER, decode, decoder, message, since
from sordini.protocol.consumer_assignment import TopicPartitions
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import ROW_COST, Array, Int32, NullableBytes, NullableString, String

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers, whose metadata is a subscription."""
NEWEST: Final = 3
COST_MAX: Final = 20_000 * ROW_COST
_VERSION: Final = Struct(">h")


@message(versions=range(NEWEST + 1), flexible=NEVER)
class ConsumerSubscription:
    """What a consumer subscribes to, and what it owned when it joined."""

    topics: Array[String] = EMPTY
    user_data: NullableBytes = None
    owned_partitions: Array[TopicPartitions] = since(1, default=EMPTY)
    generation_id: Int32 = since(2, default=-1)
    rack_id: NullableString = since(3, default=None)


def read_subscription(metadata: bytes) -> tuple[int, ConsumerSubscription] | None:
    """The version and the subscription; None if the bytes are none, or have too many rows to be read in one go."""
    version = _version_of(metadata)
    if version is None:
        return None
    try:
        read = decoder(ConsumerSubscription, min(version, NEWEST))
        return version, read(memoryview(metadata), _VERSION.size, COST_MAX)[0]
    except WireError:
        return None


def read_subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics alone, as of version 0, in which all versions begin; None if the bytes are no subscription."""
    if _version_of(metadata) is None:
        return None
    try:
        return decode(ConsumerSubscription, 0, memoryview(metadata), _VERSION.size)[0].topics
    except WireError:
        return None


def _version_of(metadata: bytes) -> int | None:
    """None if it is invalid."""
    if len(metadata) < _VERSION.size:
        return None
    version: int = _VERSION.unpack_from(metadata)[0]
    return version if version >= 0 else None
