"""A pattern as a program: instructions that read a character, test the place or go elsewhere.

Targets are relative, and behind the last instruction a part is complete. So the program of a sequence is that of its
parts one behind the other, and a repetition that is counted has its part several times:

    a|b   0 go 1, 3    1 read a   2 go 2       3 read b   4        a*   0 go 1, 3    1 read a   2 go -2    3
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from sordini.system.named_tuple import NamedTuple


class Operation(Enum):
    """What an instruction does."""

    READ = auto()
    """Continue if the next character is in the set."""
    GO = auto()
    """Continue at all targets."""
    AT_BEGIN = auto()
    AT_END = auto()
    AT_WORD_BOUNDARY = auto()
    NOT_AT_WORD_BOUNDARY = auto()


class Instruction(NamedTuple):
    """One instruction, and where it continues, relative to itself."""

    operation: Operation
    targets: tuple[int, ...] = (1,)
    characters: int = 0


Program = Sequence[Instruction]
EMPTY: Final[Program] = ()


def read(characters: int) -> Program:
    return (Instruction(Operation.READ, characters=characters),)


def test(operation: Operation) -> Program:
    return (Instruction(operation),)


def in_sequence(parts: Sequence[Program]) -> Program:
    if len(parts) == 1:
        return parts[0]  # Deep groups are not copied for each level.
    return [instruction for part in parts for instruction in part]


def either(parts: Sequence[Program]) -> Program:
    """Any of the parts."""
    if len(parts) == 1:
        return parts[0]
    starts, start = [], 1
    for part in parts:
        starts.append(start)
        start += len(part) + 1
    end = start
    result = [_go(*starts)]
    for part in parts:
        result += part
        result.append(_go(end - len(result)))
    return result


def repeated(part: Program, low: int, high: int | None) -> Program:
    """The part `low` times to `high` times; None has no limit."""
    if not part:
        return EMPTY
    result = list(part) * low
    if high is not None:
        rest = (high - low) * (len(part) + 1)
        for left in range(rest, 0, -len(part) - 1):
            result += [_go(1, left), *part]
    elif low:
        result.append(_go(1, -len(part)))
    else:
        result += [_go(1, len(part) + 2), *part, _go(-len(part) - 1)]
    return result


def repeated_size(part: Program, low: int, high: int | None) -> int:
    """How many instructions `repeated` makes."""
    if not part:
        return 0
    if high is None:
        return low * len(part) + 1 if low else len(part) + 2
    return low * len(part) + (high - low) * (len(part) + 1)


def _go(*targets: int) -> Instruction:
    return Instruction(Operation.GO, targets)
