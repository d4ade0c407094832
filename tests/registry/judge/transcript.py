"""Transcripts of two registries: requests, a line of dashes, and for each request what the judge answered.

    POST /subjects/s/versions {"schema":"@int"}
    ----
    405 {"error_code":405}
      ours 200 {"id":1}
      why  ADDRESS_NOT_THERE

The last two lines are there where ours answers differently; `why` names a row of `reasons.REASONS`, or is `?` until
it was decided which of the two is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("transcripts")
UNDECIDED = "?"
METHODS = ("GET ", "PUT ", "POST ", "DELETE ")


class Answered(NamedTuple):
    """What the judge answered; what ours did and the reason, if it was another answer."""

    theirs: str
    ours: str | None = None
    why: str | None = None


class Exchange(NamedTuple):
    request: str
    answered: Answered | None
    """None if it was not recorded yet."""


class Block(NamedTuple):
    """Lines as they are written, names and comments among them, and the answers to the requests of these."""

    lines: Sequence[str]
    exchanges: Sequence[Exchange]


def compact(body: str) -> str:
    """A body on one line."""
    try:
        return json.dumps(json.loads(body), separators=(",", ":"))
    except ValueError:
        return " ".join(body.split())


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.txt"))


def is_request(line: str) -> bool:
    return line.startswith(METHODS)


def parsed(text: str) -> list[Block]:
    """The blocks of a transcript. Raises ValueError if answers are missing, but for a block that has none yet."""
    found = list[Block]()
    for part in text.rstrip("\n").split("\n\n"):
        before, dashes, after = f"{part}\n".partition("----\n")
        lines = before.splitlines()
        requests = [line for line in lines if is_request(line)]
        answers = list(_answers(after.splitlines()))
        if not dashes or (answers and len(answers) != len(requests)):
            raise ValueError(f"{len(requests)} requests have {len(answers)} answers: {lines[0]}")
        given = answers or [None] * len(requests)
        found.append(Block(lines, [Exchange(*pair) for pair in zip(requests, given, strict=True)]))
    return found


def _answers(lines: Sequence[str]) -> Iterator[Answered]:
    theirs: Answered | None = None
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "ours" and theirs is not None:
            theirs = theirs._replace(ours=rest)
        elif word == "why" and theirs is not None:
            theirs = theirs._replace(why=rest.strip())
        else:
            if theirs is not None:
                yield theirs
            theirs = Answered(line)
    if theirs is not None:
        yield theirs


def rendered(blocks: Sequence[Block]) -> str:
    return "\n\n".join("\n".join([*block.lines, "----", *_answer_lines(block)]) for block in blocks) + "\n"


def _answer_lines(block: Block) -> Iterator[str]:
    for exchange in block.exchanges:
        answered = exchange.answered
        if answered is None:
            continue
        yield answered.theirs
        if answered.ours is not None:
            yield f"  ours {answered.ours}"
            yield f"  why  {answered.why}"


def replayed(blocks: Sequence[Block], answer: Callable[[str], str | None]) -> list[list[str]]:
    """The answers to the requests of each block, which are given to `answer` with the lines that name texts."""
    return [[found for line in block.lines if (found := answer(line)) is not None] for block in blocks]
