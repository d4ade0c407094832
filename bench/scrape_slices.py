"""What a scrape of GET /metrics takes, and for how long each of its slices keeps the loop.

    python -m bench.scrape_slices [--partitions 5000]

One broker in this process, with its logs on the disk, all of them led, and groups with committed offsets. Times are
CPU time of the thread, so other programs of the machine do not count. The first scrape is not shown.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from sordini.broker.groups.machine.state import GroupState
from sordini.broker.metrics.exporter import FAMILIES, render
from sordini.broker.metrics.families import MetricFamily, MetricSources
from sordini.broker.metrics.kafka_families import kafka_families
from sordini.protocol.types import TopicPartition
from sordini.storage.disk import SystemDisk
from tests.support.unit_broker import a_broker
from tests.unit.broker.metrics.test_readings import Scraped

PARTITIONS_PER_TOPIC = 100
GROUPS = 10
OFFSETS_PER_GROUP = 500
SCRAPES = 5
SHOWN = 5


class Slices(NamedTuple):
    """Milliseconds of CPU time."""

    total: float
    longest: float
    count: int
    size: int
    """Bytes of the text."""


async def scrape(families: Sequence[MetricFamily], sources: MetricSources) -> Slices:
    """Render, beside a task that takes the time whenever the loop is free."""
    slices: list[float] = []
    last = time.thread_time()

    async def beat() -> None:
        nonlocal last
        while True:
            now = time.thread_time()
            slices.append((now - last) * 1000)
            last = now
            await asyncio.sleep(0)

    beating = asyncio.ensure_future(beat())
    await asyncio.sleep(0)
    pieces = await render(families, sources)
    await asyncio.sleep(0)  # The last slice, too.
    beating.cancel()
    return Slices(sum(slices), max(slices), len(slices), sum(map(len, pieces)))


async def measure(partitions: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        disk: Any = SystemDisk()
        async with a_broker({"log.dirs": directory}, disk) as broker:
            scraped = Scraped(broker)
            names = []
            for number in range(partitions // PARTITIONS_PER_TOPIC):
                await broker.lead(f"topic-{number}", PARTITIONS_PER_TOPIC)
                names += [TopicPartition(f"topic-{number}", index) for index in range(PARTITIONS_PER_TOPIC)]
            for number in range(GROUPS):
                committed = dict.fromkeys(names[:OFFSETS_PER_GROUP], 0)
                scraped.groups.add(f"group-{number}", GroupState.STABLE, 2, committed)
            gc.collect()
            gc.freeze()  # As a broker that is ready (`broker/process/garbage.py`).
            families = (*FAMILIES, *kafka_families())
            found = [await scrape(families, scraped.sources) for _ in range(SCRAPES + 1)][1:]
            print(
                f"{partitions} partitions, {found[0].size} bytes: {min(one.total for one in found):.0f} ms of CPU in "
                f"{found[0].count} slices; the longest {min(one.longest for one in found):.1f} ms "
                f"(of {SCRAPES} scrapes each the least)"
            )
            alone = [(await scrape([family], scraped.sources), family.name) for family in families]
            for slices, name in sorted(alone, key=lambda one: -one[0].longest)[:SHOWN]:
                print(f"  {slices.longest:6.1f} ms  {name} ({slices.count} slices)")
            await scraped.sockets.close(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=5_000, help="default: %(default)s")
    asyncio.run(measure(parser.parse_args().partitions))


if __name__ == "__main__":
    main()
