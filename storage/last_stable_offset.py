"""The last stable offset: where a read_committed reader stops (KIP-98). Pure.

It is before the first record left of a transaction that is not decided below the high watermark: one that is open, or
whose marker the followers may not have yet. A part of `ProducerState`, which notes what is in the log.
"""

from __future__ import annotations

from itertools import islice


class UnstableTransactions:
    """The transactions of one log that bound what a read_committed reader may read."""

    __slots__ = ("_ended", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """Producer id -> first offset of its open transaction, in the order in which they began."""
        self._ended: list[tuple[int, int]] = []
        """(first, last offset) of ended transactions whose marker may not be replicated yet."""

    def end(self, producer_id: int, first_offset: int, marker_offset: int) -> None:
        """The marker of an open transaction is in the log."""
        del self.open[producer_id]
        self._ended.append((first_offset, marker_offset))

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        """The high watermark, or the first record left of the first transaction that is not decided below it."""
        if not self.open and not self._ended:  # Here, not below: it saves a call for each row of a Fetch.
            return high_watermark
        first = self.first_unstable_offset(high_watermark)
        return high_watermark if first is None else max(min(first, high_watermark), log_start_offset)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that has no marker below the high watermark; None when there is none.

        Transactions with a marker below it are forgotten: the high watermark never moves back.
        """
        self._ended = [ended for ended in self._ended if ended[1] >= high_watermark]
        firsts = [first for first, _ in self._ended]
        firsts += islice(self.open.values(), 1)  # They are in the order in which they began.
        return min(firsts, default=None)
