"""What a transaction says of itself: the batch that it holds, and the position after it. Pure.

A note is the metadata of offsets that the transaction commits to a group, so it is there exactly if the batch is. A
broker bounds the metadata of one offset (`offset.metadata.max.bytes`), so a note may be in pieces, one for each
partition:

    sordini 17 0 1 eNqrVipILCpRsqpWKk...      batch 17, piece 0 of 1; JSON with the position, deflated, in base 64

Notes of earlier batches stay in partitions that a later note does not need; the highest batch is the one in force.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.positions import Offsets, offsets_from_json

METADATA_BYTES_MAX: Final = 4096
"""The default of `offset.metadata.max.bytes`."""
_HEAD_BYTES_MAX: Final = 64
_PIECE: Final = re.compile(r"sordini (\d+) (\d+) (\d+) ([A-Za-z0-9+/=]*)")
_POSITION_BYTES_MAX: Final = 16 * 1024 * 1024


class Note(NamedTuple):
    """The last batch of a writer, and the position after it."""

    batch_id: int
    offsets: Offsets
    """Empty where the batch's number says it all, as in Spark's own checkpoints."""


class BadNote(PipelineError):
    """Metadata of a group's offsets that are no note, or only a part of one."""


def to_pieces(note: Note) -> list[str]:
    """The metadata for as many partitions as the note needs, at least one."""
    text = ""
    if note.offsets:
        plain = json.dumps(
            {topic: {str(number): at for number, at in each.items()} for topic, each in note.offsets.items()}
        )
        text = base64.b64encode(zlib.compress(plain.encode(), 9)).decode()
    size = METADATA_BYTES_MAX - _HEAD_BYTES_MAX
    pieces = [text[start : start + size] for start in range(0, len(text), size)] or [""]
    return [f"sordini {note.batch_id} {index} {len(pieces)} {piece}" for index, piece in enumerate(pieces)]


def newest(texts: Iterable[str], group: str) -> Note | None:
    """The note of the highest batch among all metadata of a group; None without any. Raises BadNote."""
    batches: dict[int, dict[int, str]] = {}
    counts: dict[int, int] = {}
    for text in texts:
        found = _PIECE.fullmatch(text)
        if found is None:
            raise BadNote(
                f"group '{group}' has offsets that are no note of a writer's: it belongs to the transactional id alone"
            )
        batch_id, index, count = int(found[1]), int(found[2]), int(found[3])
        batches.setdefault(batch_id, {})[index] = found[4]
        counts[batch_id] = count
    if not batches:
        return None
    batch_id = max(batches)
    pieces = batches[batch_id]
    if sorted(pieces) != list(range(counts[batch_id])):
        raise BadNote(f"group '{group}' has lost a part of the note of batch {batch_id}: its position is not known")
    return Note(batch_id, _offsets("".join(pieces[index] for index in sorted(pieces)), group))


def _offsets(text: str, group: str) -> Offsets:
    if not text:
        return {}
    try:
        plain = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _POSITION_BYTES_MAX)
        return offsets_from_json(json.loads(plain), f"the note of group '{group}'")
    except (ValueError, zlib.error) as error:
        raise BadNote(f"group '{group}' has a note that cannot be read: {error}") from None
