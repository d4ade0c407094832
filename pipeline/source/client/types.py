"""What a client answers with."""

from __future__ import annotations

from typing import Final, NamedTuple

from sordini.pipeline.source.decode import Aborted

EARLIEST: Final = -2
"""As a time asked for: the first offset that is still in the log."""
LATEST: Final = -1
"""As a time asked for: the offset behind the last record (of ended transactions, if read_committed)."""
NO_OFFSET: Final = -1
"""As an offset answered: no record is that young."""


class Fetched(NamedTuple):
    """What one fetch brought of one partition.

    `records` are whole record batches (or old messages), as they lie in the log: the first may begin before the
    offset that was asked for, the last may end behind the end that was asked for, and there may be none at all. The
    bytes do not change while the view, or a view of it, is alive.
    """

    records: memoryview
    aborted: list[Aborted]
    """Transactions that were aborted; their records are among `records` (read_committed only)."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    """-1 from a broker that does not tell (Fetch below version 5)."""
    next_offset: int
    """The first offset behind `records`: where the next fetch goes on."""
