"""What a target of fuzzing is: where inputs come from, and what must hold of each.

    an input = bytes, in whatever form the target reads them; the first of them may choose what is done with the rest
    a law    = `run` returns for any input; whatever it raises is a finding

`draw` makes inputs from the declarations and builders of the tests, so that most get far; `mutations.py` changes bytes
of drawn and of kept ones. The same `run` serves `make fuzz` with and without coverage guidance, and the slice in `make
test`.
"""

from __future__ import annotations

import random
from typing import Protocol


class Broken(AssertionError):
    """A law does not hold for an input."""


class Target(Protocol):
    """One place that bytes of others reach."""

    name: str
    share: float
    """Its part of the frames of a whole run; all shares together are 1."""
    instrumented: tuple[str, ...]
    """Packages whose branches guide."""

    def draw(self, chance: random.Random) -> bytes:
        """An input that a peer may send, or nearly so."""

    def run(self, data: bytes) -> int:
        """Judge one input; the number of frames, messages or records in it. Raises where a law is broken."""

    def close(self) -> None:
        """End what was kept between inputs."""
