"""A slice of `make fuzz`: every kept input, and some CPU seconds of new ones for each target."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.campaign import Finding, fuzzed, judged, shortened
from tests.fuzz.corpus import BYTES_MAX, FOLDER, kept
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Broken
from tests.fuzz.targets.all import TARGETS
from tests.support.parts import PART

CPU_S = 0.8 if PART else 0.3
by_name = pytest.mark.parametrize("name", TARGETS)


@by_name
def test_the_laws_hold_for_every_kept_input(name: str) -> None:
    inputs = kept(name)
    assert inputs, "each target keeps some"
    target = TARGETS[name]()
    try:
        assert [
            (file, found) for file, data in inputs.items() if not isinstance(found := judged(target, data), int)
        ] == []
    finally:
        target.close()


@by_name
def test_the_laws_hold_for_new_inputs(name: str) -> None:
    found: list[Finding] = []
    tally = fuzzed(name, 1_000_000, f"slice {PART}", seconds=CPU_S, found=found.append)
    assert found == []
    assert tally.inputs >= 5
    assert tally.frames >= tally.inputs


def test_shares_are_those_of_one_run() -> None:
    assert sum(TARGETS[name].share for name in TARGETS) == pytest.approx(1)


def test_kept_inputs_are_small_and_of_a_target() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(TARGETS)
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert [path for path in files if path.stat().st_size > BYTES_MAX] == []
    assert sum(path.stat().st_size for path in files) < 256 * 1024


class Planted:
    """A target that breaks for a certain word."""

    name = "planted"

    def run(self, data: bytes) -> int:
        if b"wrong" in data:
            raise Broken("it is there")
        return 1


def test_a_finding_is_shortened_to_what_breaks_the_law() -> None:
    target = Planted()
    found = judged(target, b"x" * 100 + b"wrong" + b"y" * 100)  # type: ignore[arg-type]
    assert isinstance(found, Finding)
    assert shortened(target, found) == b"wrong"  # type: ignore[arg-type]


def test_the_same_seed_changes_bytes_alike_and_another_one_otherwise() -> None:
    data = bytes(range(100))
    many = [[mutated(data, random.Random(seed), b"other") for _ in range(3)] for seed in (1, 1, 2)]
    assert many[0] == many[1] != many[2]
    assert any(mutated(data, random.Random(seed)) != data for seed in range(5))
