"""The decoder of one partition: fetched record sets in, record batches of Arrow out.

batch_scan.py              the headers of a record set, one after another
expanded_batch.py          a batch's records, decompressed
decode_piece.py            batches that are decoded together
framing.py                 where each record begins
fields.py                  its fields, as columns, and whether they are valid
arrow_columns.py           Arrow columns from them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.decode.arrow_columns import Constants, build, record_batch
from sordini.pipeline.source.decode.batch_scan import Batch, Unreadable, whole_batches
from sordini.pipeline.source.decode.broken_records import BrokenRecords
from sordini.pipeline.source.decode.columns import arrow_schema
from sordini.pipeline.source.decode.decode_piece import ARROW_BYTES_MAX, DecodePiece, Read, read
from sordini.pipeline.source.decode.decode_request import Decoded, DecodeRequest
from sordini.pipeline.source.decode.expanded_batch import ExpandedBatch, first_wrong, open_batch
from sordini.pipeline.source.decode.old_formats import build_old, read_old
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.aborted_transactions import Aborted, AbortedTransactions
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, crc_is_right

PIECE_BYTES: Final = 4 * 1024 * 1024
"""Of decompressed records that are decoded together; only a single batch may have more."""


class Decoder:
    """Decodes the fetched records of one partition, response by response, forward only.

    Records that are fed again, or lie before `wanted.start` (a batch is fetched whole), give no row.
    """

    def __init__(self, wanted: DecodeRequest) -> None:
        """Raises ValueError for an unknown column."""
        self.schema = arrow_schema(wanted.columns)
        self.next_offset = wanted.start
        """The next offset to fetch; `wanted.end` once all is decoded."""
        self._request = wanted
        self._aborts = AbortedTransactions(())
        self._constants = Constants(wanted.topic, wanted.partition)

    def feed(self, records: memoryview, aborted: Sequence[Aborted] | None = None) -> Decoded:
        """Decode one Fetch response's records as one batch. An incomplete batch at the end is left for the next.

        `aborted` is the response's list of aborted transactions; None keeps the previous list, for a response whose
        records are fed in parts. Raises BrokenRecords, and then `next_offset` has not changed, and PipelineError for
        2 GiB and more of decompressed records: `pieces` has no such bound.
        """
        start = self.next_offset
        try:
            batches = [piece.batch for piece in self.pieces(records, aborted) if piece.batch is not None]
        except BrokenRecords:
            self.next_offset = start
            raise
        if len(batches) < 2:
            return Decoded(batches[0] if batches else None, self.next_offset)
        if sum(batch.nbytes for batch in batches) > ARROW_BYTES_MAX:
            raise PipelineError(
                f"topic '{self._request.topic}', partition {self._request.partition}: too much for one batch of Arrow"
            )
        rows = sum(batch.num_rows for batch in batches)
        columns = pa.Table.from_batches(batches).combine_chunks().columns
        joined = record_batch([column.chunk(0) for column in columns], self.schema, rows)
        return Decoded(joined, self.next_offset)

    def pieces(self, records: memoryview, aborted: Sequence[Aborted] | None = None) -> Iterator[Decoded]:
        """As `feed`, but yield the rows in batches of about 4 MiB, for large reads.

        Everything up to a broken batch is yielded before BrokenRecords is raised; `next_offset` follows.
        """
        if aborted is not None:
            self._aborts = AbortedTransactions(aborted)
        end = self._request.end
        piece = DecodePiece(self.next_offset)
        try:
            for batch in whole_batches(records):
                if piece.next_offset >= end:
                    break
                if piece.size >= PIECE_BYTES or piece.holds_other_formats_than(batch):
                    yield from self._rows_of(records, piece)
                    piece = DecodePiece(piece.next_offset)
                self._add(records, batch, piece)
        except (BrokenRecords, Unreadable) as error:
            yield from self._rows_of(records, piece)
            raise self._broken_records(error, piece.next_offset) from None
        yield from self._rows_of(records, piece)

    def _add(self, records: memoryview, batch: Batch, piece: DecodePiece) -> None:
        """Add a batch to a piece if it has records in the range; raises BrokenRecords."""
        header = batch.header
        is_old = header.magic != CURRENT_MAGIC
        if header.base_offset >= self._request.end and not is_old:  # An old wrapper has its last offset here.
            piece.pass_to(self._request.end)
            return
        # Also of batches before the range, as transactions may have begun or ended there.
        is_aborted = self._request.read_committed and self._aborts.is_aborted(header)
        if header.next_offset <= piece.next_offset and not header.is_control:
            return
        try:
            if is_old:
                piece.add_old(read_old(records, batch), header.size)
            elif not crc_is_right(records, batch.position, header):
                raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the CRC is wrong")
            elif header.is_control:
                self._aborts.pass_control(records[batch.position :], header)
            elif not is_aborted:
                piece.add(open_batch(records, batch))
        except BrokerError as error:
            raise self._broken(header, header.base_offset, str(error)) from None
        piece.pass_to(header.next_offset)

    def _rows_of(self, records: memoryview, piece: DecodePiece) -> Iterator[Decoded]:
        """Yield the rows of a piece, as one batch unless some are broken; raises BrokenRecords."""
        if piece.old:
            rows = [row for row in piece.old if self.next_offset <= row.message.offset < self._request.end]
            batch = build_old(self.schema, rows, self._constants) if rows else None
            yield self._moved_to(piece.next_offset, batch)
        elif piece.opened:
            together = read(records, piece.opened)
            if together is not None:
                yield self._moved_to(piece.next_offset, self._built(together))
            else:
                yield from self._rows_one_by_one(records, piece.opened)
        if self.next_offset < min(piece.next_offset, self._request.end):
            yield self._moved_to(piece.next_offset, None)

    def _rows_one_by_one(self, records: memoryview, batches: list[ExpandedBatch]) -> Iterator[Decoded]:
        for opened in batches:
            alone = read(records, [opened])
            if alone is None:
                raise self._broken(opened.header, *first_wrong(opened))
            yield self._moved_to(opened.header.next_offset, self._built(alone))

    def _built(self, found: Read) -> pa.RecordBatch | None:
        """The rows of the records that are in the range and were not returned before."""
        offset = found.fields.offset
        first, last = np.searchsorted(offset, (self.next_offset, self._request.end)).tolist()
        if first == last:
            return None
        fields = found.fields if last - first == len(offset) else found.fields.cut(slice(first, last))
        return build(self.schema, fields, found.buffer, self._constants)

    def _moved_to(self, next_offset: int, batch: pa.RecordBatch | None) -> Decoded:
        self.next_offset = max(self.next_offset, min(next_offset, self._request.end))
        return Decoded(batch, self.next_offset)

    def _broken(self, header: BatchHeader, offset: int, reason: str) -> BrokenRecords:
        return BrokenRecords(
            self._request.topic,
            self._request.partition,
            offset,
            codec=header.codec,
            reason=reason,
            next_offset=header.next_offset,
        )

    def _broken_records(self, error: BrokenRecords | Unreadable, offset: int) -> BrokenRecords:
        if isinstance(error, BrokenRecords):
            return error
        return BrokenRecords(self._request.topic, self._request.partition, offset, codec=None, reason=str(error))
