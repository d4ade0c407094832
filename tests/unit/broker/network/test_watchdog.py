"""How late the event loop is, and which call blocked it."""

import asyncio
import re
import threading
import time
from io import StringIO

from sordini.broker.clock import SystemClock
from sordini.broker.network.watchdog import STACK_FRAMES_MAX, Watchdog
from sordini.broker.process.logging import make_logger
from tests.support.fake_ports import ListLog, StillClock
from tests.support.socket_bench import until


async def test_lag_is_how_much_later_than_scheduled_the_loop_runs():
    clock = StillClock()
    watchdog = Watchdog(clock, ListLog(), threshold_ms=0)
    watchdog.start()
    clock.ms += 350
    await until(lambda: watchdog.beats == 1)
    assert (watchdog.lag_ms, watchdog.lag_ms_max, watchdog.lag_ms_total) == (250, 250, 250)
    clock.ms += 100
    await until(lambda: watchdog.beats == 2)
    assert (watchdog.lag_ms, watchdog.lag_ms_max, watchdog.lag_ms_total) == (0, 250, 250)
    watchdog.stop()


async def test_a_stall_is_logged_once_with_the_stack_that_caused_it():
    log = ListLog()
    watchdog = Watchdog(SystemClock(), log, threshold_ms=20)
    watchdog.start()
    await until(lambda: watchdog.beats == 1)

    def hold_the_loop():
        # Hold the loop for several checks after the stall was noticed.
        began = time.monotonic()
        while not log.lines or time.monotonic() - began < 0.25:
            pass

    hold_the_loop()
    ((level, event, fields),) = log.lines
    assert (level, event) == ("warning", "event loop stalled")
    assert fields["held_ms"] >= 20
    assert "hold_the_loop" in fields["calls"]
    watchdog.stop()
    assert watchdog.stalls == 1


async def test_the_log_line_of_a_stall_names_the_innermost_call_however_deep_it_is():
    text = StringIO()
    watchdog = Watchdog(SystemClock(), make_logger(file=text), threshold_ms=20)
    watchdog.start()
    await until(lambda: watchdog.beats == 1)

    def guilty():
        began = time.monotonic()
        while "calls" not in text.getvalue() and time.monotonic() - began < 5:
            pass

    def descend(depth: int):
        guilty() if depth == 0 else descend(depth - 1)

    descend(100)
    watchdog.stop()
    line = text.getvalue()
    assert re.search(r"network/test_watchdog\.py:\d+ descend > network/test_watchdog\.py:\d+ guilty", line)
    assert line.count(" > ") == STACK_FRAMES_MAX - 1
    assert line.count("\n") == 1


async def test_without_a_threshold_there_is_no_thread():
    threads = threading.active_count()
    watchdog = Watchdog(StillClock(), ListLog(), threshold_ms=0)
    watchdog.start()
    assert threading.active_count() == threads
    watchdog.stop()
    await asyncio.sleep(0)
