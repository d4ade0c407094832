"""Records as texts: of control batches a text that names the marker, so that logs and polls can be compared."""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.records.batch import BatchHeader, read_records
from sordini.protocol.records.control import COMMIT, read_marker
from tests.sim.history import Seen

MARKER = "marker "
"""No producer sends a value that begins so."""


def seen_in(batch: memoryview, header: BatchHeader) -> Iterator[Seen]:
    """The records of one batch."""
    for record in read_records(batch, header):
        if header.is_control:
            kind = "commit" if read_marker(record).kind == COMMIT else "abort"
            producer = f"{header.producer_id}/{header.producer_epoch}"
            yield Seen(record.offset, f"{MARKER}@{record.offset}: {kind} of {producer}")
        else:
            yield Seen(record.offset, (record.value or b"").decode(errors="backslashreplace"))
