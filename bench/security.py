"""What TLS and access control cost, and what handshakes do to the others, beside Apache Kafka.

Each side has two brokers: one with a plaintext and a TLS listener (TLS 1.3, an ECDSA key), one with an authorizer and
entries for the topics that are used. Rates are records per second of the broker's CPU, so that they say the same on a
busy machine; each figure is of the same broker, in turns. The handshakes are with a key of RSA-2048, on a listener of
their own.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench import sides, starting, table
from bench.clusters import Labels
from bench.goals import Goal, at_least, ours_at_most, summary
from bench.sides import Say
from bench.works import Bench, Figures, Work, settle
from sordini.protocol.api import ApiKey
from sordini.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.outside.java import ZooKeeperProcess
from tests.outside.ports import free_port
from tests.outside.processes import BrokerProcess
from tests.support.certificates import Authority, java_store_settings
from tests.support.wire_client import Client

PART: Final = "security"
ROUNDS_MAX: Final = 5
RSA_BITS: Final = 2048
HANDSHAKES_PER_SECOND: Final = 500
SHAKERS: Final = 8
AS_MUCH: Final = at_least(1.0)
ACLS_COST: Final = ours_at_most(1.02, "")
"""The CPU of a record with access control by that without."""
HANDSHAKES_COST: Final = ours_at_most(2.0, "")
"""The p99 of others beside handshakes by that without."""

_TOPIC, _PREFIXED, _ALLOW = 2, 4, 3
_READ, _WRITE, _DELETE = 3, 4, 6


class Place(NamedTuple):
    """A listener of a running broker, as `Bench` takes it."""

    bootstrap: str
    pid: int
    bench: Bench
    """Of the broker: it numbers the topics."""
    ca: Path | None = None


class Extent(NamedTuple):
    """How much is done; `QUICK` proves that the harness works and measures nothing."""

    batched: int
    singles: int
    runs_to_settle: int


FULL: Final = Extent(1_000_000, 20_000, 6)
QUICK: Final = Extent(10_000, 200, 1)


class Set(NamedTuple):
    """The brokers of one side, by their listeners."""

    plain: Place
    tls: Place
    guarded: Place
    rsa_port: int


def _works(extent: Extent) -> list[Work]:
    return [
        Work("produce, 64 KiB batches", "produce", extent.batched),
        Work("consume from the page cache", "consume", extent.batched),
        Work("one record per request, 1 in flight", "single", extent.singles),
        Work("one record per request, 16 connections", "single", extent.singles, connections=16),
    ]


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` all brokers are Apache Kafka's, which proves the harness."""
    extent, rounds = (QUICK, 1) if quick else (FULL, min(rounds, ROUNDS_MAX))
    found = [table.head(*labels, goals=True)]
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(directory / "zookeeper"))
        pair = sides.both(*labels, zookeeper.connect, apache_only=apache_only)
        sets = [running.enter_context(_started(directory / name, side)) for name, side in pair._asdict().items()]
        for work in _works(extent):
            found += _compared(work, sets, rounds, extent, say)
        found += _handshakes(sets, rounds, extent, say)
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds. Again: {again}."


