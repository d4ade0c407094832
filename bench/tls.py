"""`.venv/bin/python -m bench.tls`: what TLS costs, for Sordini and, with `--apache`, for Apache Kafka beside it.

Each row is measured without and with TLS 1.3 on the same machine. `--handshakes RATE` measures instead what so many
handshakes a second (RSA, `--bits`) do to the latencies of another client's small requests.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench import starting
from bench.client import build
from bench.works import Bench, Work
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import BrokerProcess
from tests.support.certificates import Authority

WORKS = [
    Work("produce, 64 KiB batches", "produce", 1_000_000),
    Work("consume from the page cache", "consume", 1_000_000),
    Work("one record per request, 1 in flight", "single", 10_000),
    Work("one record per request, 16 connections", "single", 20_000, connections=16),
]
RUNS = 3
RECORD_BYTES = 100


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.tls", description=__doc__)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--handshakes", type=int, metavar="RATE", help="handshakes a second beside small requests")
    parser.add_argument("--bits", type=int, default=2048, help="of the broker's RSA key")
    arguments = parser.parse_args()
    build()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        if arguments.handshakes:
            _beside_handshakes(directory, arguments.handshakes, arguments.bits)
            return
        with ZooKeeperProcess(directory / "zookeeper") if arguments.apache else nullcontext() as zookeeper:
            for label in ("Sordini", "Apache Kafka") if zookeeper else ("Sordini",):
                for with_tls in (False, True):
                    home = directory / f"{label.split()[0]}-{with_tls}"
                    connect = None if zookeeper is None or label == "Sordini" else zookeeper.connect
                    with _running(home, connect, with_tls=with_tls) as process:
                        _rows(f"{label}, {'TLS' if with_tls else 'plaintext'}", process)


@contextmanager
def _running(home: Path, zookeeper: str | None, *, with_tls: bool, bits: int | None = None) -> Iterator[BrokerProcess]:
    """A broker, and the load generator's environment for it."""
    home.mkdir()
    authority = Authority()
    keys = authority.issue("broker", rsa_bits=bits).pem_file(home / "broker.pem")
    settings: dict[str, object] = {}
    if with_tls:
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keys,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.pem_file(home / "ca.pem"),
            "security.inter.broker.protocol": "SSL",
        }
    process = (
        starting.sordini(home, settings) if zookeeper is None else starting.apache_kafka(home, zookeeper, settings)
    )
    given = process.overrides if zookeeper is None else process.settings  # type: ignore[attr-defined]
    if with_tls:
        given["listeners"] = f"SSL://{process.bootstrap}"
        os.environ["LOAD_CA"] = str(home / "ca.pem")
    try:
        with process:
            yield process
    finally:
        os.environ.pop("LOAD_CA", None)


def _rows(label: str, process: BrokerProcess) -> None:
    bench = Bench("tls", process)
    filled = bench.filled_topic(1_000_000)
    for work in WORKS:
        seen = [bench.measure(work, filled if work.kind == "consume" else bench.new_topic()) for _ in range(RUNS)]
        best = min(seen, key=lambda one: one.cpu_us)
        size = "" if work.is_single else f" {best.cpu_us * 1000 / RECORD_BYTES:6.2f} ns of CPU per byte"
        latency = f", p50 {best.p50_us:.0f} µs, p99 {best.p99_us:.0f} µs" if work.is_single else size
        print(f"{label:24} {work.name:40} {best.per_second:>11,.0f}/s  CPU {best.cpu_us:7.2f} µs{latency}", flush=True)


def _beside_handshakes(directory: Path, rate: int, bits: int) -> None:
    with _running(directory / "broker", None, with_tls=True, bits=bits) as process:
        bench = Bench("tls", process)
        work = Work("one record per request, 1 in flight", "single", 10_000)
        alone = bench.measure(work, bench.new_topic())
        stop, done = threading.Event(), [0]
        flood = [threading.Thread(target=_shake, args=(process.port, rate / 8, stop, done)) for _ in range(8)]
        for thread in flood:
            thread.start()
        began, before = time.monotonic(), done[0]
        beside = bench.measure(work, bench.new_topic())
        achieved = (done[0] - before) / (time.monotonic() - began)
        stop.set()
        for thread in flood:
            thread.join()
    print(f"small requests alone: p50 {alone.p50_us:.0f} µs, p99 {alone.p99_us:.0f} µs, {alone.per_second:,.0f}/s")
    print(
        f"beside {achieved:.0f} handshakes/s (RSA-{bits}): p50 {beside.p50_us:.0f} µs, p99 {beside.p99_us:.0f} µs, "
        f"{beside.per_second:,.0f}/s"
    )


def _shake(port: int, rate: float, stop: threading.Event, done: list[int]) -> None:
    """One handshake after the other, at most at this rate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    due = time.monotonic()
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw):
            done[0] += 1
        due += 1 / rate
        stop.wait(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
