"""How long the loop is held by the largest requests: `make stall` prints the table.

Each largest body (`tests/support/largest_bodies.py`) is served by a whole broker made of parts (memory for a disk), while
another client, one call a round of the loop, waits. Printed for each: CPU seconds in all, and the longest that the
other client waited, in CPU time of this process: what else the machine does is not counted. Times are printed and
never asserted: `tests/unit/broker/requests/test_longest_requests.py` asserts counted calls.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse, Parts, release_parts
from sordini.broker.requests.decoding_costs import cost_max_of
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import request_header
from tests.support.controlled_broker import governed
from tests.support.group_requests import a_stable_group, commit
from tests.support.largest_bodies import (
    BODY_BYTES,
    KNOWN_GROUPS,
    KNOWN_PARTITIONS,
    KNOWN_TOPICS,
    Shape,
    first_and_last,
    largest,
    shapes,
)
from tests.support.unit_broker import UnitBroker, a_broker

QUIET_ROUNDS = 50
"""Rounds of the loop without an answer after which timers fire: what waits for them holds nothing."""
ROUNDS_MAX = 200_000


class Measured(NamedTuple):
    """What one request did."""

    body_bytes: int
    cpu_s: float
    waited: float
    """The longest that another client waited, as `meter` counts."""
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
        gc.collect()
        gc.freeze()  # As the process does that a broker runs in.
        try:
            yield broker
        finally:
            gc.unfreeze()


def frame_of(shape: Shape, body_bytes: int = BODY_BYTES) -> memoryview:
    """The request with the largest body that its bound allows."""
    header = request_header(shape.api, shape.version, 77, "test")
    message = largest(shape, body_bytes, cost_max_of(shape.api))
    return memoryview(bytearray(header + codecs.encode(message, shape.version)))


async def measure(broker: UnitBroker, frame: memoryview, meter: Callable[[], float] = time.thread_time) -> Measured:
    """Serve a request while another client has a request in every round of the loop."""
    began_s = time.process_time()
    waited, outcome, answer = await _serve(broker, frame, meter)
    size = sum(len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size for part in answer or ())
    release_parts(answer)
    before = meter()
    del answer
    await asyncio.sleep(0)
    waited = max(waited, meter() - before)
    return Measured(len(frame), time.process_time() - began_s, waited, size, outcome)


async def _serve(broker: UnitBroker, frame: memoryview, meter: Callable[[], float]) -> tuple[float, str, Parts | None]:
    before = meter()
    try:
        answer = broker.parts.dispatcher.serve(broker.peer, frame)
    except WireError as error:
        return meter() - before, f"closed: {error!s:.90}", None
    waited = meter() - before
    if not isinstance(answer, DelayedResponse):
        return waited, "answered at once", answer
    failures: list[Exception] = []
    answer.on_failure = failures.append
    for number in range(ROUNDS_MAX):
        if answer.is_answered:
            outcome = f"closed: {failures[0]!s:.90}" if failures else "answered later"
            return waited, outcome, answer.parts
        if number % QUIET_ROUNDS == QUIET_ROUNDS - 1 and not broker.parts.dispatcher.slices.waiting:
            broker.timers.fire()
        before = meter()
        await asyncio.sleep(0)
        waited = max(waited, meter() - before)
    return waited, "not answered", None


async def table(wanted: Iterable[Shape], body_bytes: int) -> None:
    say(f"{'request':78} {'body':>9} {'CPU s':>7} {'wait ms':>8} {'answer':>11}  outcome")
    for shape in wanted:
        async with a_busy_broker() as broker:
            found = await measure(broker, frame_of(shape, body_bytes))
        say(
            f"{shape.title:78} {found.body_bytes:9,} {found.cpu_s:7.3f} {found.waited * 1000:8.1f} "
            f"{found.answer_bytes:11,}  {found.outcome}"
        )


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU and longest wait of each request at its largest body")
    parser.add_argument("--api", action="append", help="only this request (its name in capitals); may be repeated")
    parser.add_argument("--every-version", action="store_true", help="not only the first and the last")
    parser.add_argument("--bytes", type=int, default=BODY_BYTES, help="of each body")
    given = parser.parse_args()
    keys = None if given.api is None else frozenset(ApiKey[name] for name in given.api)
    wanted = shapes(keys) if given.every_version else first_and_last(keys)
    asyncio.run(table(wanted, given.bytes))


if __name__ == "__main__":
    main()
