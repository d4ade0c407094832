"""What the checks of a Produce request's records cost: `python bench/record_checks.py` prints the tables.

One process, one core, CPU time, best of five rounds; the figures go into docs/evidence/record-checks.md by hand.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from sordini.protocol.records import compiled_reader, record_scan
from sordini.protocol.records.batch import (
    HEADER_SIZE,
    Record,
    build_batch,
    crc_is_right,
    read_header,
    stamp,
    stamp_append_time,
)
from sordini.protocol.records.compression import CODEC_NAMES
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX
from sordini.protocol.records.produce_validation import UNLIMITED, ProduceRules
from sordini.protocol.records.produced_records import check_produced

RULES = ProduceRules(1_048_588, False, False, UNLIMITED, UNLIMITED, None, None, False, EXPANDED_BYTES_MAX)
START_MS = 1_700_000_000_000
random_bytes = random.Random(1).randbytes
random_size = random.Random(2).randrange


def a_batch(count: int, content: Callable[[int], Record], codec: int = 0) -> bytes:
    return build_batch([content(index) for index in range(count)], codec=codec)


def uniform(index: int) -> Record:
    return Record(index, START_MS + index // 40, None, random_bytes(100))


def irregular(index: int) -> Record:
    return Record(index, START_MS + index // 40, b"key-%d" % random_size(10_000), random_bytes(random_size(20, 400)))


def with_header(index: int) -> Record:
    return Record(index, START_MS + index, b"k%04d" % index, random_bytes(80), (("trace", random_bytes(16)),))


def microseconds(work: Callable[[], object], rounds: int = 5) -> float:
    best = float("inf")
    for _ in range(rounds):
        turns = 0
        start = time.process_time()
        while (spent := time.process_time() - start) < 0.05:
            for _ in range(10):
                work()
            turns += 10
        best = min(best, spent / turns)
    return best * 1e6


def print_batches() -> None:
    batches = {
        "600 records of 100 bytes": (600, a_batch(600, uniform)),
        "300 keyed records of 20-400 bytes": (300, a_batch(300, irregular)),
        "500 records with a header, 1 ms apart": (500, a_batch(500, with_header)),
        "12 keyed records of 20-400 bytes": (12, a_batch(12, irregular)),
        "1 record of 100 bytes": (1, a_batch(1, uniform)),
    }
    compiled_reader.load()
    print("| batch | bytes | check_produced µs | per record | walk alone | compiled alone |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (count, batch) in batches.items():
        frame = memoryview(bytearray(batch))
        body = batch[HEADER_SIZE:]
        whole = microseconds(lambda frame=frame: check_produced(frame, RULES, 0, produce_version=9))
        walk = microseconds(lambda body=body, count=count: record_scan._walk(body, 0, 0, count)) / count  # noqa: SLF001
        fast = microseconds(lambda body=body, count=count: compiled_reader.scan(body, count, want_keys=False)) / count
        print(f"| {name} | {len(batch)} | {whole:.1f} | {whole / count:.3f} | {walk:.3f} | {fast:.3f} |")


def print_steps() -> None:
    batch = a_batch(600, uniform)
    frame = memoryview(bytearray(batch))
    header = read_header(frame)
    steps: dict[str, Callable[[], object]] = {
        "read the header": lambda: read_header(frame),
        "CRC-32C of 64 KiB": lambda: crc_is_right(frame, 0, header),
        "copy 64 KiB of records": lambda: bytes(frame[HEADER_SIZE:]),
        "follow 600 records": lambda: record_scan.scan(batch[HEADER_SIZE:], 600),
        "stamp offset and epoch": lambda: stamp(frame, 0, 0, 0),
        "stamp the append time (CRC again)": lambda: stamp_append_time(frame, 0, 5),
    }
    print("\n| step | µs |\n| --- | --- |")
    for name, step in steps.items():
        print(f"| {name} | {microseconds(step):.2f} |")


def print_codecs() -> None:
    print("\n| 600 records of 100 bytes, codec | pass through µs | opened and checked µs | rewritten plain µs |")
    print("| --- | --- | --- | --- |")
    opened, plain = RULES._replace(check_compressed=True), RULES._replace(codec=0)
    for codec in sorted(CODEC_NAMES)[1:]:
        frame = memoryview(bytearray(a_batch(600, uniform, codec)))
        cells = [
            microseconds(lambda frame=frame, rules=rules: check_produced(frame, rules, 0, produce_version=9))
            for rules in (RULES, opened, plain)
        ]
        print(f"| {CODEC_NAMES[codec]} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    print_batches()
    print_steps()
    print_codecs()
