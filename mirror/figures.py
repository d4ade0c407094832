"""What one flow has done, counted for metrics, `run`'s progress and logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from sordini.protocol.types import TopicPartition


@dataclass
class Figures:
    """Plain counters of one source, since the mirror started; only what is committed is counted."""

    records: int = 0
    bytes: int = 0
    """Of batches, as they are written."""
    batches: int = 0
    opened_batches: int = 0
    """Batches that could not pass as they are."""
    transactions: int = 0
    lost_records: int = 0
    """Offsets that the source deleted before they were copied."""
    failures: int = 0
    is_running: bool = False
    problem: str = ""
    """Why the flow is not running; empty while it is."""
    delivery: str = ""
    """`exactly once` or `at least once`, as it is done."""
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    """Records of the source that are committed there and not copied yet, by partition."""
    groups: int = 0
    """Groups with a translated offset."""

    @property
    def lag(self) -> int:
        return sum(self.lags.values())
