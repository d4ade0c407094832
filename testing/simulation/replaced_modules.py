"""What an application takes from the machine, replaced while it is simulated: time, randomness, the garbage collector.

Replaced are the functions in the modules `time`, `random`, `os` and `uuid`: code that calls `time.time()` gets virtual
time, and code that has imported the function itself (`from time import time`) before gets the machine's, as does
`datetime.now()`. Threads other than the simulation's own keep the machine's. Sockets, threads and processes that would
be the machine's are refused (`foreign_calls.py`).
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import aiokafka.producer.message_accumulator as aiokafka_batches  # type: ignore[import-untyped]
from aiokafka import AIOKafkaProducer

from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.foreign_calls import foreign_calls
from sordini.testing.simulation.virtual_loop import WALL_CLOCK_START_MS

CLIENT_IDS: Final = "_PRODUCER_CLIENT_ID_SEQUENCE"


@contextlib.contextmanager
def machine_replaced(loop: AppLoop, seed: int) -> Iterator[None]:
    """Virtual time and seeded randomness for all code of this thread, until the block ends."""
    thread = threading.get_ident()

    def here(simulated: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            return (simulated if threading.get_ident() == thread else real)(*arguments)

        return called

    def wall_s() -> float:
        return WALL_CLOCK_START_MS / 1_000 + loop.time()

    source = random.Random(f"application {seed}")
    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (time, "time", wall_s),
        (time, "time_ns", lambda: int(wall_s() * 1e9)),
        (time, "monotonic", loop.time),
        (time, "monotonic_ns", lambda: int(loop.time() * 1e9)),
        (time, "perf_counter", loop.time),
        (time, "perf_counter_ns", lambda: int(loop.time() * 1e9)),
        (time, "sleep", loop.block),
        (os, "urandom", source.randbytes),
        (random, "_urandom", source.randbytes),
    ]
    state = random.getstate()
    with contextlib.ExitStack() as undo:
        for module, name, simulated in replaced:
            real = getattr(module, name)
            undo.callback(setattr, module, name, real)
            setattr(module, name, here(simulated, real))
        for owner, name, value in list(foreign_calls(loop.refusals)):
            if name in vars(owner):
                undo.callback(setattr, owner, name, getattr(owner, name))
            else:  # Of a base class.
                undo.callback(delattr, owner, name)
            setattr(owner, name, value)
        builder = aiokafka_batches.DefaultRecordBatchBuilder
        undo.callback(setattr, aiokafka_batches, "DefaultRecordBatchBuilder", builder)
        aiokafka_batches.DefaultRecordBatchBuilder = _stamped(builder, wall_s)
        # Default client ids are numbered, and requests have their digits.
        undo.callback(setattr, AIOKafkaProducer, CLIENT_IDS, getattr(AIOKafkaProducer, CLIENT_IDS))
        setattr(AIOKafkaProducer, CLIENT_IDS, 0)
        for module in [found for name, found in sys.modules.items() if name.startswith("aiokafka.")]:
            if isinstance(getattr(module, "random", None), random.Random):  # One of its own.
                undo.callback(setattr, module, "random", module.random)
                module.random = random  # type: ignore[attr-defined]
        random.seed(f"application {seed}")
        undo.callback(random.setstate, state)
        yield


@contextlib.contextmanager
def quiet_finalisers() -> Iterator[None]:
    """Collect garbage at the end and not before, and in silence: what a killed application had open is not closed."""
    had_garbage_collection = gc.isenabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.disable()  # A collection would run finalisers at a moment that no seed decides.
        try:
            yield
        finally:
            gc.collect()
            if had_garbage_collection:
                gc.enable()


def _stamped(builder: Any, now_s: Callable[[], float]) -> Any:
    """Aiokafka's compiled builder of batches reads the machine's clock itself, for records without a timestamp."""

    class Stamped(builder):  # type: ignore[misc]
        def append(self, offset: int, timestamp: int | None, key: Any, value: Any, headers: Any) -> Any:
            return super().append(offset, int(now_s() * 1_000) if timestamp is None else timestamp, key, value, headers)

    return Stamped
