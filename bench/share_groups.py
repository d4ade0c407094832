"""Share groups (KIP-932) beside Apache Kafka 4.4.0: acknowledged records a second, CPU of each, and time to a worker.

Workers are frames over a connection each, the same to both brokers, so that the brokers are measured and not clients.
One process plays all of them in turns: each acknowledges what it holds with its next fetch, as Java's consumer does.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from bench import starting, table
from bench.clusters import Labels
from bench.goals import Goal, at_least, at_most, summary
from bench.procfs import cpu_seconds
from bench.sides import Say
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.served_apis import ALL_APIS
from tests.outside.java import KRaftProcess
from tests.outside.processes import BrokerProcess
from tests.support.share_group import FETCHES, ShareMember, ShareTopic, accepted, prepare
from tests.support.wire_client import Client

PART: Final = "share-groups"
THEIRS: Final = "Apache Kafka 4.4.0"
SETTINGS: Final[dict[str, object]] = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
}
OF_GROUPS: Final = {"share.auto.offset.reset": "earliest"}
ROUNDS_MAX: Final = 3
VALUE: Final = b"x" * 100
BATCH: Final = 100
"""Records of one batch."""
RECORDS_MAX: Final = 500
"""Of one fetch, as Java's max.poll.records is by default."""
WAIT_MS: Final = 500
PATIENCE_S: Final = 60
AHEAD: Final = at_least(1.0)
NO_MORE: Final = at_most(1.0)


class Size(NamedTuple):
    """How much is measured."""

    workers: tuple[int, ...] = (1, 4, 16)
    in_batches: int = 100_000
    singly: int = 3_000
    sent: int = 1_000
    settling: int = 2


QUICK: Final = Size(workers=(1, 4), in_batches=1_000, singly=50, sent=20, settling=0)