@contextmanager
def _started(home: Path, side: sides.Side) -> Iterator[Set]:
    """The brokers of one side."""
    home.mkdir()
    authority = Authority()
    ca = authority.pem_file(home / "ca.pem")
    keys = authority.issue("broker").pkcs12_file(home / "broker.p12")
    rsa = authority.issue("broker", rsa_bits=RSA_BITS).pkcs12_file(home / "rsa.p12")
    stores = java_store_settings(keys, authority.pkcs12_file(home / "trust.p12"))
    port, rsa_port = free_port(), free_port()
    settings = {
        **stores,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,RSA:SSL",
        "listener.name.rsa.ssl.keystore.location": rsa,
        "listener.name.rsa.ssl.keystore.password": stores["ssl.keystore.password"],
        "listener.name.rsa.ssl.keystore.type": "PKCS12",
        "listener.name.rsa.ssl.key.password": stores["ssl.key.password"],
        "inter.broker.listener.name": "PLAINTEXT",
    }
    opened = side.start(home / "open", settings)
    _listen(opened, f"PLAINTEXT://{opened.bootstrap},SSL://127.0.0.1:{port},RSA://127.0.0.1:{rsa_port}")
    guarded = side.start(
        home / "guarded",
        {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    with ExitStack() as running:
        for process in (opened, guarded):
            starting.timed_start(process, watch_idle=False)
            running.callback(process.stop)
        _allow(guarded)
        bench = Bench("open", opened)
        yield Set(
            Place(opened.bootstrap, opened.pid, bench),
            Place(f"127.0.0.1:{port}", opened.pid, bench, ca),
            Place(guarded.bootstrap, guarded.pid, Bench("guarded", guarded)),
            rsa_port,
        )


def _listen(process: BrokerProcess, listeners: str) -> None:
    given = process.overrides if hasattr(process, "overrides") else process.settings  # type: ignore[attr-defined]
    given["listeners"] = listeners


def _allow(broker: BrokerProcess) -> None:
    """Entries for the topics that `Bench` makes: a few that match, and some that do not."""
    names = ["bench-", "bench-1", *(f"other-{number}" for number in range(20))]
    creations = [
        AclCreation(
            resource_type=_TOPIC,
            resource_name=name,
            resource_pattern_type=_PREFIXED,
            principal="User:ANONYMOUS",
            host="*",
            operation=operation,
            permission_type=_ALLOW,
        )
        for name in names
        for operation in (_READ, _WRITE, _DELETE)
    ]
    with Client("127.0.0.1", broker.port) as client:
        answer = client.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(creations=creations))
    if any(row.error_code for row in answer.results):
        raise SystemExit(f"{broker.name} refused the entries: {answer}")


@contextmanager
def _as_client(place: Place) -> Iterator[None]:
    """The load generator's environment for a listener, which the broker's `Bench` uses meanwhile."""
    place.bench.process = place  # type: ignore[assignment]
    if place.ca is not None:
        os.environ["LOAD_CA"] = str(place.ca)
    try:
        yield
    finally:
        os.environ.pop("LOAD_CA", None)


class _Measured:
    """One kind of work at one listener."""

    def __init__(self, place: Place, work: Work, extent: Extent) -> None:
        self.place, self._work, self._bench = place, work, place.bench
        self.seen: list[Figures] = []
        with _as_client(place):
            self._topic = self._bench.filled_topic(extent.batched) if work.kind == "consume" else ""
            settle(self.measure, runs_max=extent.runs_to_settle)
        self.seen.clear()

    def measure(self) -> Figures:
        with _as_client(self.place):
            found = (
                self._bench.measure(self._work, self._topic) if self._topic else self._bench.measure_afresh(self._work)
            )
        self.seen.append(found)
        return found

    def middle(self, name: str) -> float:
        return float(median(getattr(one, name) for one in self.seen))

    def per_cpu_second(self) -> float:
        return 1e6 / self.middle("cpu_us")


def _compared(work: Work, sets: Sequence[Set], rounds: int, extent: Extent, say: Say) -> list[str]:
    sides_seen = [[_Measured(place, work, extent) for place in (one.plain, one.tls, one.guarded)] for one in sets]
    for _ in range(rounds):
        for side in sides_seen:
            for one in side:
                figures = one.measure()
                say(f"{work.name}, {one.place.bootstrap}: {figures.per_second:,.0f}/s, CPU {figures.cpu_us:.2f} µs")
    theirs, ours = sides_seen
    both = (theirs, ours)
    unit = "requests" if work.is_single else "records"
    rates = [side[1].per_cpu_second() for side in both]
    found = [_row(f"TLS: {work.name}", f"{unit} per CPU second", rates, AS_MUCH)]
    if work.is_single:
        found.append(_row("", "p99, µs", [side[1].middle("p99_us") for side in both], None))
    costs = [side[1].middle("cpu_us") / side[0].middle("cpu_us") for side in both]
    found.append(_row("", "CPU by that without TLS", costs, None, digits=2))
    costs = [side[2].middle("cpu_us") / side[0].middle("cpu_us") for side in both]
    found.append(_row(f"access control: {work.name}", "CPU by that without", costs, ACLS_COST, digits=3))
    return found


def _row(work: str, figure: str, values: Sequence[float], goal: Goal | None, *, digits: int = 0) -> str:
    theirs, ours = values
    return table.judged_row(work, figure, theirs, ours, goal, digits=digits)


def _handshakes(sets: Sequence[Set], rounds: int, extent: Extent, say: Say) -> list[str]:
    """Small requests of one plaintext client, alone and beside handshakes at the RSA listener."""
    work = Work("one record per request, 1 in flight", "single", extent.singles)
    alone = [_Measured(one.plain, work, extent) for one in sets]
    beside = [_Measured(one.plain, work, extent) for one in sets]
    rates: list[list[float]] = [[], []]
    for _ in range(rounds):
        for number, one in enumerate(sets):
            alone[number].measure()
            with _shaking(one.rsa_port) as rate:
                figures = beside[number].measure()
                rates[number].append(rate())
            say(f"beside {rates[number][-1]:.0f} handshakes/s, {one.plain.bootstrap}: p99 {figures.p99_us:.0f} µs")
    name = f"beside {HANDSHAKES_PER_SECOND} handshakes/s (RSA-{RSA_BITS})"
    latencies = [one.middle("p99_us") for one in beside]
    costs = [one / without.middle("p99_us") for one, without in zip(latencies, alone, strict=True)]
    return [
        _row(name, "handshakes/s", [median(one) for one in rates], None),
        _row("", "p99 of small requests, µs", latencies, None),
        _row("", "p99 by that without", costs, HANDSHAKES_COST, digits=2),
    ]


@contextmanager
def _shaking(port: int) -> Iterator[Callable[[], float]]:
    """HANDSHAKES_PER_SECOND at that port; the function that is given says how many a second there were."""
    stop, done, began = threading.Event(), [0] * SHAKERS, time.monotonic()
    threads = [threading.Thread(target=_shake, args=(port, number, stop, done)) for number in range(SHAKERS)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(done) / (time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _shake(port: int, number: int, stop: threading.Event, done: list[int]) -> None:
    """One handshake after the other, at most at one thread's part of the rate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    due = time.monotonic()
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw):
            done[number] += 1
        due += SHAKERS / HANDSHAKES_PER_SECOND
        stop.wait(max(0.0, due - time.monotonic()))
