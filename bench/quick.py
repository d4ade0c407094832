"""`.venv/bin/python -m bench.quick`: half a minute with Sordini alone, for the loop of edit and measure.

`--apache` measures Apache Kafka, cold; `--at HOST:PORT PID` measures a broker that runs already (under
a profiler, say).
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from bench import interpreter, starting
from bench.client import build
from bench.procfs import resident_bytes
from bench.works import Bench, Work
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import BrokerProcess

WORKS = [
    Work("produce, 64 KiB batches", "produce", 2_000_000),
    Work("consume", "consume", 2_000_000),
    Work("one record, 1 in flight", "single", 10_000),
    Work("one record, 16 connections", "single", 20_000, connections=16),
    Work("one record, 1 in flight, idempotent", "single", 10_000, idempotent=True),
    Work("one record, 16 connections, idempotent", "single", 20_000, connections=16, idempotent=True),
]
RUNS = 2


class _RunningBroker(BrokerProcess):
    """A broker that another program starts and stops."""

    name = "running"

    def __init__(self, directory: Path, bootstrap: str, pid: int) -> None:
        super().__init__(directory)
        self.bootstrap = bootstrap
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid

    def command(self) -> list[str]:
        raise AssertionError("it runs already")

    def is_ready(self) -> bool:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.quick", description=__doc__)
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--at", nargs=2, metavar=("HOST:PORT", "PID"))
    parser.add_argument("--only", default="", help="only work whose name holds this text")
    arguments = parser.parse_args()
    if not any(arguments.only in work.name for work in WORKS):
        parser.error(f"no work is called {arguments.only!r}: there are {', '.join(work.name for work in WORKS)}")
    print(interpreter.line(), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # So that the broker is stopped too.
    build()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        if arguments.at:
            bootstrap, pid = arguments.at
            _measure(_RunningBroker(directory, bootstrap, int(pid)), arguments.only)
            return
        with ZooKeeperProcess(directory / "zookeeper") if arguments.apache else nullcontext() as zookeeper:
            home = directory / "broker"
            process = starting.apache_kafka(home, zookeeper.connect) if zookeeper else starting.sordini(home)
            started = starting.timed_start(process)
            print(f"first answer after {started.seconds:.2f} s, idle {started.idle_bytes / 2**20:.0f} MiB")
            try:
                _measure(process, arguments.only)
            finally:
                process.stop()


def _measure(process: BrokerProcess, only: str) -> None:
    bench = Bench("quick", process)
    filled = bench.new_topic()
    for work in WORKS:
        if only not in work.name and work.kind != "produce":
            continue
        topic = filled if work.kind in ("produce", "consume") else bench.new_topic()
        for _ in range(RUNS):
            seen = bench.measure(work, topic)
            latency = f", p50 {seen.p50_us:.0f} µs, p99 {seen.p99_us:.0f} µs" if work.is_single else ""
            rate = f"{work.name:38} {seen.per_second:>11,.0f}/s"
            print(f"{rate}  broker CPU {seen.cpu_us:7.2f} µs each{latency}", flush=True)
    print(f"memory afterwards {resident_bytes(process.pid) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
