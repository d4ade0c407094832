"""What TLS and access control cost, and what handshakes do to the others, beside Apache Kafka.

Rates are records per second of the broker's CPU, so that they say the same on a busy machine. What TLS costs is
measured at one broker with a plaintext and a TLS listener (TLS 1.3, an ECDSA key), in turns. Access control is on or
off for a whole process, and two processes alike differ by some percent all their lives: so its cost is the median of
several pairs, each started anew, one with an authorizer and entries for the topics that are used. The handshakes are
with a key of RSA-2048, on a listener of their own; their clients run where a processor has nothing else to do, since
they stand for other machines.
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
from uuid import uuid4

from bench import sides, starting, table
from bench.clusters import Labels
from bench.goals import Goal, at_least, ours_at_most, summary
from bench.sides import Say
from bench.works import Bench, Figures, Work, settle
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.outside.java import ZooKeeperProcess
from tests.outside.ports import free_port
from tests.outside.processes import BrokerProcess
from tests.support.certificates import Authority, java_store_settings
from tests.support.wire_client import Client

PART: Final = "security"
ROUNDS_MAX: Final = 5
PAIRS: Final = 3
ROUNDS_OF_PAIRS: Final = 3
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
OF_PAIRS: Final = Extent(3_000_000, 20_000, 4)
QUICK: Final = Extent(10_000, 200, 1)


class Listeners(NamedTuple):
    """Those of the broker with TLS."""

    plain: Place
    tls: Place
    rsa_port: int


class Pair(NamedTuple):
    """Two brokers that differ in access control alone."""

    open: Place
    guarded: Place


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
        starts = list(pair._asdict().items())
        with ExitStack() as serving:
            both = [serving.enter_context(_with_tls(directory / name, side)) for name, side in starts]
            for work in _works(extent):
                found += _tls(work, both, rounds, extent, say)
            found += _handshakes(both, rounds, extent, say)
        homes = [(directory / name, side) for name, side in starts]
        found += _access_control(homes, 1 if quick else PAIRS, QUICK if quick else OF_PAIRS, say)
    say(summary(found))
    return found


def note(rounds: int) -> str:
    pairs = f"of access control, of {PAIRS} pairs with {ROUNDS_OF_PAIRS} rounds each"
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {min(rounds, ROUNDS_MAX)} rounds; {pairs}. Again: {again}."


@contextmanager
def _with_tls(home: Path, side: sides.Side) -> Iterator[Listeners]:
    """A broker of one side with listeners of all kinds."""
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
    opened = side.start(home / f"tls-{uuid4().hex[:8]}", settings)
    _listen(opened, f"PLAINTEXT://{opened.bootstrap},SSL://127.0.0.1:{port},RSA://127.0.0.1:{rsa_port}")
    starting.timed_start(opened, watch_idle=False)
    try:
        bench = Bench("tls", opened)
        yield Listeners(
            Place(opened.bootstrap, opened.pid, bench), Place(f"127.0.0.1:{port}", opened.pid, bench, ca), rsa_port
        )
    finally:
        opened.stop()


@contextmanager
def _pair(home: Path, side: sides.Side) -> Iterator[Pair]:
    """Two brokers of one side, one of them with an authorizer."""
    home.mkdir()
    guarding: dict[str, object] = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    # Each in a part of ZooKeeper's tree of its own, which is named like its directory.
    directories = [home / f"{name}-{uuid4().hex[:8]}" for name in ("open", "guarded")]
    brokers = [side.start(*one) for one in zip(directories, ({}, guarding), strict=True)]
    with ExitStack() as running:
        for process in brokers:
            starting.timed_start(process, watch_idle=False)
            running.callback(process.stop)
        _allow(brokers[1])
        yield Pair(*(Place(one.bootstrap, one.pid, Bench("pair", one)) for one in brokers))


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
        self.place, self.work, self._bench = place, work, place.bench
        self.seen: list[Figures] = []
        with _as_client(place):
            self._topic = self._bench.filled_topic(extent.batched) if work.kind == "consume" else ""
            settle(self.measure, runs_max=extent.runs_to_settle)
        self.seen.clear()

    def measure(self) -> Figures:
        with _as_client(self.place):
            found = (
                self._bench.measure(self.work, self._topic) if self._topic else self._bench.measure_afresh(self.work)
            )
        self.seen.append(found)
        return found

    def middle(self, name: str) -> float:
        return float(median(getattr(one, name) for one in self.seen))

    def per_cpu_second(self) -> float:
        return 1e6 / self.middle("cpu_us")


def _in_turns(measured: Sequence[_Measured], rounds: int, say: Say) -> None:
    for _ in range(rounds):
        for one in measured:
            figures = one.measure()
            say(f"{one.work.name}, {one.place.bootstrap}: {figures.per_second:,.0f}/s, CPU {figures.cpu_us:.2f} µs")


def _tls(work: Work, brokers: Sequence[Listeners], rounds: int, extent: Extent, say: Say) -> list[str]:
    both = [[_Measured(place, work, extent) for place in (one.plain, one.tls)] for one in brokers]
    _in_turns([one for side in both for one in side], rounds, say)
    unit = "requests" if work.is_single else "records"
    rates = [tls.per_cpu_second() for _, tls in both]
    found = [_row(f"TLS: {work.name}", f"{unit} per CPU second", rates, AS_MUCH)]
    if work.is_single:
        found.append(_row("", "p99, µs", [tls.middle("p99_us") for _, tls in both], None))
    costs = [tls.middle("cpu_us") / plain.middle("cpu_us") for plain, tls in both]
    found.append(_row("", "CPU by that without TLS", costs, None, digits=2))
    return found


def _access_control(homes: Sequence[tuple[Path, sides.Side]], pairs: int, extent: Extent, say: Say) -> list[str]:
    works = _works(extent)
    costs: list[list[list[float]]] = [[[] for _ in homes] for _ in works]
    for number in range(pairs):
        for which, (home, side) in enumerate(homes):
            with _pair(home / f"pair-{number}", side) as pair:
                for work, seen in zip(works, costs, strict=True):
                    opened, guarded = both = [_Measured(place, work, extent) for place in pair]
                    _in_turns(both, ROUNDS_OF_PAIRS, say)
                    seen[which].append(guarded.middle("cpu_us") / opened.middle("cpu_us"))
                    say(f"access control, {work.name}, pair {number + 1} of {side.label}: {seen[which][-1]:.3f}")
    return [
        _row(f"access control: {work.name}", "CPU by that without", [median(one) for one in seen], ACLS_COST, digits=3)
        for work, seen in zip(works, costs, strict=True)
    ]


def _row(work: str, figure: str, values: Sequence[float], goal: Goal | None, *, digits: int = 0) -> str:
    theirs, ours = values
    return table.judged_row(work, figure, theirs, ours, goal, digits=digits)


def _handshakes(brokers: Sequence[Listeners], rounds: int, extent: Extent, say: Say) -> list[str]:
    """Small requests of one plaintext client, alone and beside handshakes at the RSA listener."""
    work = Work("one record per request, 1 in flight", "single", extent.singles)
    alone = [_Measured(one.plain, work, extent) for one in brokers]
    beside = [_Measured(one.plain, work, extent) for one in brokers]
    rates: list[list[float]] = [[], []]
    for _ in range(rounds):
        for number, one in enumerate(brokers):
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
    os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
    due = time.monotonic()
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw):
            done[number] += 1
        due += SHAKERS / HANDSHAKES_PER_SECOND
        stop.wait(max(0.0, due - time.monotonic()))
