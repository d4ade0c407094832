"""Acknowledgements as requests have them, checked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.broker.shares.machine.acknowledgement import Acknowledgement
from sordini.broker.shares.machine.record_states import AckType
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.common import AcknowledgementBatch

_WITH_RENEWAL: Final = frozenset(map(int, AckType))
_TYPES: Final = _WITH_RENEWAL - {AckType.RENEW}


def checked(
    batches: Sequence[AcknowledgementBatch], former: int = -1, *, renews: bool
) -> tuple[list[Acknowledgement], int]:
    """What a request says of one partition, and its last offset; `renews`: locks may be renewed by it.

    `former` is the last offset of what the request says before these. Raises BrokerError INVALID_REQUEST where offsets
    run backwards, and for types that are unknown, too many or too few. As at Apache Kafka, a range may begin with the
    last offset of the one before: that offset is then not held.
    """
    found: list[Acknowledgement] = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"offsets {first} to {last} are no range")
        if first < former:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"offset {first} is acknowledged behind {former}")
        if not types or len(types) not in (1, last - first + 1):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{len(types)} types for offsets {first} to {last}")
        unknown = set(types) - (_WITH_RENEWAL if renews else _TYPES)
        if unknown:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"there are no acknowledgements of types {unknown} here")
        found.append(Acknowledgement(first, last + 1, types))
        former = last
    return found, former
