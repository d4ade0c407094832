"""Control batches: the markers that end a transaction in each partition it wrote to.

A marker is a batch of one record with the control and the transactional bit:

    key    version int16 = 0 | type int16: 0 abort, 1 commit
    value  version int16 = 0 | epoch of the transaction coordinator int32

A reader reads the known fields of another version, and skips a record of another type.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import Record, build_batch

ABORT = 0
COMMIT = 1
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition; `kind` is ABORT, COMMIT or unknown."""

    kind: int
    coordinator_epoch: int


def build_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Write the control batch; it has no sequence number (-1), as the producer did not send it."""
    record = Record(base_offset, timestamp_ms, _KEY.pack(0, marker.kind), _VALUE.pack(0, marker.coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(record: Record) -> Marker:
    """Read the one record of a control batch; raises BrokerError INVALID_RECORD when it is too short."""
    if record.key is None or len(record.key) < _KEY.size:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"a control record's key is {record.key!r}")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in {ABORT, COMMIT}:
        return Marker(kind, -1)
    if record.value is None or len(record.value) < _VALUE.size:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"a marker's value is {record.value!r}")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind, coordinator_epoch)
