"""How long the loop is held by the largest requests: `make stall` prints the table.

Each largest body (`tests/largest_bodies.py`) is served by a whole broker made of parts (memory for a disk), while
another client, one call a round of the loop, waits. Printed for each: CPU seconds in all, and the longest that the
other client waited. Wall-clock time is printed and never asserted: `tests/unit/broker/test_longest_requests.py` asserts
counted steps.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from sordini.broker.groups.internal_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import Pending, release_parts
from sordini.protocol import schema
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import request_header
from tests.largest_bodies import BODY_BYTES, KNOWN_GROUPS, KNOWN_PARTITIONS, KNOWN_TOPICS, Shape, largest, shapes
from tests.unit.broker.governed import governed
from tests.unit.broker.group_calls import a_stable_group, commit
from tests.unit.broker.parts import UnitBroker, a_broker

QUIET_ROUNDS = 50
"""Rounds of the loop without an answer after which timers fire: whoever waits for them is held by nobody."""


class Measured(NamedTuple):
    """What one request did."""

    shape: Shape
    body_bytes: int
    cpu_s: float
    wait_s: float
    """The longest that another client waited."""
    answer_bytes: int
    outcome: str


@asynccontextmanager
async def a_busy_broker() -> AsyncIterator[UnitBroker]:
    """A broker with topics, groups and offsets, which is its own cluster's controller."""
    entries = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    async with a_broker(entries) as broker, governed(broker) as whole:
        for topic in KNOWN_TOPICS:
            await whole.make(topic, *[(1,)] * KNOWN_PARTITIONS)
        await whole.make(OFFSETS_TOPIC, (1,))
        await whole.settled()
        for group in KNOWN_GROUPS:
            joined = a_stable_group(broker, group)
            commit(broker, {0: 5}, joined, topic=KNOWN_TOPICS[0], group_id=group)
        yield broker


async def measure(broker: UnitBroker, shape: Shape, body_bytes: int = BODY_BYTES) -> Measured:
    """Serve one largest body and see."""
    message = largest(shape, body_bytes)
    frame = memoryview(
        bytearray(request_header(shape.api, shape.version, 77, "test") + schema.encode(message, shape.version))
    )
    del message
    waited: list[float] = [0.0]
    size, outcome = 0, "answered"
    began_cpu = time.process_time()
    began = time.thread_time()
    try:
        answer = broker.parts.dispatcher.serve(broker.peer, frame)
    except WireError as error:
        answer, outcome = None, f"closed: {str(error)[:90]}"
    waited[0] = time.thread_time() - began
    if isinstance(answer, Pending):
        outcome = "answered later"
        quiet = 0
        while not answer.is_answered:
            before = time.thread_time()
            await asyncio.sleep(0)
            waited.append(time.thread_time() - before)
            quiet += 1
            if quiet % QUIET_ROUNDS == 0 and waited[-1] < 0.001:
                broker.timers.fire()
            if quiet > 100_000:
                outcome = "never answered"
                break
        before = time.thread_time()
        parts = answer.parts
        answer = parts
        del parts
    if isinstance(answer, list):
        size = sum(len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size for part in answer)
        release_parts(answer)
    before = time.thread_time()
    del answer
    await asyncio.sleep(0)
    waited.append(time.thread_time() - before)
    return Measured(shape, len(frame), time.process_time() - began_cpu, max(waited), size, outcome)


async def table(wanted: Iterable[Shape], body_bytes: int) -> None:
    print(f"{'request':90} {'body':>9} {'CPU s':>7} {'wait ms':>8} {'answer':>11}  outcome")
    for shape in wanted:
        async with a_busy_broker() as broker:
            found = await measure(broker, shape, body_bytes)
        print(
            f"{shape.title:90} {found.body_bytes:9,} {found.cpu_s:7.3f} {found.wait_s * 1000:8.1f} "
            f"{found.answer_bytes:11,}  {found.outcome}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", action="append", help="only this request (its name in capitals)")
    parser.add_argument("--every-version", action="store_true", help="not only the first and the last")
    parser.add_argument("--bytes", type=int, default=BODY_BYTES)
    given = parser.parse_args()
    keys = None if given.api is None else frozenset(ApiKey[name] for name in given.api)
    wanted = [
        shape
        for shape in shapes(keys=keys)
        if given.every_version or shape.version in (shape.api.min_version, shape.api.max_version)
    ]
    asyncio.run(table(wanted, given.bytes))


if __name__ == "__main__":
    main()
