"""The subscribers of one topic by their load, from both ends: who gets the next partition, and who gives one.

    loads  1  1  2 | 4 |  6  6  6        Members are sorted by load, then by number.
           [     )        [       )
           fewest 2       most 6

Those with the fewest partitions are a range at the begin, all with the same load once each of them got one; then the
range takes in those that had as many. Those with the most are a range at the end, from which one more is taken each
time. Balanced is when the two loads differ by one at most. The caller changes the loads, as partitions move.
"""

from __future__ import annotations

from collections.abc import Sequence


class LoadLevels:
    """The state for one topic."""

    def __init__(self, loads: Sequence[int], subscribers: Sequence[int]) -> None:
        """`loads` by member; it changes with every partition given or taken."""
        self._loads = loads
        self._sorted = sorted(subscribers, key=lambda number: (loads[number], number))
        self._fewest = loads[self._sorted[0]] - 1
        self._fewest_end = 0
        self._next_receiver = 0
        self._most = loads[self._sorted[-1]] + 1
        self._most_start = self._most_end = len(self._sorted)
        self._next_giver = len(self._sorted) - 1

    @property
    def is_balanced(self) -> bool:
        return self._most - self._fewest <= 1

    def next_with_fewest(self) -> int:
        """The member that gets the next partition."""
        if self._next_receiver >= self._fewest_end:
            self._fewest += 1
            while self._fewest_end < len(self._sorted) and self._load_at(self._fewest_end) == self._fewest:
                self._fewest_end += 1
            self._next_receiver = 0
        self._next_receiver += 1
        return self._sorted[self._next_receiver - 1]

    def next_with_most(self) -> int | None:
        """The member that gives the next partition; None when all are excluded."""
        if self._next_giver < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most = self._load_at(self._most_start - 1)
            else:
                self._most -= 1
            while self._most_start > 0 and self._load_at(self._most_start - 1) == self._most:
                self._most_start -= 1
            self._next_giver = self._most_end - 1
        if self._next_giver < 0:
            return None
        self._next_giver -= 1
        return self._sorted[self._next_giver + 1]

    def exclude(self) -> None:
        """Take the last result of `next_with_most` out of its range: it has no partition to give."""
        at, last = self._next_giver + 1, self._most_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._most_end -= 1

    def _load_at(self, position: int) -> int:
        return self._loads[self._sorted[position]]
