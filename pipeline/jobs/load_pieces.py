"""What a job's state notes of its batches: the pieces of `load`, and the last batch that is done.

Where a sink has the position itself, the notes only say which piece was begun.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import checkpoints
from sordini.pipeline.jobs.source_topics import Offsets
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.source.positions import offsets_from_json

INTENT, DONE = "load/intent.json", "load/done.json"


class LoadPiece(NamedTuple):
    """A range of records with a number; offsets of `end` are the first not in it."""

    batch_id: int
    start: Offsets
    end: Offsets

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LoadPiece:
        """Raises PipelineError for anything else."""
        return cls(
            int(value["batch_id"]),
            offsets_from_json(value["start"], "a piece's start"),
            offsets_from_json(value["end"], "a piece's end"),
        )


class NoteExpired(PipelineError):
    """The brokers have forgotten whether the last batch of a job is committed."""

    def __init__(self, location: str, group: str, batch_id: int, remedy: str) -> None:
        super().__init__(
            f"whether batch {batch_id} is in {location} is not known: the offsets of group '{group}' have expired "
            f"(offsets.retention.minutes), and the job was killed in that batch. {remedy}"
        )


def open_piece(state: StateFolder) -> LoadPiece | None:
    """The intent without its done."""
    intent, done = state.read(INTENT), state.read(DONE)
    return None if intent is None or intent == done else LoadPiece.from_json(intent)


def is_of_load(state: StateFolder, batch_id: int, offsets: Offsets) -> bool:
    """Whether a batch is the piece that `load` began last."""
    intent = state.read(INTENT)
    return intent is not None and (piece := LoadPiece.from_json(intent)).batch_id == batch_id and piece.end == offsets


def last_noted_batch(state: StateFolder, *, by_number: bool = False) -> tuple[int, Offsets] | None:
    """The last batch that is done, by the job's state alone, and the offsets after it.

    `load` and `stream` have one sequence of numbers where the sink has the position (`by_number`). Otherwise that of a
    stream is its own, and the batch with the greater offsets is the later one.
    """
    done, streamed = state.read(DONE), checkpoints.reached(state.below("stream"))
    places = [] if streamed is None else [streamed]
    if done is not None:
        piece = LoadPiece.from_json(done)
        places.append((piece.batch_id, piece.end))
    if by_number:  # Offsets of a topic that was created again are smaller than those before.
        return max(places, key=lambda place: place[0], default=None)
    return max(places, key=lambda place: sum(at for each in place[1].values() for at in each.values()), default=None)


def last_before_expiry(state: StateFolder, location: str, group: str) -> tuple[int, Offsets] | None:
    """The last batch of a job whose sink has no note of it (any more): None if the job never wrote.

    Raises NoteExpired if the job was killed between a batch's begin and its end.
    """
    noted = last_noted_batch(state, by_number=True)
    if noted is None:
        return None
    if (piece := open_piece(state)) is not None and piece.batch_id > noted[0]:
        remedy = f"If it is, copy {INTENT} to {DONE} in {state.location}; if not, remove {INTENT}"
        raise NoteExpired(location, group, piece.batch_id, remedy)
    below = state.below("stream")
    if (number := checkpoints.unfinished(below)) is not None:
        checkpoint, last = checkpoints.read_current(below), number - 1
        assert checkpoint is not None, "one has an unfinished batch"
        folder = f"{below.location}/{checkpoint.folder}"
        remedy = f"If it is, copy commits/{last} to commits/{number} in {folder}; if not, remove offsets/{number}"
        raise NoteExpired(location, group, checkpoint.first_batch_id + number, remedy)
    return noted