class Figures(NamedTuple):
    """Of one run."""

    per_second: float
    cpu_us: float


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` both brokers are Apache Kafka's, which proves the harness."""
    size, rounds = (QUICK, 1) if quick else (Size(), min(rounds, ROUNDS_MAX))
    found = [table.head(THEIRS, labels.ours, goals=True)]
    with ExitStack() as running:
        benches = []
        for name, make in (("theirs", _newest), ("ours", _newest if apache_only else _sordini)):
            broker = make(directory / name)
            starting.timed_start(broker, watch_idle=False)
            running.callback(broker.stop)
            benches.append(Bench(broker, running, say))
        for is_single, count in ((False, size.in_batches), (True, size.singly)):
            for workers in size.workers:
                found += _drained(benches, workers, count, size.settling, rounds, is_single=is_single)
        found += _times_to_a_worker(benches, size.sent)
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    rounds = min(rounds, ROUNDS_MAX)
    how = "one round" if rounds == 1 else f"medians of {rounds} rounds"
    return f"{how}; one partition, records of {len(VALUE)} bytes in batches of {BATCH}. Again: {again}."


def _newest(directory: Path) -> BrokerProcess:
    return KRaftProcess(directory, SETTINGS)


def _sordini(directory: Path) -> BrokerProcess:
    return starting.sordini(directory, SETTINGS)


class Bench:
    """One broker, and connections to it."""

    def __init__(self, broker: BrokerProcess, running: ExitStack, say: Say) -> None:
        self.broker = broker
        self._running = running
        self._say = say
        self._number = 0
        self.client = self.connect()

    def say(self, line: str) -> None:
        self._say(f"{self.broker.name}: {line}")

    def connect(self) -> Client:
        return self._running.enter_context(Client("127.0.0.1", self.broker.port, 60))

    def topic(self) -> ShareTopic:
        """A new one of one partition, and its group."""
        self._number += 1
        return prepare(self.client, f"group-{self._number}", f"topic-{self._number}", OF_GROUPS)

    def fill(self, topic: ShareTopic, count: int) -> None:
        batch = build_batch([Record(number, 1, None, VALUE) for number in range(BATCH)])
        for _ in range(-(-count // BATCH)):
            (row,) = self.client.produce(topic.name, [batch])
            assert row.error_code == 0, row

    def workers(self, topic: ShareTopic, count: int) -> list[Worker]:
        """Members of the group, with a partition and an open session each."""
        found = [Worker(ShareMember(self.connect(), topic)) for _ in range(count)]
        for worker in found:
            worker.member.join()
        for worker in found:
            worker.take_first()
        return found

    def cpu(self) -> float:
        return cpu_seconds(self.broker.pid)


class Worker:
    """A member with one fetch in flight."""

    def __init__(self, member: ShareMember) -> None:
        self.member = member
        self._held = accepted(())

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def send(self, records_max: int, *, is_single: bool) -> None:
        """Acknowledge what is held, and fetch."""
        request = self.member.fetch_request(records_max, wait_ms=WAIT_MS, said=self._held, is_by_records=is_single)
        api = ALL_APIS[ApiKey.SHARE_FETCH]
        body = request_header(api, FETCHES, 1, "bench") + codecs.encode(request, FETCHES)
        self.member.client.socket.sendall(struct.pack(">i", len(body)) + body)

    def take_first(self) -> None:
        """Open the session, and give back what came with it: the state of the partition is read then."""
        self.member.fetch(1, wait_ms=0, is_by_records=True)
        self.member.close_session()

    def receive(self) -> int:
        """How many records are acknowledged now; those that came are held."""
        client = self.member.client
        frame = memoryview(client.receive(struct.unpack(">i", client.receive(4))[0]))
        api = ALL_APIS[ApiKey.SHARE_FETCH]
        _, position = read_response_header(api, FETCHES, frame)
        answer: Any = codecs.decode(api.response, FETCHES, frame, position)[0]
        done = sum(last - first + 1 for first, last, _ in self._held)
        taken = self.member.taken(answer)
        assert taken.code == 0, taken.code
        self._held = accepted(taken.acquired)
        return done


def _drained(
    benches: Sequence[Bench], workers: int, count: int, settling: int, rounds: int, *, is_single: bool
) -> list[str]:
    """A filled topic until so many records are acknowledged; there are always more, so that no fetch waits for one."""
    seen: list[list[Figures]] = [[], []]
    for number in range(settling + rounds):
        for side, bench in zip(seen, benches, strict=True):
            figures = _drain(bench, workers, count, is_single=is_single)
            if number >= settling:  # A JVM compiles what it has run often.
                side.append(figures)
    per_second, cpu_us = ([median(getattr(one, name) for one in side) for side in seen] for name in Figures._fields)
    how = "one by one" if is_single else f"{RECORDS_MAX} at a time"
    goals: tuple[Goal | None, Goal | None] = (AHEAD, NO_MORE) if is_single else (None, None)
    name = f"{workers} worker{'' if workers == 1 else 's'}, {how}"
    return [
        table.judged_row(name, "acknowledged records/s", *per_second, goals[0]),
        table.judged_row("", "broker CPU, µs/record", *cpu_us, goals[1], digits=2),
    ]


def _drain(bench: Bench, workers: int, count: int, *, is_single: bool) -> Figures:
    topic, records_max = bench.topic(), 1 if is_single else RECORDS_MAX
    bench.fill(topic, count + 3 * workers * records_max)
    crew, done = bench.workers(topic, workers), 0
    began, before = time.perf_counter(), bench.cpu()
    with DefaultSelector() as answered:
        for worker in crew:
            answered.register(worker.member.client.socket, EVENT_READ, worker)
            worker.send(records_max, is_single=is_single)
        while done < count:  # One that waits for records keeps no other waiting.
            for key, _ in answered.select(PATIENCE_S):
                done += key.data.receive()
                key.data.send(records_max, is_single=is_single)
    took, used = time.perf_counter() - began, bench.cpu() - before
    for worker in crew:
        worker.receive()
        worker.member.leave()
    bench.say(f"{workers} workers, {records_max} at a time: {count / took:,.0f}/s, CPU {used / count * 1e6:.2f} us")
    return Figures(count / took, used / count * 1e6)


def _times_to_a_worker(benches: Sequence[Bench], count: int) -> list[str]:
    """From a Produce of one record until a worker that waits has acquired it."""
    both = []
    for bench in benches:
        topic = bench.topic()
        (worker,) = bench.workers(topic, 1)
        batch = build_batch([Record(0, 1, None, VALUE)])
        seen = []
        for number in range(2 * count):
            worker.send(1, is_single=True)
            began = time.perf_counter()
            bench.client.produce(topic.name, [batch])
            worker.receive()
            while not worker.holds:
                worker.send(1, is_single=True)
                worker.receive()
            if number >= count:  # As above.
                seen.append((time.perf_counter() - began) * 1e3)
        worker.send(1, is_single=True)
        worker.receive()
        worker.member.leave()
        both.append(quantiles(seen, n=100))
        bench.say(f"produce to acquire: p50 {both[-1][49]:.2f} ms, p99 {both[-1][98]:.2f} ms")
    return [
        table.judged_row("one record to a waiting worker", "p50, ms", *(one[49] for one in both), NO_MORE, digits=2),
        table.judged_row("", "p99, ms", *(one[98] for one in both), NO_MORE, digits=2),
    ]
