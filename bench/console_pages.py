"""How long each page of the console takes with 50 topics of 100 partitions and 200 groups.

    .venv/bin/python -m bench.console_pages

One broker, one console, one visitor: the time from the request to the last byte of the response.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.console.console_process import ConsoleProcess
from tests.console.scene import commit, create
from tests.outside.processes import SordiniProcess

TOPICS, PARTITIONS, GROUPS = 50, 100, 200
LOOKS = 9
GOAL_MS = 300
LISTED = "&".join(f"group=group-{number:03}" for number in range(50))
PAGES = {
    "cluster": "/",
    "topics": "/topics",
    "topic": "/topic?name=topic-00",
    "records": "/topic/records?name=topic-00",
    "search in all of a topic": "/topic/records?name=topic-00&start=beginning&text=record+4999",
    "segments": "/topic/segments?name=topic-00",
    "configuration": "/topic/configuration?name=topic-00",
    "consumers of a topic": "/topic/consumers?name=topic-00",
    "groups": "/groups",
    "lags of 50 groups": f"/groups/lags?{LISTED}",
    "group": "/group?name=group-000",
    "rebalances": "/group/history?name=group-000",
    "transactions": "/transactions",
    "ACLs": "/acls",
    "users": "/users",
    "quotas": "/quotas",
    "mirrors": "/mirrors",
    "pipelines": "/pipelines",
}


def fill(bootstrap: str) -> None:
    """The topics, records in one of them, and the groups."""
    create(bootstrap, {f"topic-{number:02}": PARTITIONS for number in range(TOPICS)}, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(5_000):
        producer.produce("topic-00", f"record {number}".encode(), str(number).encode())
    assert producer.flush(30) == 0
    for number in range(GROUPS):
        commit(bootstrap, f"group-{number:03}", f"topic-{number % TOPICS:02}", dict.fromkeys(range(PARTITIONS), 0))


def measure(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    for name, path in PAGES.items():
        times = []
        for _ in range(LOOKS):
            began = time.perf_counter()
            assert visitor.get(path).status == 200, name
            times.append((time.perf_counter() - began) * 1000)
        median = sorted(times)[LOOKS // 2]
        over = f"  over {GOAL_MS} ms" if median > GOAL_MS else ""
        print(f"{name:26}{median:7.0f} ms median{max(times):7.0f} ms worst{over}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, SordiniProcess(Path(directory) / "broker") as broker:
        fill(broker.bootstrap)
        with ConsoleProcess(Path(directory) / "console", broker.bootstrap) as console:
            print(f"{TOPICS} topics of {PARTITIONS} partitions, {GROUPS} groups, {LOOKS} requests of each page")
            measure(console)


if __name__ == "__main__":
    main()
