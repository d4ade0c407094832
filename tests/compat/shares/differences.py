"""The lines of transcripts that are otherwise with Sordini, each with its reason."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """In the situation of that sentence, lines that are `theirs` are `ours`."""

    sentence: str
    theirs: str
    ours: str
    why: str


_UNWRITTEN = (
    "a topic that is missing is not created",
    "a topic whose name begins otherwise",
    "a topic that is not for dead letters",
    "a compacted topic takes no dead letter without a key",
)
_LATER = "Dead letters that cannot be written wait until they can, and are not lost."
_STORED = "stored without dead letters:"
_LETTER = (
    "dead letter 0:0 of now key=None value=None __dlq.errors.topic=t, __dlq.errors.partition=0, __dlq.errors.offset=0, "
    "__dlq.errors.group=g, __dlq.errors.delivery.count=1, __dlq.errors.message=Offset rejected by client."
)

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "sizes of a fetch that are zero or negative",
        "acquired=[(0, -1, 1), (0, 2, 1)]",
        "acquired=[(0, 2, 1)]",
        "Ranges of no records are not sent.",
    ),
    Difference(
        "records are deleted beyond all that is in flight",
        "acquired=[(4, 5, 1)]",
        "acquired=[(5, 5, 1)]",
        "A record that was deleted is not delivered with the batch of one that was not.",
    ),
    Difference(
        "records that were deleted before they are rejected",
        "dead letter 0:2 of now key=None value=None",
        "dead letter 0:2 of now key=b'k' value=b'value 0'",
        "Records that are still there are copied, though others in front of them are deleted.",
    ),
    *(
        Difference(sentence, f"{_STORED} 0 [(0, 0, 4, 1)]", f"{_STORED} 0 [(0, 0, 3, 1)]", _LATER)
        for sentence in _UNWRITTEN
    ),
    *(Difference(sentence, "no dead letters", _LETTER, _LATER) for sentence in _UNWRITTEN),
)


def as_ours(sentence: str, lines: list[str]) -> list[str]:
    """What is recorded of a situation, with the differences that hold there."""
    for difference in DIFFERENCES:
        if difference.sentence == sentence:
            lines = [line.replace(difference.theirs, difference.ours) for line in lines]
    return lines
