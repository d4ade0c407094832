"""A table's note of each writer: the last batch and the offsets after it. Decides whether to write a batch."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sordini.pipeline.tables.table import Offsets, TableError, WrongBatch


class WriterPosition(NamedTuple):
    """One writer's last batch."""

    batch_id: int
    offsets: Offsets


def is_written(app_id: str, last: WriterPosition | None, batch: WriterPosition) -> bool:
    """Whether `batch` is in a table whose note is `last`. Raises WrongBatch if the two contradict each other.

    A restarted query repeats its last batch at most. An older one comes from another checkpoint, and so does the same
    number with other offsets: skipping them would lose rows, writing them would duplicate rows.
    """
    if last is None or batch.batch_id > last.batch_id:
        return False
    if batch.batch_id < last.batch_id:
        raise WrongBatch(
            f"batch {batch.batch_id} of '{app_id}' is older than batch {last.batch_id}, which the table has: this is "
            "not the checkpoint that belongs to it (a new or older checkpoint needs a new app_id)"
        )
    if batch.offsets and last.offsets and batch.offsets != last.offsets:
        raise WrongBatch(
            f"batch {batch.batch_id} of '{app_id}' is in the table up to other offsets "
            f"({_shown(last.offsets)}, now {_shown(batch.offsets)}): this is not the checkpoint that belongs to it"
        )
    return True


def to_json(note: WriterPosition) -> dict[str, Any]:
    """For JSON, whose keys are strings."""
    offsets = {topic: {str(number): end for number, end in ends.items()} for topic, ends in note.offsets.items()}
    return {"batch": note.batch_id, "offsets": offsets}


def from_json(body: Any) -> WriterPosition:
    """Undoes `to_json`. Raises TableError for anything else."""
    try:
        offsets = {
            str(topic): {int(number): int(end) for number, end in ends.items()}
            for topic, ends in body["offsets"].items()
        }
        return WriterPosition(int(body["batch"]), offsets)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"the table's note about a writer cannot be read: {json.dumps(body)[:200]}") from error


def _shown(offsets: Offsets) -> str:
    shown = [f"{topic}-{number}: {end}" for topic, ends in offsets.items() for number, end in ends.items()]
    return ", ".join(sorted(shown)[:5]) + (", ..." if len(shown) > 5 else "")
