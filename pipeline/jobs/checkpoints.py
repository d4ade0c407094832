"""Chooses the Spark checkpoint that a query continues with. The position stored in the table decides.

Spark numbers the batches of a checkpoint from 0, the table numbers all batches of a job; `first_batch_id` is what a
checkpoint's batch 0 is to the table. A checkpoint notes a batch before it is written (`offsets/N`) and after
(`commits/N`). So it belongs to the table if the table's last batch is the one it committed last, or the one that is
planned, up to the same offsets. Otherwise (it is lost, restored from an old copy, or behind because `load` has run
since) it is left alone, and a new one starts where the table ends: no records are lost or duplicated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from sordini.pipeline.jobs.state_folder import StateError, StateFolder
from sordini.pipeline.source.positions import Offsets, Position, offsets_from_json, read_position

CURRENT = "current.json"


class Checkpoint(NamedTuple):
    """One of Spark's checkpoints, below the query's state."""

    number: int
    first_batch_id: int
    fingerprint: Mapping[str, Any]
    """What must not change: a checkpoint of Spark belongs to one source and one query."""
    topic_ids: Mapping[str, str] = MappingProxyType({})
    """The ids of the topics that its offsets belong to, as far as known."""

    @property
    def folder(self) -> str:
        return str(self.number)


class Choice(NamedTuple):
    """The chosen checkpoint; `why` is the reason, in words, if a new one is needed."""

    checkpoint: Checkpoint
    is_new: bool
    why: str = ""


def choose(
    state: StateFolder,
    last: tuple[int, Offsets] | None,
    fingerprint: Mapping[str, Any],
    *,
    table_has_position: bool = True,
    skips_batches: bool = False,
    written: int = -1,
    topic_ids: Mapping[str, str] | None = None,
) -> Choice:
    """Choose the checkpoint to continue with.

    `table_has_position` is false for a sink that does not store its last batch; `skips_batches` is true if batches
    without rows do not change the table, and then `written` is the last batch that did. `topic_ids` are the topics'
    current ids, stored with a new checkpoint.
    """
    ids = dict(topic_ids or {})
    current = read_current(state)
    next_id = last[0] + 1 if last else 0
    # Of all folders: a state that was restored in part has some that are newer than its notes.
    number = 1 + max((int(name) for name in state.names("") if name.isdecimal()), default=-1)
    if current is None:
        why = "the checkpoint is lost, the table has the position" if last else ""
        return Choice(Checkpoint(number, next_id, fingerprint, ids), is_new=True, why=why)
    why = ""
    known_ids = {**current.topic_ids, **_last_ids(state, current)}
    if current.fingerprint != json.loads(json.dumps(fingerprint)):
        why = "the source is another one"
    elif recreated := sorted(topic for topic, known in known_ids.items() if ids.get(topic, known) != known):
        why = f"'{recreated[0]}' was deleted and created again"
    elif table_has_position:
        why = _contradiction(state, current, last, skips_batches=skips_batches, written=written)
    if not why:
        return Choice(current, is_new=False)
    number = max(number, current.number + 1)
    return Choice(Checkpoint(number, next_id, fingerprint, ids), is_new=True, why=why)


def read_current(state: StateFolder) -> Checkpoint | None:
    """The checkpoint in force; None where there never was one. Raises StateError."""
    found = state.read(CURRENT)
    if found is None:
        return None
    try:
        ids = dict(found.get("topic_ids", {}))
        return Checkpoint(int(found["number"]), int(found["first_batch_id"]), dict(found["fingerprint"]), ids)
    except (KeyError, TypeError, ValueError):
        raise StateError(f"{state.location}/{CURRENT} is damaged: remove it, the tables have the position") from None


def put_in_force(state: StateFolder, checkpoint: Checkpoint, start: Offsets | None = None) -> None:
    """Store a checkpoint as the one in force, with its first position."""
    reported = {**checkpoint._asdict(), "topic_ids": dict(checkpoint.topic_ids)}
    state.write(CURRENT, {**reported, "start": start or {}})


def uncommitted_batch(state: StateFolder, last: tuple[int, Offsets] | None) -> tuple[Offsets, Offsets] | None:
    """The range of the batch that is in the table, but that Spark has not committed; None where there is none.

    What comes after the table in a batch may be missing: its dead letters.
    """
    current = read_current(state)
    if current is None or last is None:
        return None
    planned = _last(state, current, "offsets")
    if planned is None or planned == _last(state, current, "commits"):
        return None
    end = planned_end(state, current, planned)
    if end is None or last[0] != current.first_batch_id + planned or not _agrees(end, last[1]):
        return None
    start = planned_start(state, current, planned)
    return (start, end) if start else None


def topic_ids_at(state: StateFolder, last: tuple[int, Offsets] | None) -> dict[str, str]:
    """The ids of the topics that the offsets of the table's last batch belong to, if the checkpoint in force has it.

    A stream finds topics that came, or were created again, while it ran.
    """
    current = read_current(state)
    if current is None or last is None:
        return {}
    position = planned_position(state, current, last[0] - current.first_batch_id)
    return position.topic_ids if position is not None and _agrees(position.offsets, last[1]) else {}


def planned_start(state: StateFolder, checkpoint: Checkpoint, batch: int) -> Offsets:
    """Where a batch of the checkpoint in force (with Spark's number) begins; its first one where that was stored."""
    before = planned_end(state, checkpoint, batch - 1)
    return offsets_from_json((state.read(CURRENT) or {}).get("start", {}), CURRENT) if before is None else before


def planned_end(state: StateFolder, checkpoint: Checkpoint, batch: int) -> Offsets | None:
    """The end offsets of a batch of a checkpoint (with Spark's number); None if it was not planned."""
    position = planned_position(state, checkpoint, batch)
    return None if position is None else position.offsets


def planned_position(state: StateFolder, checkpoint: Checkpoint, batch: int) -> Position | None:
    """Where a batch of a checkpoint (with Spark's number) ends; None if it was not planned.

    Spark's file has a line with its version, one with metadata, and one for each source.
    """
    text = state.read_text(f"{checkpoint.folder}/offsets/{batch}")
    if text is None:
        return None
    lines = text.splitlines()
    if len(lines) < 3:
        raise StateError(f"{state.location}/{checkpoint.folder}/offsets/{batch} is damaged")
    return read_position(lines[2])


def unfinished(state: StateFolder) -> int | None:
    """Spark's number of the batch of the checkpoint in force that is planned and not committed."""
    current = read_current(state)
    if current is None:
        return None
    planned = _last(state, current, "offsets")
    return None if planned == _last(state, current, "commits") else planned


def reached(state: StateFolder) -> tuple[int, Offsets] | None:
    """The last batch (as the table numbers them) that Spark committed, and its end."""
    current = read_current(state)
    if current is None:
        return None
    committed = _last(state, current, "commits")
    end = None if committed is None else planned_end(state, current, committed)
    return None if committed is None or end is None else (current.first_batch_id + committed, end)


def _contradiction(
    state: StateFolder, current: Checkpoint, last: tuple[int, Offsets] | None, *, skips_batches: bool, written: int
) -> str:
    """Why a checkpoint does not belong to a table with this last batch; empty if it does."""
    numbers = [_last(state, current, log) for log in ("commits", "offsets")]
    known = [current.first_batch_id - 1 if number is None else current.first_batch_id + number for number in numbers]
    batch_id = last[0] if last else -1
    if batch_id < written:
        return f"the table is at batch {batch_id} and had batch {written}"
    if batch_id not in known and not (skips_batches and batch_id < max(known)):
        return f"the table is at batch {batch_id} and the checkpoint at {min(known)}"
    if last is None or batch_id < current.first_batch_id:
        return ""
    end = planned_end(state, current, batch_id - current.first_batch_id)
    forgotten = skips_batches and end is None  # Spark keeps the files of about a hundred batches.
    return (
        ""
        if forgotten or (end is not None and _agrees(end, last[1]))
        else f"the table has batch {batch_id} up to other offsets"
    )


def _agrees(planned: Offsets, noted: Offsets) -> bool:
    """Whether a table's offsets are those of a batch; it keeps the positions in topics that are not there, too."""
    return all(noted.get(topic) == partitions for topic, partitions in planned.items())


def _last_ids(state: StateFolder, checkpoint: Checkpoint) -> dict[str, str]:
    """The topics' ids in the batch that was planned last."""
    planned = _last(state, checkpoint, "offsets")
    position = None if planned is None else planned_position(state, checkpoint, planned)
    return {} if position is None else position.topic_ids


def _last(state: StateFolder, checkpoint: Checkpoint, log: str) -> int | None:
    """The newest number in one of a checkpoint's logs."""
    return max((int(name) for name in state.names(f"{checkpoint.folder}/{log}") if name.isdecimal()), default=None)
