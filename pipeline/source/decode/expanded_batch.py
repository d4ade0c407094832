"""From a batch to its decompressed records, and the reason if some cannot be read."""

from __future__ import annotations

from typing import Final, NamedTuple

from sordini.pipeline.source.decode.batch_scan import Batch
from sordini.pipeline.source.decode.framing import RECORD_BYTES_MIN
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, read_records
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.expansion import decompress

EXPANDED_BYTES_MAX: Final = 1 << 30
"""Of one decompressed batch; a broker's own limit is lower, and 32-bit offsets in Arrow allow this."""


class ExpandedBatch(NamedTuple):
    """A batch of format 2 and its records, expanded."""

    header: BatchHeader
    body: memoryview | bytes
    position: int | None
    """Where the records stand in what was fetched; None where they were compressed."""


def open_batch(records: memoryview, batch: Batch) -> ExpandedBatch:
    """Expand a batch whose CRC is right; raises BrokerError as `decompress`, and INVALID_RECORD for a wrong count."""
    header, start = batch.header, batch.position + HEADER_SIZE
    body: memoryview | bytes = records[start : batch.position + header.size]
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, EXPANDED_BYTES_MAX)
    # An impossible count is refused before memory is allocated. Compaction may leave a batch without records.
    if not (0 < header.record_count * RECORD_BYTES_MIN <= len(body)) and (header.record_count or body):
        raise BrokerError(ErrorCode.INVALID_RECORD, f"{header.record_count} records in {len(body)} bytes")
    return ExpandedBatch(header, body, start if header.codec == NO_CODEC else None)


def first_wrong(opened: ExpandedBatch) -> tuple[int, str]:
    """What is wrong with a batch's records: the offset of the first that cannot be read (the batch's where all can be
    and more follows them), and why.
    """
    header, body, _ = opened
    as_plain = header._replace(attributes=header.attributes & ~CODEC_MASK, size=HEADER_SIZE + len(body))
    number, offset = 0, header.base_offset
    try:
        for record in read_records(bytes(HEADER_SIZE) + bytes(body), as_plain):
            if not offset <= record.offset <= header.last_offset:
                return offset, f"record {number} of the batch says it is offset {record.offset}"
            number, offset = number + 1, record.offset + 1
    except BrokerError as error:
        if number == header.record_count:
            return header.base_offset, str(error)
        return offset, f"record {number} of the batch: {error}"
    raise AssertionError(f"the records of the batch at offset {header.base_offset} can be read")
