"""A run of targets in one process: so many frames each, drawn and changed by one seed; findings with their inputs."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz.corpus import BYTES_MAX, keep, kept
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets.all import TARGETS

CHANGED: Final = 0.6
"""How many of the inputs are changed after they were drawn."""
FROM_CORPUS: Final = 0.15
"""How many are made of kept ones instead."""
SHORTENINGS_MAX: Final = 400


class Finding(NamedTuple):
    """An input for which a law is broken."""

    target: str
    data: bytes
    why: str
    where: str
    """The last lines of the traceback."""


class Tally(NamedTuple):
    """What a target was given, and how long that took."""

    frames: int
    inputs: int
    cpu_s: float


def fuzzed(
    name: str, frames: int, seed: object, *, seconds: float = float("inf"), found: Callable[[Finding], None]
) -> Tally:
    """Give a target so many frames, or what it takes in so many CPU seconds; each kind of failure is found once."""
    target = TARGETS[name]()
    begin, count, inputs = time.process_time(), 0, 0
    seen: set[str] = set()
    try:
        for data in inputs_of(target, random.Random(f"{name} {seed}")):
            if count >= frames or time.process_time() - begin >= seconds:
                break
            inputs += 1
            finding = judged(target, data)
            if isinstance(finding, int):
                count += finding
                continue
            count += 1
            if finding.where not in seen:
                seen.add(finding.where)
                found(finding._replace(data=shortened(target, finding)))
    finally:
        target.close()
    return Tally(count, inputs, time.process_time() - begin)


def inputs_of(target: Target, chance: random.Random) -> Iterator[bytes]:
    """Without an end, the same for the same seed."""
    old = list(kept(target.name).values())
    last = b""
    while True:
        if old and chance.random() < FROM_CORPUS:
            data = mutated(chance.choice(old), chance, last)
        else:
            data = target.draw(chance)
            if chance.random() < CHANGED:
                data = mutated(data, chance, last)
        last = data
        yield data


def judged(target: Target, data: bytes) -> int | Finding:
    """The frames of an input, or what is wrong."""
    try:
        return target.run(data)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is a finding.
        last = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{type(problem).__name__} at {Path(last.filename).name}:{last.lineno}"
        return Finding(target.name, data, f"{type(problem).__name__}: {problem}"[:500], where)


def shortened(target: Target, finding: Finding) -> bytes:
    """A shorter input with the same failure, by leaving out pieces."""
    data, size, tries = finding.data, max(len(finding.data) // 2, 1), 0
    while size and tries < SHORTENINGS_MAX:
        position = 0
        while position < len(data) and tries < SHORTENINGS_MAX:
            tries += 1
            shorter = data[:position] + data[position + size :]
            again = judged(target, shorter)
            if isinstance(again, Finding) and again.where == finding.where:
                data = shorter
            else:
                position += size
        size //= 2
    return data


def keep_finding(finding: Finding) -> Path | None:
    """Write its input into the corpus, unless it is too long."""
    if len(finding.data) > BYTES_MAX:
        return None
    return keep(finding.target, finding.data, "found")
