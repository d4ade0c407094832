"""The lines of transcripts that are otherwise with Sordini, each with its reason."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """In the situation of that sentence, lines that are `theirs` are `ours`."""

    sentence: str
    theirs: str
    ours: str
    why: str


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
)


def as_ours(sentence: str, lines: list[str]) -> list[str]:
    """What is recorded of a situation, with the differences that hold there."""
    for difference in DIFFERENCES:
        if difference.sentence == sentence:
            lines = [line.replace(difference.theirs, difference.ours) for line in lines]
    return lines
