"""The garbage collector during the start of a broker, and afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from sordini.broker.process import garbage


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    thresholds = gc.get_threshold()
    yield thresholds
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def tracked(some: list[list[int]]) -> int:
    """How many of these objects a full pass of the collector would read."""
    numbers = {id(one) for one in some}
    return sum(id(one) in numbers for one in gc.get_objects())


def test_during_the_start_a_pass_comes_after_many_objects_and_afterwards_as_usual(usual: tuple[int, int, int]) -> None:
    thresholds = garbage.begin_start()
    assert thresholds == usual
    assert gc.get_threshold()[0] == garbage.OBJECTS_PER_PASS
    garbage.end_start(thresholds)
    assert gc.get_threshold() == usual


def test_what_the_start_made_is_not_read_by_later_passes(usual: tuple[int, int, int]) -> None:
    thresholds = garbage.begin_start()
    made = [[number] for number in range(1_000)]
    assert tracked(made) == len(made)
    garbage.end_start(thresholds)
    assert tracked(made) == 0
    assert usual == thresholds
