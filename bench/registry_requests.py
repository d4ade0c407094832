"""`python -m bench.registry_requests`: how soon a test has its registry, and what readers notice of large schemas.

Printed: what `registry=True` adds to the start of a test's broker; and the latency of a schema by its id at `sordini
registry`, without and with four clients that register JSON schemas of thousands of values each.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

from sordini.testing import make_kafka
from tests.outside.processes import SordiniProcess
from tests.registry.http.registry_process import RegistryProcess, send

STARTS = 15
REQUESTS = 2_000
CLIENTS = 4
VALUES = 20_000


def main() -> None:
    plain, with_registry = [], []
    for _ in range(STARTS):
        plain.append(started_ms(registry=False))
        with_registry.append(started_ms(registry=True))
    print(f"a test's broker: {median(plain):.0f} ms; with a registry: {median(with_registry):.0f} ms")
    with (
        tempfile.TemporaryDirectory() as folder,
        SordiniProcess(Path(folder) / "broker") as broker,
        RegistryProcess(Path(folder) / "registry", broker.bootstrap) as registry,
    ):
        send(registry.url, "POST", "/subjects/orders-value/versions", {"schema": '"long"'})
        print(f"alone: {latencies(registry.url)}")
        stop = threading.Event()
        senders = [threading.Thread(target=register, args=(registry.url, number, stop)) for number in range(CLIENTS)]
        for sender in senders:
            sender.start()
        print(f"with {CLIENTS} clients that register: {latencies(registry.url)}")
        stop.set()
        for sender in senders:
            sender.join()


def started_ms(*, registry: bool) -> float:
    began = time.perf_counter()
    with make_kafka(registry=registry):
        return (time.perf_counter() - began) * 1e3


def register(url: str, number: int, stop: threading.Event) -> None:
    """Register large schemas, one after the other."""
    count = 0
    while not stop.is_set():
        count += 1
        schema = json.dumps({"enum": [f"{number}-{count}-{value}" for value in range(VALUES)]})
        send(url, "POST", f"/subjects/large-{number}-{count}/versions", {"schemaType": "JSON", "schema": schema})


def latencies(url: str) -> str:
    address = urlsplit(url)
    link = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    took_ms = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        link.request("GET", "/schemas/ids/1")
        link.getresponse().read()
        took_ms.append((time.perf_counter() - began) * 1e3)
    link.close()
    return f"a schema by its id in {median(took_ms):.2f} ms, 99 of 100 within {quantiles(took_ms, n=100)[-1]:.1f} ms"


if __name__ == "__main__":
    main()
