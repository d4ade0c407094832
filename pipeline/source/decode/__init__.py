"""Record batches, as a Fetch response carries them, to Arrow columns: no Spark, no sockets, no Python per record.

decoder = Decoder(DecodeRequest("views", 0, start=0, end=5000, columns=frozenset(COLUMNS)))
for fetched in client.read(partition, 0, 5000):
    for decoded in decoder.pieces(fetched.records, fetched.aborted):
        if decoded.batch is not None:
            yield decoded.batch
"""

from sordini.pipeline.source.decode.broken_records import BrokenRecords
from sordini.pipeline.source.decode.columns import COLUMNS, arrow_schema
from sordini.pipeline.source.decode.decode_request import Decoded, DecodeRequest
from sordini.pipeline.source.decode.decoder import Decoder
from sordini.protocol.records.aborted_transactions import Aborted

__all__ = ["COLUMNS", "Aborted", "BrokenRecords", "DecodeRequest", "Decoded", "Decoder", "arrow_schema"]
