"""One run: a seed's plan carried out under load, everything written down, then judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

from tests.cluster.chaos.checker import violations, what_is_missing
from tests.cluster.chaos.endings import STOP_SECONDS_MAX, stop_clients
from tests.cluster.chaos.events import INFO, Fault, Found, Full, History, Load, read
from tests.cluster.chaos.faults import Faults
from tests.cluster.chaos.files import later_epochs, left_by
from tests.cluster.chaos.laws import counted_duplicates, refused
from tests.cluster.chaos.network import Namespaces, Network, NoNetworkError
from tests.cluster.chaos.outage_laws import Service, services
from tests.cluster.chaos.proxies import Proxies
from tests.cluster.chaos.reader import AGAIN, LAST
from tests.cluster.chaos.replica_laws import FULL_SECONDS_MAX, first_acknowledgements, silences
from tests.cluster.chaos.schedule import AFTER_SECONDS, Slot, plan
from tests.cluster.chaos.security_laws import refusals
from tests.cluster.chaos.successions import Successions
from tests.cluster.chaos.transaction_laws import COPY_SOURCE, Tally, tally
from tests.cluster.chaos.world import BROKERS, IN_TRANSACTIONS, Watcher, World, partitions_of, processor_seconds
from tests.cluster.security import GUEST

NODES: Final = (*(str(one) for one in BROKERS), "zookeeper", "clients")
WRITERS: Final = 2
WRITES_PER_SECOND: Final = 500
"""Of each writer; the raw client adds a few, transactions some more."""
RAW_PER_SECOND: Final = 100
TRANSACTIONAL: Final = ("x1", "x2")
TRANSACTIONAL_PER_SECOND: Final = 60
"""Records of each transactional producer."""
COPYING: Final = ("c1", "c2")
LATE: Final = "late"
UNAUTHORIZED_PER_SECOND: Final = 10
LATE_PER_SECOND: Final = 2
"""Rounds of two transactions of the producer whose requests come too late."""
Say = Callable[[str], None]


class Outcome(NamedTuple):
    """What a run came to; times in seconds."""

    seed: int
    minutes: float
    slots: list[Fault]
    offered: int
    acknowledged: int
    unclear: int
    refused: int
    polled: int
    duplicates_allowed: int
    first_acks: list[float]
    silences: list[float]
    """Of each slot, the longest time without an acknowledged record of some partition."""
    outages: list[Service]
    transactions: Tally
    cores: float
    full: float
    refusals: dict[str, int]
    """How many requests of the unauthorized client were refused, by the way in which it connected."""
    clients: list[str]
    broken: list[str]


def run(
    seed: int, minutes: float, directory: Path, say: Say, *, behind_proxies: bool = False, secured: bool = False
) -> Outcome:
    """One seed from the first broker to the judgement; everything it writes is in the folder.

    When it is `secured`, there are TLS, users and access control, certificates are replaced, and an
    unauthorized client sends requests.
    """
    network = _network(say, behind_proxies=behind_proxies)
    try:
        world = World(directory, network, secured=secured)
        with world.running():
            _suffer(world, plan(seed, minutes), minutes, say)
            _finish(world)
    finally:
        network.close()
    return judged(seed, minutes, directory, secured=secured)


def _network(say: Say, *, behind_proxies: bool) -> Network:
    if behind_proxies:
        return Proxies()
    try:
        return Namespaces(NODES)
    except NoNetworkError as problem:
        say(f"{problem}; proxies stand between the nodes instead")
        return Proxies()


def _suffer(world: World, slots: list[Slot], minutes: float, say: Say) -> None:
    """The plan, under load; returns when all is quiet and in sync, or has had its time."""
    successions = Successions(world)
    faults = Faults(world, successions)
    _start_clients(world, successions)
    began, used, renewed = time.monotonic(), processor_seconds(world), cycle(BROKERS)
    with Watcher(world):
        for slot in slots:
            _wait_until(began + slot.at)
            t0 = time.monotonic()
            with faults.inject(slot):
                _wait_until(t0 + slot.seconds)
            world.recorder.note(Fault(slot.kind.name, t0, time.monotonic(), faults.detail))
            world.recorder.flush()
            say(f"{t0 - began:6.1f} s  {slot.kind.value}: {faults.detail} ({time.monotonic() - t0:.1f} s)")
            _check_brokers(world)
            if world.security is not None:
                world.security.renew(next(renewed))
        healed = time.monotonic()
        full = world.wait_for(world.is_full, FULL_SECONDS_MAX)
        world.recorder.note(Full(time.monotonic() - healed if full else -1.0))
        _wait_until(max(began + minutes * 60, healed + AFTER_SECONDS))
        world.recorder.note(Load((processor_seconds(world) - used) / (time.monotonic() - began)))
        stop_clients(world)
        _settle(world)


def _start_clients(world: World, successions: Successions) -> None:
    for number in range(1, WRITERS + 1):
        world.start_client("writer", f"w{number}", world.plain, per_second=WRITES_PER_SECOND)
    others = [tp for tp in world.partitions if tp not in world.plain]
    world.start_client("raw_client", "raw", world.plain, per_second=RAW_PER_SECOND, others=others)
    world.start_client("reader", "r1", world.partitions)
    world.start_client("reader", AGAIN, others)
    for number in (1, 2):
        world.start_client("member", f"m{number}", world.plain)
    written = partitions_of(IN_TRANSACTIONS)
    for name in TRANSACTIONAL:
        successions.start("transactor", name, written, per_second=TRANSACTIONAL_PER_SECOND)
    for name in COPYING:
        successions.start("copier", name, partitions_of([COPY_SOURCE]))
    world.start_client("late_client", LATE, written, per_second=LATE_PER_SECOND, transactional_id=LATE)
    if world.security is not None:
        guest = world.security.client_settings(GUEST)
        orders = {"per_second": UNAUTHORIZED_PER_SECOND, "transactional_id": TRANSACTIONAL[0], "security": guest}
        world.start_client("unauthorized_client", GUEST, world.partitions, **orders)


def _wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _check_brokers(world: World) -> None:
    """Nobody ends by himself."""
    for broker_id, broker in world.brokers.items():
        if not broker.is_running:
            world.recorder.note(Found("I14", f"broker {broker_id} ended by itself\n{broker.tail()}"))
            world.revive()
    for name, client in world.clients.items():
        if not client.is_running:
            world.recorder.note(Found("client", f"{name} ended by itself\n{client.tail()}"))
    world.clients = {name: client for name, client in world.clients.items() if client.is_running}


def _settle(world: World) -> None:
    """What was sent last is on all replicas, too."""
    world.wait_for(world.is_settled, FULL_SECONDS_MAX)


def _finish(world: World) -> None:
    """Everything is read once more, the brokers stop, and their files are read."""
    for module, partitions in (("reader", world.partitions), ("member", world.plain)):
        client = world.start_client(module, LAST, partitions)
        if status := client.wait_for_exit(STOP_SECONDS_MAX):
            world.recorder.note(Found("client", f"the last {module} ended with {status}\n{client.tail()}"))
    world.clients.clear()
    for tp in [*world.partitions, *world.internal]:
        if (state := world.state(tp)) is not None:
            world.recorder.note(state)
    for broker in world.brokers.values():
        broker.terminate()
    taken: set[tuple[int, int]] = set()
    for broker_id, broker in world.brokers.items():
        if status := broker.wait_for_exit(STOP_SECONDS_MAX):
            world.recorder.note(Found("I14", f"broker {broker_id} stops with {status}\n{broker.tail()}"))
        for tp in [*world.partitions, *world.internal]:
            for event in left_by(broker_id, broker.data_directory, tp):
                world.recorder.note(event)
            taken.update(later_epochs(broker.data_directory, tp))
    for producer_id, epoch in sorted(taken):
        # What was open then is written again: of that, some may be there twice.
        world.recorder.note(Found("client", f"producer {producer_id} could not go on and took epoch {epoch}"))


def judged(seed: int, minutes: float, directory: Path, *, secured: bool = False) -> Outcome:
    """The judgement of what a run left in its folder; it can be asked for again."""
    history = History(read(sorted(directory.glob("*.jsonl*"))))
    broken = [line for line in violations(history) if not line.startswith("client ")]
    broken += what_is_missing(history, len(plan(seed, minutes)), minutes, secured=secured)
    return Outcome(
        seed,
        minutes,
        sorted(history.faults, key=lambda one: one.t0),
        len(history.written),
        history.acknowledged_count,
        sum(one.result == INFO for one in history.sends),
        refused(history),
        sum(len(one.recs) for one in history.polls),
        counted_duplicates(history),
        first_acknowledgements(history),
        silences(history),
        services(history),
        tally(history),
        history.loads[-1].cores if history.loads else 0.0,
        history.fulls[-1].seconds if history.fulls else -1.0,
        dict(refusals(history)),
        [one.detail for one in history.founds if one.law == "client"],
        broken,
    )
