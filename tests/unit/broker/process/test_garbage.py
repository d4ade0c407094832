"""The garbage collector during the start of a broker, and afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from sordini.broker.process import garbage


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    thresholds = gc.get_threshold()
    callbacks = list(gc.callbacks)
    yield thresholds
    gc.callbacks[:] = callbacks
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


class CpuTime:
    """Each reading is later than the last one by `pass_ns`."""

    def __init__(self, pass_ns: int) -> None:
        self.pass_ns, self.now_ns = pass_ns, 0

    def __call__(self) -> int:
        self.now_ns += self.pass_ns
        return self.now_ns


def made_while_serving(usual: tuple[int, int, int], pass_ns: int, generation: int) -> int:
    """How many of a thousand objects are tracked after a pass of that generation and CPU time."""
    garbage.end_start(usual)
    gc.callbacks[-1] = garbage.FreezeAfterLongPasses(CpuTime(pass_ns))
    made = [[number] for number in range(1_000)]
    gc.collect(generation)
    return tracked(made)


def test_what_is_left_after_a_long_full_pass_is_not_read_by_later_ones(usual: tuple[int, int, int]) -> None:
    assert made_while_serving(usual, garbage.LONG_PASS_NS, garbage.FULL) == 0


@pytest.mark.parametrize(("pass_ns", "generation"), [(garbage.LONG_PASS_NS - 1, 2), (garbage.LONG_PASS_NS, 1)])
def test_short_passes_and_those_of_young_objects_change_nothing(
    usual: tuple[int, int, int], pass_ns: int, generation: int
) -> None:
    assert made_while_serving(usual, pass_ns, generation) == 1_000


def test_a_cycle_that_a_long_pass_finds_is_freed_before_the_rest_is_kept(usual: tuple[int, int, int]) -> None:
    garbage.end_start(usual)
    gc.callbacks[-1] = garbage.FreezeAfterLongPasses(CpuTime(garbage.LONG_PASS_NS))

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    freed = weakref.ref(Cycle())
    assert freed() is not None
    gc.collect()
    assert freed() is None


def test_a_broker_that_is_ready_watches_its_passes(usual: tuple[int, int, int]) -> None:
    before = len(gc.callbacks)
    garbage.end_start(usual)
    assert len(gc.callbacks) == before + 1
    assert isinstance(gc.callbacks[-1], garbage.FreezeAfterLongPasses)


def test_the_number_of_times_that_is_done_is_bounded(usual: tuple[int, int, int]) -> None:
    garbage.end_start(usual)
    gc.callbacks[-1] = garbage.FreezeAfterLongPasses(CpuTime(garbage.LONG_PASS_NS))
    for _ in range(garbage.FREEZES_MAX):
        gc.collect()
    made = [[number] for number in range(1_000)]
    gc.collect()
    assert tracked(made) == len(made)
