"""The faults themselves: each is a context in which the cluster suffers, and which heals it again.

Who is hit is decided from the slot's number and what the cluster looks like at that moment: the plan is the same for
a seed, what it meets is not.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.chaos.outages import without_zookeeper
from tests.cluster.chaos.schedule import Kind, Slot
from tests.cluster.chaos.successions import Successions
from tests.cluster.chaos.transaction_faults import TransactionFaults
from tests.cluster.chaos.working import split
from tests.cluster.chaos.world import BROKERS, World

GONE_SECONDS_MAX: Final = 10.0
"""From a kill until ZooKeeper has let go of the broker and its partitions of it: a session, and some more."""
FLAP_SECONDS: Final = 0.6
FLAP_SHARE: Final = 0.15
"""A bad link loses everything for this share of the time, or is as slow as this."""
SLOW_KILOBITS: Final = 2_000
HOUR_SECONDS: Final = 3_600
TORN_BYTES_MAX: Final = 400


class Faults:
    """What can be done to one world. `detail` says what was done last."""

    def __init__(self, world: World, successions: Successions) -> None:
        self._world = world
        self._network = world.network
        self._transactions = TransactionFaults(world, successions)
        self.detail = ""

    def inject(self, slot: Slot) -> AbstractContextManager[None]:
        """The slot's fault, for as long as the context lasts."""
        self.detail = ""
        return self._ways()[slot.kind](slot, random.Random(slot.choice))

    def _in_transaction(
        self, way: Callable[[random.Random], AbstractContextManager[str]]
    ) -> Callable[[Slot, random.Random], AbstractContextManager[None]]:
        @contextmanager
        def injected(slot: Slot, chance: random.Random) -> Iterator[None]:
            with way(chance) as self.detail:
                yield

        return injected

    def _ways(self) -> dict[Kind, Callable[[Slot, random.Random], AbstractContextManager[None]]]:
        return {
            Kind.KILL_LEADER: self._killing(lambda chance: {self._leader(chance)}),
            Kind.KILL_CONTROLLER: self._killing(lambda _: {self._world.controller()}),
            Kind.KILL_TWO: self._killing(lambda chance: set(chance.sample(BROKERS, 2))),
            Kind.KILL_ALL: self._killing(lambda _: set(BROKERS)),
            Kind.FREEZE_LEADER: self._freezing(self._leader),
            Kind.FREEZE_FOLLOWER: self._freezing(self._follower),
            Kind.LEADER_FROM_PEERS: self._cutting(lambda one: [str(peer) for peer in BROKERS if str(peer) != one]),
            Kind.LEADER_FROM_ZOOKEEPER: self._cutting(lambda _: ["zookeeper"]),
            Kind.LEADER_FROM_CLIENTS: self._cutting(lambda _: ["clients"]),
            Kind.ONE_WAY: self._one_way,
            Kind.BAD_LINK: self._bad_link,
            Kind.ELECTION: self._election,
            Kind.BAD_DISK: self._bad_disk,
            Kind.TORN: self._torn,
            Kind.CLOCK: self._clock,
            **{kind: self._in_transaction(way) for kind, way in self._transactions.ways().items()},
            Kind.ZOOKEEPER_AWAY: self._zookeeper_away,
            Kind.ZOOKEEPER_AWAY_AND_KILL: self._zookeeper_away,
        }

    def _leader(self, chance: random.Random) -> int:
        """The leader of some partition; any broker when there is no leader."""
        state = self._world.state(chance.choice(self._world.partitions))
        return chance.choice(BROKERS) if state is None or state.leader < 0 else state.leader

    def _follower(self, chance: random.Random) -> int:
        leader = self._leader(chance)
        return chance.choice([one for one in BROKERS if one != leader])

    def _killing(
        self, victims: Callable[[random.Random], set[int]]
    ) -> Callable[[Slot, random.Random], AbstractContextManager[None]]:
        @contextmanager
        def killing(slot: Slot, chance: random.Random) -> Iterator[None]:
            hit = victims(chance)
            self.detail = f"brokers {sorted(hit)}"
            for broker_id in hit:
                os.kill(self._world.brokers[broker_id].pid, signal.SIGKILL)
            for broker_id in hit:
                self._world.kill(broker_id)
            yield
            self._world.revive()

        return killing

    def _freezing(
        self, victim: Callable[[random.Random], int]
    ) -> Callable[[Slot, random.Random], AbstractContextManager[None]]:
        @contextmanager
        def freezing(slot: Slot, chance: random.Random) -> Iterator[None]:
            hit = victim(chance)
            self.detail = f"broker {hit}"
            process = self._world.brokers[hit].pid
            os.kill(process, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(process, signal.SIGCONT)

        return freezing

    def _cutting(
        self, others: Callable[[str], list[str]]
    ) -> Callable[[Slot, random.Random], AbstractContextManager[None]]:
        @contextmanager
        def cutting(slot: Slot, chance: random.Random) -> Iterator[None]:
            hit = str(self._leader(chance))
            self.detail = f"broker {hit}"
            for other in others(hit):
                self._network.cut_both(hit, other)
            yield
            self._network.heal()

        return cutting

    @contextmanager
    def _one_way(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        leader = self._leader(chance)
        other = chance.choice([one for one in BROKERS if one != leader])
        self.detail = f"from broker {leader} to {other}"
        self._network.cut(str(leader), str(other))
        yield
        self._network.heal()

    @contextmanager
    def _bad_link(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        hit = str(chance.choice(BROKERS))
        if chance.random() < 0.5:
            self.detail = f"to broker {hit} {SLOW_KILOBITS} kbit/s, what waits for more than 150 ms is lost"
            self._network.slow(hit, SLOW_KILOBITS)
            yield
        else:
            self.detail = f"broker {hit} is cut off for {FLAP_SHARE:.0%} of the time"
            self._flap(hit, slot.seconds)
            yield
        self._network.heal()

    def _flap(self, hit: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        others = [str(one) for one in BROKERS if str(one) != hit] + ["clients", "zookeeper"]
        while time.monotonic() < until:
            for other in others:
                self._network.cut_both(hit, other)
            time.sleep(FLAP_SECONDS * FLAP_SHARE)
            self._network.heal()
            time.sleep(FLAP_SECONDS * (1 - FLAP_SHARE))

    @contextmanager
    def _election(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        """Preferred leaders are elected, or others become preferred; the leader is killed meanwhile."""
        world, tree = self._world, self._world.tree
        hit = self._leader(chance)
        if slot.choice % 2:
            what = "/admin/preferred_replica_election"
            rows = [{"topic": topic, "partition": number} for topic, number in map(split, world.partitions)]
        else:
            what = "/admin/reassign_partitions"
            tps = chance.sample(world.partitions, 3)
            rows = [
                {"topic": topic, "partition": number, "replicas": chance.sample(BROKERS, len(BROKERS))}
                for topic, number in map(split, tps)
            ]
        self.detail = f"{what}, broker {hit} killed"
        if not tree.exists(what):
            tree.create(what, {"version": 1, "partitions": rows})
        time.sleep(chance.uniform(0.0, 0.3))
        world.kill(hit)
        yield
        world.revive()

    @contextmanager
    def _bad_disk(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        """What is to be synced is refused, or nothing can be written: the broker stops, or goes on when it can."""
        hit = self._leader(chance)
        calls, error = chance.choice([("fsync,fdatasync", "EIO"), ("pwrite64,pwritev", "ENOSPC")])
        self.detail = f"broker {hit}: {error} from {calls}"
        with self._traced(hit, f"{calls}:error={error}") as is_traced:
            if not is_traced:
                self.detail += "; there is no strace, it was killed"
                self._world.kill(hit)
            yield
        if self._world.brokers[hit].is_running:
            self.detail += "; it ran on and was killed"
        else:
            self.detail += "; it had stopped"
        self._world.kill(hit)
        self._world.revive()

    @contextmanager
    def _torn(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        """Killed when it next syncs or renames, and the end of a log damaged once the replica is out of sync."""
        hit = self._follower(chance)
        broker, world = self._world.brokers[hit], self._world
        with self._traced(hit, f"fsync,fdatasync,rename:signal=KILL:when={chance.randint(1, 4)}") as is_traced:
            yield
        self.detail = f"broker {hit} " + ("at a sync or rename" if is_traced and not broker.is_running else "killed")
        world.kill(hit)
        gone = world.wait_for(
            lambda: all((one := world.state(tp)) is not None and hit not in one.isr for tp in world.partitions),
            GONE_SECONDS_MAX,
        )
        if gone:
            self.detail += ", " + self._damage(broker.data_directory, chance)
        world.revive()

    def _damage(self, data: Path, chance: random.Random) -> str:
        tp = chance.choice(self._world.partitions)
        segment = max((data / tp).glob("*.log"))
        size = segment.stat().st_size
        less = min(size, chance.randint(1, TORN_BYTES_MAX))
        if chance.random() < 0.5 or not less:
            os.truncate(segment, size - less)
            return f"{tp} shorter by {less} bytes"
        with segment.open("r+b") as file:
            file.seek(size - less)
            (byte,) = file.read(1)
            file.seek(size - less)
            file.write(bytes([byte ^ (1 << chance.randrange(8))]))
        return f"a bit of {tp} turned {less} bytes before its end"

    @contextmanager
    def _traced(self, broker_id: int, inject: str) -> Iterator[bool]:
        """System calls of a running broker answered by strace; false when there is none."""
        strace = shutil.which("strace")
        if strace is None:
            yield False
            return
        calls = inject.partition(":")[0]
        broker = self._world.brokers[broker_id]
        words = [strace, "-f", "-qq", "-o", "/dev/null", "-p", str(broker.pid), "-e", f"trace={calls}"]
        tracer = subprocess.Popen([*words, "-e", f"inject={inject}"], stderr=subprocess.DEVNULL)
        try:
            yield True
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10)

    @contextmanager
    def _clock(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        hit, seconds = chance.choice(BROKERS), chance.choice([-HOUR_SECONDS, HOUR_SECONDS])
        self.detail = f"broker {hit} by {seconds} s"
        self._world.brokers[hit].shift_clock(seconds)
        yield
        self._world.brokers[hit].shift_clock(0)

    @contextmanager
    def _zookeeper_away(self, slot: Slot, chance: random.Random) -> Iterator[None]:
        """Who is to be killed is chosen before, since there is no telling who leads while ZooKeeper is away."""
        hit = self._leader(chance) if slot.kind is Kind.ZOOKEEPER_AWAY_AND_KILL else None
        way = without_zookeeper(self._world, chance, slot.seconds, hit)
        self.detail = f"{way} for {slot.seconds:g} s" + (f", broker {hit} killed" if hit is not None else "")
        yield
        self._world.revive()
