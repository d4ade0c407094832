"""Starting the two brokers for the benchmark, and timing a start to its first answer."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.procfs import cpu_seconds, resident_bytes
from tests.outside.java import ApacheKafkaProcess
from tests.outside.processes import BrokerProcess, SordiniProcess

HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
# Deleted topics free their space at once, old segments are not looked for in the middle of a run.
SETTINGS: dict[str, object] = {"log.segment.delete.delay.ms": 1_000}
ANSWER_SECONDS_MAX = 60.0


class _ApacheKafka(ApacheKafkaProcess):
    """A broker that also logs each pass of its cleaner."""

    def command(self) -> list[str]:
        option = "-Dlog4j.configuration="
        own = f"{option}file:{Path(__file__).with_name('log4j.properties')}"
        return [own if word.startswith(option) else word for word in super().command()]


def sordini(directory: Path, overrides: Mapping[str, object] | None = None) -> BrokerProcess:
    return SordiniProcess(directory, {**SETTINGS, **(overrides or {})})


def apache_kafka(directory: Path, zookeeper: str, overrides: Mapping[str, object] | None = None) -> BrokerProcess:
    settings = {**SETTINGS, **(overrides or {})}
    return _ApacheKafka(directory, f"{zookeeper}/{directory.name}", settings, flags=HEAP)


class Start(NamedTuple):
    """seconds: from the start of the process to its first answer; cpu_seconds: used by then; idle_bytes after it."""

    seconds: float
    cpu_seconds: float
    idle_bytes: int


def timed_start(process: BrokerProcess, *, watch_idle: bool = True) -> Start:
    """Start a broker, request its API versions until it answers, then measure it idle for a second."""
    began = time.monotonic()
    process.launch()
    try:
        while not _answers(process.port):
            if not process.is_running or time.monotonic() - began > ANSWER_SECONDS_MAX:
                raise SystemExit(f"{process.name} did not start\n{process.tail()}")
            time.sleep(0.002)
        took, used = time.monotonic() - began, cpu_seconds(process.pid)
        process.wait_until(process.is_ready, ANSWER_SECONDS_MAX, "be ready")
        if watch_idle:
            time.sleep(1)
    except BaseException:
        process.kill()
        raise
    return Start(took, used, resident_bytes(process.pid))


def timed_starts(make: Callable[[int], BrokerProcess], count: int) -> tuple[BrokerProcess, list[Start]]:
    """Start a broker a few times, each on an empty directory, timed; the last one stays."""
    seen = []
    for number in range(count):
        process = make(number)
        seen.append(timed_start(process))
        if number < count - 1:
            process.stop()
    return process, seen


def _answers(port: int) -> bool:
    request = struct.pack(">hhih", 18, 0, 1, -1)
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        return len(connection.recv(4)) == 4
    return False


def machine() -> str:
    """The machine as the table names it: cores, memory, processor."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "unknown processor")
    return f"{cores} cores, {memory:.0f} GiB, {model}"


def commit() -> str:
    """The commit that is measured, with a plus sign where files differ from it."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=+"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
