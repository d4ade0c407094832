"""What a call that writes has written, as values."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sordini.pipeline.jobs.batch_writer import Batch

BATCHES_KEPT: Final = 1000
"""A result has at most this many batches, the last ones: a stream may run for years."""


@dataclass
class Result:
    """The batches that a call wrote under one name, in order, and their sums."""

    name: str
    """The job's, or that of an aggregate."""
    rows: int = 0
    dead_letters: int = 0
    files: int = 0
    batches_written: int = 0
    was_stopped: bool = False
    """Whether the call ended because a stop was requested."""
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    """The last 1,000 of them."""

    def add(self, batch: Batch) -> None:
        """Count a batch; one that was in the table before counts as a batch without rows."""
        self.rows += batch.rows
        self.dead_letters += batch.dead
        self.files += batch.files
        self.batches_written += 1
        self.batches.append(batch)
