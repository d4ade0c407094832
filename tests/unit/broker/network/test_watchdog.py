"""How late the event loop is, and which call blocked it."""

import asyncio
import re
import threading
import time
from io import StringIO

from sordini.broker.network.watchdog import BEAT_MS, STACK_FRAMES_MAX, WINDOW_MS, Watchdog
from sordini.broker.process.logging import make_logger
from sordini.system.clock import SystemClock
from tests.support.fake_ports import ListLog, StillClock
from tests.support.socket_bench import until


async def test_lag_is_how_much_later_than_scheduled_the_loop_runs():
    clock = StillClock()
    watchdog = Watchdog(clock, ListLog(), threshold_ms=0)
    watchdog.start()
    clock.ms += 350
    await until(lambda: watchdog.checks == 1)
    assert (watchdog.lag_ms, watchdog.lag_ms_max, watchdog.lag_ms_total) == (250, 250, 250)
    clock.ms += 100
    await until(lambda: watchdog.checks == 2)
    assert (watchdog.lag_ms, watchdog.lag_ms_max, watchdog.lag_ms_total) == (0, 250, 250)
    watchdog.stop()


async def test_the_worst_lag_is_forgotten_after_two_windows() -> None:
    clock = StillClock()
    watchdog = Watchdog(clock, ListLog(), threshold_ms=0)
    watchdog.start()
    seen = []
    for step_ms in (BEAT_MS + 50_000, WINDOW_MS, WINDOW_MS):
        clock.ms += step_ms
        checks = watchdog.checks
        await until(lambda before=checks: watchdog.checks > before)
        seen.append((watchdog.lag_ms, watchdog.lag_ms_worst))
    late = WINDOW_MS - BEAT_MS
    assert seen == [(50_000, 50_000), (late, 50_000), (late, late)]
    watchdog.stop()


async def test_a_stall_is_logged_once_with_the_stack_that_caused_it():
    log = ListLog()
    watchdog = Watchdog(SystemClock(), log, threshold_ms=20)
    watchdog.start()

    def hold_the_loop():
        # For several checks after the stall was noticed.
        began = time.monotonic()
        while time.monotonic() - began < 0.25:
            pass

    held: list[tuple[str, str, object]] = []
    # On a busy machine other calls stall the loop as well, or this stall is reported before this call.
    while not held and watchdog.checks < 100:
        checks = watchdog.checks
        await until(lambda checks=checks: watchdog.checks > checks)
        hold_the_loop()
        held = [(level, event, line["held_ms"]) for level, event, line in log.lines if "hold_the_loop" in line["calls"]]
    watchdog.stop()
    ((level, event, held_ms),) = held
    assert (level, event) == ("warning", "event loop stalled")
    assert held_ms >= 20
    assert watchdog.stalls == len(log.lines)


async def test_the_log_line_of_a_stall_names_the_innermost_call_however_deep_it_is():
    text = StringIO()
    watchdog = Watchdog(SystemClock(), make_logger(file=text), threshold_ms=20)
    watchdog.start()
    await until(lambda: watchdog.checks == 1)

    def guilty():
        began, lines = time.monotonic(), text.getvalue().count("\n")
        while text.getvalue().count("\n") == lines and time.monotonic() - began < 5:
            pass

    def descend(depth: int):
        guilty() if depth == 0 else descend(depth - 1)

    # On a busy machine a stall may be reported before the innermost call.
    while "guilty" not in text.getvalue() and watchdog.checks < 100:
        checks = watchdog.checks
        await until(lambda checks=checks: watchdog.checks > checks)
        descend(100)
    watchdog.stop()
    line = next(line for line in text.getvalue().splitlines() if "guilty" in line)
    assert re.search(r"network/test_watchdog\.py:\d+ descend > network/test_watchdog\.py:\d+ guilty", line)
    assert line.count(" > ") == STACK_FRAMES_MAX - 1


async def test_without_a_threshold_there_is_no_thread():
    threads = set(threading.enumerate())  # One that an earlier test has left may end meanwhile.
    watchdog = Watchdog(StillClock(), ListLog(), threshold_ms=0)
    watchdog.start()
    assert set(threading.enumerate()) <= threads
    watchdog.stop()
    await asyncio.sleep(0)
