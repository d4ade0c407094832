"""`sordini mirror run`: the process around a mirror: signals, progress and metrics."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from sordini.admin.failure import Failure
from sordini.cli.common.output import PROGRESS_MS, ProgressLine, print_json_line, size_text
from sordini.cli.common.terminal import echo, is_terminal
from sordini.mirror.flow import Flow
from sordini.mirror.mirror import Mirror
from sordini.mirror.plan import Plan
from sordini.system.clock import SystemClock
from sordini.system.processes import is_repeated

QUIET_LINES_S: Final = 10.0
"""Between two lines of progress where there is no terminal."""


def run_mirror(plan: Plan, *, as_json: bool) -> None:
    """Copy until a signal. Raises Failure."""
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner:
        runner.run(_run(plan, as_json=as_json))


async def _run(plan: Plan, *, as_json: bool) -> None:
    progress = Progress(as_json=as_json)
    mirror = Mirror(plan, progress.notice)
    running = asyncio.ensure_future(mirror.run())
    _stop_on_signals(mirror, running)
    metrics = await _metrics(plan, mirror, progress)
    aliases = ", ".join(flow.alias for flow in mirror.flows)
    progress.notice(f"mirror '{plan.name}' copies {aliases} into {plan.target.alias}")
    shown = asyncio.create_task(progress.follow(mirror.flows))
    try:
        await running
    except asyncio.CancelledError:
        raise Failure("the last commit was not waited for: the next start continues from the one before") from None
    finally:
        shown.cancel()
        progress.end(mirror.flows)
        if metrics is not None:
            await metrics.close()


def _stop_on_signals(mirror: Mirror, running: asyncio.Future[None]) -> None:
    """The first signal stops the mirror in order, the second one at once."""
    clock = SystemClock()
    first_ms: list[int] = []

    def stop() -> None:
        if not first_ms:
            first_ms.append(clock.monotonic_ms())
            mirror.stop()
        elif not is_repeated(first_ms[0], clock.monotonic_ms()):
            running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def _metrics(plan: Plan, mirror: Mirror, progress: Progress) -> Any:
    """The endpoint, if the plan has one. Raises Failure."""
    if plan.metrics is None:
        return None
    from sordini.cli.commands.mirror.mirror_metrics import MirrorMetrics

    metrics = MirrorMetrics(mirror.flows, progress)
    try:
        host, port = await metrics.listen(plan.metrics)
    except OSError as error:
        raise Failure(f"metrics: {error.strerror}") from None
    progress.notice(f"metrics at http://{host}:{port}/metrics")
    return metrics


class Progress:
    """Lines on standard error: notices, and how the copying goes; with JSON the latter on standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._line = ProgressLine(SystemClock())
        self._copied: dict[str, tuple[int, int]] = {}

    def notice(self, text: str) -> None:
        """Print a line."""
        self._line.clear()
        echo(f"sordini: {text}", err=True)

    def debug(self, event: str, **fields: object) -> None:
        """A line of the HTTP server's, as the three below."""
        self.notice(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))

    info = warning = error = debug

    async def follow(self, flows: Sequence[Flow]) -> None:
        """Show the progress until cancelled."""
        on_terminal = is_terminal(sys.stderr) and not self._as_json
        seconds = PROGRESS_MS / 1000 if on_terminal else QUIET_LINES_S
        while True:
            await asyncio.sleep(seconds)
            texts = [self._step(flow, seconds) for flow in flows]
            if on_terminal:
                self._line.show(" | ".join(filter(None, texts)))

    def _step(self, flow: Flow, seconds: float) -> str:
        """What happened in the last seconds; printed here unless it is for the terminal's line."""
        figures = flow.figures
        before = self._copied.get(flow.alias, (0, 0))
        self._copied[flow.alias] = figures.records, figures.bytes
        records, size = figures.records - before[0], figures.bytes - before[1]
        if self._as_json:
            values = {"source": flow.alias, "records": figures.records, "bytes": figures.bytes, "lag": figures.lag}
            rates = {"records_per_second": records / seconds, "bytes_per_second": size / seconds}
            print_json_line({**values, **rates, "problem": figures.problem or None})
            return ""
        text = (
            f"{flow.alias}: {figures.records:,} records, {records / seconds:,.0f} records/s, "
            f"{size_text(round(size / seconds))}/s, {figures.lag:,} behind"
        )
        if records and not is_terminal(sys.stderr):
            self.notice(text)
        return text

    def end(self, flows: Sequence[Flow]) -> None:
        """Print what was copied."""
        for flow in flows:
            figures = flow.figures
            self.notice(f"{flow.alias}: {figures.records:,} records copied, {figures.lag:,} behind")
