"""Regular expressions with groups, searched in time linear in the text for each search: no pattern of a client or an
administrator, and no certificate, makes the broker backtrack.

The syntax is what patterns of names use of Java's and RE2's: characters, `.`, classes (`[a-z]`, `[^,]`, `\\d \\w \\s`
and opposites), groups and `(?:...)`, `|`, `* + ? {n} {n,} {n,m}` and the same with `?` behind (the shortest match), `^`
and `$`. The match is the one that Java's engine finds: alternatives in their order, the longest or the shortest
repetition first. All ways are followed at once, in the order of preference (Pike's algorithm). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sordini.system.named_tuple import NamedTuple

DEPTH_MAX: Final = 50
_SPECIAL: Final = frozenset("\\.[](){}*+?^$|")
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": lambda character: "0" <= character <= "9",
    "w": lambda character: character == "_" or (character.isascii() and character.isalnum()),
}

Test = Callable[[str], bool]
Slots = tuple[int, ...]


class Dialect(NamedTuple):
    """In what engines differ, and how large a pattern may be."""

    spaces: str
    """The characters of `\\s`."""
    line_ends: str
    """The characters that `.` is not."""
    characters_max: int
    states_max: int


JAVA: Final = Dialect(" \t\n\x0b\f\r", "\n\r\x85\u2028\u2029", 1024, 4096)
RE2: Final = Dialect(" \t\n\f\r", "\n", 512, 1536)


class PatternError(ValueError):
    """A pattern that is not understood; the text says why."""


class _State(NamedTuple):
    """One instruction: `kind` is test, split, save, begin, end or match; `to` has what follows, the preferred first."""

    kind: str
    to: tuple[int, ...]
    test: Test | None = None
    slot: int = 0


class LinearPattern:
    """A compiled pattern."""

    def __init__(self, pattern: str, dialect: Dialect = JAVA) -> None:
        """Raises PatternError."""
        if len(pattern) > dialect.characters_max:
            raise PatternError(f"a pattern may have {dialect.characters_max} characters")
        compiler = _Compiler(pattern, dialect)
        self._states = compiler.states
        self._start = compiler.start
        self.groups = compiler.groups
        """How many groups there are, group 0 not counted."""

    @property
    def size(self) -> int:
        """How many states may be looked at for each character of a text."""
        return len(self._states)

    def find(self, text: str, start: int = 0, *, is_whole: bool = False) -> Slots | None:
        """Begin and end of the leftmost match from `start` on and of each group in it, -1 for a group without one.

        `is_whole`: a match that begins at `start` and ends with the text.
        """
        empty = (-1,) * (2 * self.groups + 2)
        found: Slots | None = None
        threads: dict[int, Slots] = {}
        seen: set[int] = set()
        for at in range(start, len(text) + 1):
            if found is None and (at == start or not is_whole):
                self._follow(threads, seen, self._start, empty, text, at)
            if not threads:
                if found is not None or is_whole:
                    break
                seen = set()
                continue
            following: dict[int, Slots] = {}
            seen = set()
            for number, slots in threads.items():
                state = self._states[number]
                if state.kind == "match":
                    if not is_whole or at == len(text):
                        found = slots
                        break  # Those behind are less preferred.
                elif at < len(text) and state.test is not None and state.test(text[at]):
                    self._follow(following, seen, state.to[0], slots, text, at + 1)
            threads = following
        return found

    def _follow(self, threads: dict[int, Slots], seen: set[int], first: int, slots: Slots, text: str, at: int) -> None:
        """Add the states that are reached without a character, in the order of preference, but for those seen."""
        waiting = [(first, slots)]
        while waiting:
            number, slots = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            if state.kind in {"test", "match"}:
                threads[number] = slots
            elif state.kind == "save":
                changed = (*slots[: state.slot], at, *slots[state.slot + 1 :])
                waiting.append((state.to[0], changed))
            elif state.kind == "split" or at == (0 if state.kind == "begin" else len(text)):
                waiting.extend((to, slots) for to in reversed(state.to))


class _Compiler:
    """Compiles from the end of the pattern's tree to its begin, so that each part knows the state after it."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self._pattern = pattern
        self._dialect = dialect
        self._at = 0
        self._depth = 0
        self.groups = 0
        self.states: list[_State] = []
        tree = self._alternatives()
        if self._at < len(pattern):
            raise PatternError(f"unexpected {pattern[self._at]!r}")
        match = self._add("match")
        end = self._add("save", (match,), slot=1)
        self.start = self._add("save", (tree(end),), slot=0)

    def _add(self, kind: str, to: tuple[int, ...] = (), test: Test | None = None, slot: int = 0) -> int:
        if len(self.states) >= self._dialect.states_max:
            raise PatternError("it is too large")
        self.states.append(_State(kind, to, test, slot))
        return len(self.states) - 1

    # The tree: functions from the state after a part to its first state.

    def _alternatives(self) -> Callable[[int], int]:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        return lambda after: self._add("split", tuple(part(after) for part in parts))

    def _sequence(self) -> Callable[[int], int]:
        parts: list[Callable[[int], int]] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())

        def build(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return build

    def _repeated(self) -> Callable[[int], int]:
        part = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return part
        is_shortest = self._peek() == "?"
        self._at += is_shortest
        if self._peek() in ("*", "+", "?", "{"):
            raise PatternError("a repetition of a repetition, or a possessive one, is not known")
        return self._repeat(part, *bounds, is_shortest=is_shortest)

    def _bounds(self) -> tuple[int, int | None] | None:
        character = self._peek()
        if character in ("*", "+", "?"):
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        if character != "{":
            return None
        end = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()) or len(low + high) > 6:
            raise PatternError("a { without numbers")
        self._at = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def _repeat(
        self, part: Callable[[int], int], low: int, high: int | None, *, is_shortest: bool
    ) -> Callable[[int], int]:
        def choice(inside: int, after: int) -> tuple[int, int]:
            return (after, inside) if is_shortest else (inside, after)

        def build(after: int) -> int:
            end = after
            if high is None:
                loop = self._add("split")
                self.states[loop] = _State("split", choice(part(loop), end))
                after = loop
            else:
                if high < low:
                    raise PatternError("a { with numbers in the wrong order")
                for _ in range(high - low):
                    after = self._add("split", choice(part(after), end))
            for _ in range(low):
                end, after = after, part(after)
                if after == end:
                    break  # The part is empty, so often as it may be repeated.
            return after

        return build

    def _atom(self) -> Callable[[int], int]:
        character = self._take()
        if character == "(":
            return self._group()
        if character in "^$":
            kind = "begin" if character == "^" else "end"
            return lambda after: self._add(kind, (after,))
        test = self._test(character)
        return lambda after: self._add("test", (after,), test)

    def _group(self) -> Callable[[int], int]:
        number = 0
        if self._pattern.startswith("?:", self._at):
            self._at += 2
        elif self._peek() == "?":
            raise PatternError("only groups ( ) and (?: ) are known")
        else:
            self.groups += 1
            number = self.groups
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PatternError(f"groups may be {DEPTH_MAX} deep")
        inner = self._alternatives()
        self._depth -= 1
        if self._take() != ")":
            raise PatternError("a group without its end")
        if not number:
            return inner
        return lambda after: self._add(
            "save", (inner(self._add("save", (after,), slot=2 * number + 1)),), slot=2 * number
        )

    def _test(self, character: str) -> Test:
        if character == ".":
            return lambda tested: tested not in self._dialect.line_ends
        if character == "[":
            return self._set()
        if character == "\\":
            return self._escaped()
        if character in _SPECIAL:
            raise PatternError(f"unexpected {character!r}")
        return lambda tested: tested == character

    def _escaped(self) -> Test:
        character = self._take()
        known = self._is_space if character in ("s", "S") else _CLASSES.get(character.lower())
        if known is not None:
            return known if character.islower() else lambda tested: not known(tested)
        if character.isalnum():
            raise PatternError(f"\\{character} is not known")
        return lambda tested: tested == character

    def _is_space(self, tested: str) -> bool:
        return tested in self._dialect.spaces

    def _set(self) -> Test:
        is_negated = self._peek() == "^"
        self._at += is_negated
        members: list[Test] = []
        while True:
            character = self._take()
            if character == "]" and members:
                break
            if character == "[" or (character == "&" and self._peek() == "&"):
                raise PatternError("a set in a set is not known")
            if character == "\\":
                members.append(self._escaped())
                continue
            low = high = character
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                high = self._take()
                if high == "\\" or high < low:
                    raise PatternError("a range in the wrong order")
            members.append(lambda tested, low=low, high=high: low <= tested <= high)  # type: ignore[misc]
        tests = tuple(members)
        return lambda tested: any(test(tested) for test in tests) != is_negated

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise PatternError("it ends too early")
        self._at += 1
        return character
