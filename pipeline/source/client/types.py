"""The results of a client."""

from __future__ import annotations

from typing import Final, NamedTuple

from sordini.pipeline.source.decode import Aborted

EARLIEST: Final = -2
"""As a requested time: the log start offset."""
LATEST: Final = -1
"""As a requested time: the high watermark, or the last stable offset with read_committed."""
NO_OFFSET: Final = -1
"""As a returned offset: there is no record at or after the time."""


class Fetched(NamedTuple):
    """The result of one fetch of one partition.

    `records` are whole record batches (or old messages), as they are in the log: the first may begin before the
    requested offset, the last may end after the requested end, and there may be none. The bytes do not change while
    the view, or a view of it, is referenced.
    """

    records: memoryview
    aborted: list[Aborted]
    """Transactions that were aborted; their records are among `records` (read_committed only)."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    """-1 from a broker that does not report it (Fetch below version 5)."""
    next_offset: int
    """The first offset after `records`, where the next fetch begins."""
