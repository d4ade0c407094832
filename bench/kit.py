"""The test kit: how long brokers take until they serve, and what a thousand isolated tests cost.

They are run twice: each on a broker of its own, as with the fixture `make_kafka`, and all on one, as with `kafka`. Each
has a topic and a group of its own: it produces a record by a client, consumes it, commits, and asks the kit what the
group has committed. The client is aiokafka, which is the slowest of those that live in Python.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.goals import Goal, ours_at_most
from bench.procfs import resident_bytes
from bench.sides import Say
from sordini.testing import Kafka, make_kafka

PART: Final = "test kit"
STARTS: Final = 30
TESTS: Final = 1_000
QUICK_TESTS: Final = 20
HEAD: Final = "| what | figure | goal |\n| --- | --: | --- |"


def rows(say: Say, *, quick: bool) -> list[str]:
    """The table's lines."""
    found = [HEAD]
    for brokers, goal_ms in ((1, 100), (3, 200)):
        times = _starts(brokers, 3 if quick else STARTS)
        name = "one broker serves" if brokers == 1 else f"{brokers} brokers serve"
        say(f"{name}: {median(times):.0f} ms, {max(times):.0f} at most")
        found.append(_row(f"{name}, median of {len(times)} starts, ms", median(times), ours_at_most(goal_ms, "ms")))
    count = QUICK_TESTS if quick else TESTS
    alone_s, alone_mebibytes = _measured(_run_tests_alone, count)
    say(f"{count} tests, each on a broker of its own: {alone_s:.1f} s, {alone_mebibytes:.0f} MiB")
    found.append(_row(f"{count:,} tests, each on a broker of its own, s", alone_s, ours_at_most(90, "s")))
    seconds, mebibytes = _measured(_run_tests, count)
    say(f"{count} isolated tests: {seconds:.1f} s, {mebibytes:.0f} MiB")
    found.append(_row(f"{count:,} isolated tests on one broker, s", seconds, ours_at_most(90, "s")))
    found.append(_row("memory of their process afterwards, MiB", mebibytes, ours_at_most(150, "MiB")))
    return found


def note() -> str:
    return f"again: `make bench ARGS='--only \"{PART}\" --write'`."


def _starts(brokers: int, count: int) -> list[float]:
    """Milliseconds of each start; the first one, which imports, is left out."""
    times = []
    for _ in range(count + 1):
        began = time.perf_counter()
        with make_kafka(brokers):
            times.append(1000 * (time.perf_counter() - began))
    return times[1:]


def _measured(run: Callable[[int], float], count: int) -> tuple[float, float]:
    """Seconds of so many tests, and the memory of a process that has run nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run_and_look, (run, count))


def _run_and_look(run: Callable[[int], float], count: int) -> tuple[float, float]:
    seconds = run(count)
    return seconds, resident_bytes(multiprocessing.current_process().pid or 0) / 2**20


def _run_tests_alone(count: int) -> float:
    began = time.perf_counter()
    for number in range(count + 1):
        if number == 1:  # The first one imports.
            began = time.perf_counter()
        with make_kafka() as kafka:
            asyncio.run(_test(kafka, number))
    return time.perf_counter() - began


def _run_tests(count: int) -> float:
    with make_kafka() as kafka:
        asyncio.run(_test(kafka, 0))
        began = time.perf_counter()
        for number in range(1, count + 1):
            asyncio.run(_test(kafka, number))
        return time.perf_counter() - began


async def _test(kafka: Kafka, number: int) -> None:
    topic, group = kafka.topic(), f"group-{number}"
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    await producer.send_and_wait(topic, b"figs")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    record = await consumer.getone()
    await consumer.commit()
    await consumer.stop()
    if record.value != b"figs" or kafka.committed(group) != {(topic, 0): 1}:
        raise SystemExit(f"{topic}: {record}, {kafka.committed(group)}")


def _row(subject: str, figure: float, goal: Goal) -> str:
    return f"| {subject} | {figure:,.0f} | {goal.judged(0, figure)} |"
