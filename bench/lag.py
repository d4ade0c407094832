"""`python -m bench.lag`: what a snapshot at the lag of 10,000 group-partitions costs, and whom it holds up.

Ten groups have committed offsets of a thousand partitions each, and every partition has unread records, so that each
row is searched in its log. Printed: a snapshot's duration with everything that the client does, the broker's CPU time,
what the samples of log ends cost, and the latency of produce requests meanwhile.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from bench.procfs import cpu_seconds
from sordini.admin.cluster_client import ClusterClient
from sordini.admin.groups.group_requests import commit_offsets
from sordini.cli.common.command_cluster import command_cluster
from sordini.client.addresses import parse_bootstrap
from sordini.client.lag.cluster_reader import read_lags
from sordini.client.record_requests import PRODUCE_BY_NAME, produce_request
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock
from tests.outside.processes import SordiniProcess

PARTITIONS = 1_000
GROUPS = 10
RECORDS = 10
LOOKS = 10
PINGS_S = 0.005
QUIET_S = 10.0


async def prepare(cluster: ClusterClient, pinged: TopicPartition) -> list[str]:
    """Topics, records and groups; the groups' names."""
    link = await cluster.any_broker()
    topics = [
        CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1),
        CreatableTopic(name=pinged.topic, num_partitions=1, replication_factor=1),
    ]
    await link.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
    partitions = [TopicPartition("many", number) for number in range(PARTITIONS)]
    await cluster.retry(lambda: cluster.leaders([*partitions, pinged]))
    now_ms = SystemClock().now_ms()
    for _ in range(RECORDS):
        batch = build_batch([Record(0, now_ms, None, b"x" * 100)])
        await link.ask(produce_request(dict.fromkeys(partitions, batch), 30_000), **PRODUCE_BY_NAME)
    names = [f"group-{number}" for number in range(GROUPS)]
    for number, name in enumerate(names):
        await commit_offsets(cluster, name, dict.fromkeys(partitions, number % RECORDS))
    return names


async def ping(bootstrap: str, pinged: TopicPartition, seconds: list[float]) -> None:
    """Produce one record after another on a connection of its own, until cancelled."""
    async with command_cluster(parse_bootstrap(bootstrap)) as cluster:
        link = await cluster.any_broker()
        batch = build_batch([Record(0, SystemClock().now_ms(), None, b"x" * 100)])
        while True:
            began = time.perf_counter()
            await link.ask(produce_request({pinged: batch}, 30_000), **PRODUCE_BY_NAME)
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(PINGS_S)


def latency(seconds: Sequence[float]) -> str:
    cuts = quantiles(seconds, n=100)
    return f"median {median(seconds) * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms, max {max(seconds) * 1e3:.1f} ms"


async def looking(bootstrap: str, names: Sequence[str], count: int) -> list[float]:
    """Durations of snapshots, one after another, on one connection; the first does not count."""
    took = []
    async with command_cluster(parse_bootstrap(bootstrap)) as cluster:
        for _ in range(count + 1):
            began = time.perf_counter()
            groups = await read_lags(cluster, names, SystemClock().now_ms)
            took.append(time.perf_counter() - began)
            rows = [row for group in groups for row in group.partitions]
            assert len(rows) == PARTITIONS * GROUPS, len(rows)
            assert all(row.unread is not None for row in rows)
    return took[1:]


async def measure(broker: SordiniProcess) -> None:
    pinged = TopicPartition("pinged", 0)
    async with command_cluster(parse_bootstrap(broker.bootstrap)) as cluster:
        names = await prepare(cluster, pinged)
    await asyncio.sleep(QUIET_S)  # The snapshots at log ends have taken all of it in.
    before = cpu_seconds(broker.pid)
    await asyncio.sleep(QUIET_S)
    print(f"idle broker, {PARTITIONS:,} partitions: {(cpu_seconds(broker.pid) - before) / QUIET_S * 1e3:.1f} ms CPU/s")
    before = cpu_seconds(broker.pid)
    took = await looking(broker.bootstrap, names, LOOKS)
    used = (cpu_seconds(broker.pid) - before) / (LOOKS + 1)
    rows = PARTITIONS * GROUPS
    print(f"a snapshot of {rows:,} group-partitions, all behind: median {median(took):.3f} s, max {max(took):.3f} s")
    print(f"  broker CPU {used:.3f} s a snapshot, {used / rows * 1e6:.0f} µs a row")
    for title, snapshots in (("without snapshots", 0), (f"during {LOOKS} snapshots", LOOKS)):
        seconds: list[float] = []
        task = asyncio.create_task(asyncio.to_thread(_ping_in_thread, broker.bootstrap, pinged, seconds, snapshots))
        if snapshots:
            process = await asyncio.create_subprocess_exec(
                *_looker(broker.bootstrap, snapshots), stdout=asyncio.subprocess.DEVNULL
            )
            await process.wait()
            seconds.append(-1)  # Ends the pings.
        await task
        print(f"produce requests {title}: {latency([one for one in seconds if one >= 0])}")


def _looker(bootstrap: str, snapshots: int) -> list[str]:
    """Another process, as a command or a console is."""
    import sys

    return [sys.executable, "-m", "bench.lag", bootstrap, str(snapshots)]


def _ping_in_thread(bootstrap: str, pinged: TopicPartition, seconds: list[float], snapshots: int) -> None:
    async def pings() -> None:
        task = asyncio.create_task(ping(bootstrap, pinged, seconds))
        began = time.perf_counter()
        while (snapshots and -1 not in seconds) or (not snapshots and time.perf_counter() - began < QUIET_S):
            await asyncio.sleep(0.05)
            if task.done():
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(pings())


def main() -> None:
    import sys

    if len(sys.argv) == 3:
        names = [f"group-{number}" for number in range(GROUPS)]
        asyncio.run(looking(sys.argv[1], names, int(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory() as directory, SordiniProcess(Path(directory)) as broker:
        asyncio.run(measure(broker))


if __name__ == "__main__":
    main()
