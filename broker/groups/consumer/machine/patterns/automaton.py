"""A program, run over names by an automaton whose states are made when a name reaches them.

A state is the set of instructions that are reached behind a character, and whether that was one of a word. For each
character there is one next state: a known transition is one look-up, and one that is not known yet visits each
instruction once at most. States are dropped all at once when they take more than CACHE_MAX.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum, auto
from typing import Final

from sordini.broker.groups.consumer.machine.patterns.characters import WORD
from sordini.broker.groups.consumer.machine.patterns.program import Operation, Program

CACHE_MAX: Final = 65_536
"""Of one pattern: numbers of instructions in states, and transitions; about 10 to 100 bytes each."""
_STATE_COST: Final = 32
_INSTRUCTIONS_PER_STEP: Final = 8


class _Place(Enum):
    """What is before a place in a name, or behind it."""

    EDGE = auto()
    WORD = auto()
    OTHER = auto()


class _State:
    __slots__ = ("before", "following", "is_accepting", "reached")

    def __init__(self, reached: tuple[int, ...], before: _Place) -> None:
        self.reached = reached
        self.before = before
        self.following: dict[str, _State] = {}
        self.is_accepting: bool | None = None
        """Whether a name may end here; None until one does."""


class Automaton:
    """The states of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._states: dict[tuple[tuple[int, ...], _Place], _State] = {}
        self.cached = 0
        """In the unit of CACHE_MAX."""

    def matches(self, name: str) -> Generator[int, None, bool]:
        """Whether the program matches all of the name; yields the steps made for transitions that were not known."""
        state = self._state((0,), _Place.EDGE)
        for character in name:
            following = state.following.get(character)
            if following is None:
                following, visited = self._follow(state, character)
                yield 1 + visited // _INSTRUCTIONS_PER_STEP
            if not following.reached:
                return False
            state = following
        if state.is_accepting is None:
            _, state.is_accepting, visited = self._reads(state, _Place.EDGE)
            yield 1 + visited // _INSTRUCTIONS_PER_STEP
        return state.is_accepting

    def _state(self, reached: tuple[int, ...], before: _Place) -> _State:
        state = self._states.get((reached, before))
        if state is None:
            cost = _STATE_COST + len(reached)
            if self.cached + cost > CACHE_MAX:
                self._states.clear()
                self.cached = 0
            state = self._states[reached, before] = _State(reached, before)
            self.cached += cost
        return state

    def _follow(self, state: _State, character: str) -> tuple[_State, int]:
        bit = 1 << ord(character) if character.isascii() else 0
        place = _Place.WORD if bit & WORD else _Place.OTHER
        reads, _, visited = self._reads(state, place)
        reached = tuple(sorted(number + 1 for number in reads if self._program[number].characters & bit))
        following = state.following[character] = self._state(reached, place)
        self.cached += 1
        return following, visited

    def _reads(self, state: _State, behind: _Place) -> tuple[list[int], bool, int]:
        """What reads the next character, whether the end is reached, and how many instructions were visited."""
        program, end = self._program, len(self._program)
        reads: list[int] = []
        visited = set(state.reached)
        waiting = list(state.reached)
        while waiting:
            number = waiting.pop()
            if number == end:
                continue
            instruction = program[number]
            if instruction.operation is Operation.READ:
                reads.append(number)
            elif _is_passed(instruction.operation, state.before, behind):
                for target in instruction.targets:
                    if number + target not in visited:
                        visited.add(number + target)
                        waiting.append(number + target)
        return reads, end in visited, len(visited)


def _is_passed(operation: Operation, before: _Place, behind: _Place) -> bool:
    match operation:
        case Operation.AT_BEGIN:
            return before is _Place.EDGE
        case Operation.AT_END:
            return behind is _Place.EDGE
        case Operation.AT_WORD_BOUNDARY:
            return (before is _Place.WORD) != (behind is _Place.WORD)
        case Operation.NOT_AT_WORD_BOUNDARY:
            return (before is _Place.WORD) == (behind is _Place.WORD)
        case _:
            return True
