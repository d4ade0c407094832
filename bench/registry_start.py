"""`python -m bench.registry_start`: how long a registry takes to read its topic at a start, with 20,000 schemas.

Printed: the time from the start of a journal to the end of its topic, of which the Avro schemas have a kilobyte each,
in batches as a registry writes them (one record each), and as compaction leaves them after a migration (hundreds).
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from sordini.client.addresses import parse_bootstrap
from sordini.client.cluster import Cluster
from sordini.client.cluster_core import Access
from sordini.client.record_requests import PRODUCE_BY_NAME, only_partition, produce_request, produced_partitions
from sordini.client.sockets import connect
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from sordini.registry.journal.journal import TopicJournal
from sordini.registry.journal.membership import Identity
from sordini.registry.journal.settings import JournalSettings
from sordini.system.clock import SystemClock
from tests.outside.processes import SordiniProcess
from tests.support.fake_ports import ListLog

SCHEMAS = 20_000
SCHEMA_BYTES = 1_000
IN_FLIGHT = 500
RUNS = 3


def records(first: int, count: int) -> list[Record]:
    """Registrations as a registry writes them."""
    found = []
    for number in range(first, first + count):
        subject, schema = f"subject-{number % 2_000}-value", json.dumps({"type": "string", "doc": "x" * SCHEMA_BYTES})
        key = {"keytype": "SCHEMA", "subject": subject, "version": number // 2_000 + 1, "magic": 1}
        value = {"subject": subject, "version": number // 2_000 + 1, "id": number + 1, "schema": schema}
        found.append(Record(number - first, 1, json.dumps(key).encode(), json.dumps(value).encode()))
    return found


async def fill(access: Access, topic: str, per_batch: int) -> None:
    """Write the topic's records, so many in each batch."""
    async with Cluster(access, connect) as cluster:
        link, partition = await cluster.any_broker(), TopicPartition(topic, 0)
        for start in range(0, SCHEMAS, IN_FLIGHT):
            batches = [build_batch(records(at, per_batch)) for at in range(start, start + IN_FLIGHT, per_batch)]
            answers = [link.send(produce_request({partition: batch}, 10_000), **PRODUCE_BY_NAME) for batch in batches]
            for answer in await asyncio.gather(*answers):
                row = only_partition(produced_partitions(answer), topic)
                assert not row.error_code, row.error_message


async def read(access: Access, topic: str) -> tuple[float, int]:
    """Seconds until all is applied, and how many records that were."""
    ids: dict[str, int] = {}

    def apply(key: bytes, value: bytes | None, _offset: int) -> None:
        if value is not None:
            ids[json.loads(key)["subject"]] = json.loads(value)["id"]
            apply_count[0] += 1

    apply_count = [0]
    settings = JournalSettings(Identity("http", "127.0.0.1", 8081), topic=topic, group=topic)
    began = time.monotonic()
    journal = TopicJournal(access, connect, settings, apply, SystemClock().now_ms, ListLog())
    running = asyncio.create_task(journal.run())
    await journal.wait_until_current()
    took = time.monotonic() - began
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return took, apply_count[0]


async def measure(bootstrap: str) -> None:
    access = Access(tuple(parse_bootstrap(bootstrap)), "bench")
    for per_batch in (1, 250):
        topic = f"_schemas-{per_batch}"
        await read(access, topic)
        await fill(access, topic, per_batch)
        times = []
        for _ in range(RUNS):
            took, count = await read(access, topic)
            assert count == SCHEMAS, count
            times.append(took)
        seconds = ", ".join(f"{took:.2f}" for took in times)
        sys.stdout.write(f"{SCHEMAS:,} schemas of {SCHEMA_BYTES} bytes, {per_batch} in a batch: {seconds} s\n")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        SordiniProcess(Path(directory) / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
    ):
        asyncio.run(measure(broker.bootstrap))


if __name__ == "__main__":
    main()
