"""What an open console costs the clients of a broker: the p99 of Produce with and without live pages, in turn.

    .venv/bin/python -m bench.console_effect

One broker with 200 partitions and 20 groups, one producer that sends a record when the one before is acknowledged; in
every other round one visitor has the live pages of the cluster and of a group open.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.console.console_process import ConsoleProcess, Visitor
from tests.console.scene import commit, create
from tests.outside.processes import SordiniProcess

ROUNDS = 5
"""Of each kind."""
ROUND_S = 8.0
PAGES = ("/live/cluster", "/live/group?name=group-00")
PARTITIONS, GROUPS = 200, 20


def produce(bootstrap: str) -> list[float]:
    """The milliseconds of each acknowledged record of one round."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    times: list[float] = []
    ends = time.perf_counter() + ROUND_S
    while time.perf_counter() < ends:
        began = time.perf_counter()
        producer.produce("orders", b"x" * 100, partition=len(times) % PARTITIONS)
        assert producer.flush(30) == 0
        times.append((time.perf_counter() - began) * 1000)
    return times[20:]  # The first have the connection's start.


def watched(port: int, visitor: Visitor, page: str, done: threading.Event, events: list[int]) -> None:
    """Read one live page until `done`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", page, headers={"Cookie": visitor.cookie})
    response = connection.getresponse()
    while not done.is_set():
        events.append(len(response.readline()))
    connection.close()


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))]


def main() -> None:
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as directory, SordiniProcess(Path(directory) / "broker") as broker:
        create(broker.bootstrap, {"orders": PARTITIONS}, 1)
        for number in range(GROUPS):
            commit(broker.bootstrap, f"group-{number:02}", "orders", dict.fromkeys(range(PARTITIONS), 0))
        with ConsoleProcess(Path(directory) / "console", broker.bootstrap) as console:
            visitor = console.logged_in()
            for number in range(2 * ROUNDS):
                is_open = number % 2 == 1
                done, events = threading.Event(), list[int]()
                readers = [
                    threading.Thread(target=watched, args=(console.port, visitor, page, done, events))
                    for page in PAGES[: len(PAGES) if is_open else 0]
                ]
                for reader in readers:
                    reader.start()
                found[is_open].append(produce(broker.bootstrap))
                done.set()
                for reader in readers:
                    reader.join()
                assert bool(events) == is_open
    for is_open, rounds in found.items():
        p99s = sorted(percentile(times, 0.99) for times in rounds)
        p50s = sorted(percentile(times, 0.5) for times in rounds)
        name = "with two live pages" if is_open else "without a page"
        listed = ", ".join(f"{one:.2f}" for one in p99s)
        print(f"{name:20} p50 {p50s[ROUNDS // 2]:.2f} ms, p99 {p99s[ROUNDS // 2]:.2f} ms (medians; p99s: {listed})")


if __name__ == "__main__":
    main()
