"""A scripted controller: an actor beside the store that holds /controller, elects cleanly, and commands brokers roughly.

It is correct and adverse. Every state it writes is one that a correct controller may write: leaders come from the
in-sync set, epochs rise, in-sync sets change only on the state they were decided on. But it elects without need, sees
failures late, raises the controller epoch while commands of the old one are in flight, and its commands arrive late,
twice and again much later (`delivery.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import random

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import Broker, PartitionState
from sordini.replication.inter_broker_versions import InterBrokerVersions
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_network import Address
from sordini.testing.simulation.trace import Trace
from tests.sim.client import ClientNetwork
from tests.sim.cluster.commands import LISTENER, ReportedState, Sender, leader_and_isr, stop_replica, update_metadata
from tests.sim.cluster.delivery import Command, Delivery, Roughness
from tests.sim.cluster.leaderships import Leaderships
from tests.sim.cluster.states import States

CONTROLLER_ID = 100
CONTROLLER: Address = ("controller", 9092)


@dataclasses.dataclass(slots=True)
class Whims:
    """Unneeded actions of this controller: mean seconds between whims (0: none), and chances."""

    gap_mean: float = 1.2
    look_max: float = 0.3
    drops_dead_chance: float = 0.5
    """Of a follower whose session ended: it is taken out of the in-sync set by an election."""
    newcomer_chance: float = 0.2
    """Of a replica that has just joined the in-sync set: it is made the leader at once."""


class ScriptedController:
    """Polls the store and acts on it, until its process ends."""

    def __init__(
        self,
        process: LoopProcess,
        network: ClientNetwork,
        trace: Trace,
        states: States,
        versions: InterBrokerVersions,
        seed: int,
        listener: str = LISTENER,
    ) -> None:
        """`network` is where its connections come from, `listener` the one of all brokers."""
        self._listener = listener
        self.states = states
        self.whims = Whims()
        self.roughness = Roughness()
        self.versions = versions
        self.leaders: dict[tuple[TopicPartition, int], BrokerId] = {}
        """The elected leader by leader epoch."""
        self.leaderships = {partition: Leaderships() for partition in states.replicas}
        self.shutting_down: set[int] = set()
        self.elections = 0
        self._process = process
        self._network = network
        self._trace = trace
        self._seed = seed
        self._random = random.Random(f"controller {seed}")
        self._epoch = 1
        self._known: dict[int, Broker] = {}
        self._deliveries: dict[int, Delivery] = {}
        self._serial = 0
        self._waits_until = 0.0

    async def run(self, brokers_count: int) -> None:
        """Create the partitions once all brokers are registered, and control them."""
        while len(self.states.live()) < brokers_count:  # noqa: ASYNC110 - an actor that looks now and then.
            await asyncio.sleep(0.05)
        self.look()
        self._create_all()
        next_whim = self._next_whim()
        while True:
            await asyncio.sleep(self._random.uniform(0.01, self.whims.look_max))
            if self._network.loop.time() < self._waits_until:
                continue
            self.look()
            if self.whims.gap_mean and self._network.loop.time() >= next_whim:
                self._have_a_whim()
                next_whim = self._next_whim()

    def wait(self, seconds: float) -> None:
        """See nothing and change nothing for a while, as a controller that is cut off from the store."""
        self._waits_until = max(self._waits_until, self._network.loop.time() + seconds)

    def calm_down(self) -> None:
        """From now on no whims and no faulty deliveries; all brokers are sent the full state again."""
        self.whims.gap_mean = self.whims.newcomer_chance = 0.0
        self.whims.look_max = 0.1
        self.roughness.smooth()
        self._term()

    def is_settled(self) -> bool:
        """Whether every partition has a leader and all replicas in sync, and all commands are answered."""
        return all(
            reported.state.leader is not None and set(reported.state.isr) == set(reported.replicas)
            for reported in self.states.all()
        ) and all(delivery.is_idle() for delivery in self._deliveries.values())

    def live(self) -> dict[int, Broker]:
        """The brokers as this controller knows them."""
        return self._known

    # Polling.

    def look(self) -> None:
        """Read the registrations, and act on changes."""
        live = self.states.live()
        gone = [number for number, broker in self._known.items() if live.get(number) != broker]
        came = [number for number, broker in live.items() if self._known.get(number) != broker]
        self._known = live
        for number in gone:
            self._trace.note("controller: gone", number)
            self.shutting_down.discard(number)
            self._deliveries.pop(number).close()
        for number in came:
            self._trace.note("controller: came", number, live[number].epoch)
            self._deliver_to(number)
        if self.states.take_isr_changes():
            self.tell_metadata(self.states.all())
        if gone or came:
            self._tend(gone, came)

    def _tend(self, gone: list[int], came: list[int]) -> None:
        everything = self.states.all()
        # New brokers get the full state; others the new set of brokers.
        for number in self._known:
            self._tell_metadata_to(number, everything if number in came else [])
        changed: list[ReportedState] = []
        for reported in everything:
            leader = reported.state.leader
            if leader is None or leader not in self._known or leader in gone:
                elected = self._elect(reported)
            elif set(gone) & set(reported.state.isr) and self._random.random() < self.whims.drops_dead_chance:
                kept = tuple(member for member in reported.state.isr if member in self._known)
                elected = self._change(reported, leader, kept)
            else:
                elected = None
            if elected is not None:
                changed.append(elected)
        self._command(changed)
        done = {reported.partition for reported in changed}
        for number in came:
            rest = [
                reported
                for reported in self.states.all()
                if reported.partition not in done and number in reported.replicas
            ]
            self._lead_and_follow(number, rest)

    # Deciding.

    def _elect(self, reported: ReportedState, avoid: int = -1) -> ReportedState | None:
        """A leader out of the live in-sync replicas, or no leader if there is none. None when the state is that already."""
        able = [member for member in reported.state.isr if member in self._known and member not in self.shutting_down]
        others = [member for member in able if member != avoid]
        if others:
            kept = tuple(member for member in reported.state.isr if member in self._known)
            return self._change(reported, self._random.choice(others), kept)
        if able or reported.state.leader is None:
            return None
        return self._change(reported, None, reported.state.isr)

    def _change(self, reported: ReportedState, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> ReportedState:
        assert isr, f"the in-sync set would be empty in {reported.partition}"
        epoch = LeaderEpoch(reported.state.leader_epoch + 1)
        changed = self.states.change(reported, PartitionState(leader, epoch, isr, self._epoch))
        self._trace.note("controller: elected", reported.partition, leader, epoch, *isr)
        self.leaderships[reported.partition].elected(self._network.loop.time(), epoch, leader)
        self.elections += 1
        if leader is not None:
            self.leaders[reported.partition, epoch] = leader
        return changed

    def _have_a_whim(self) -> None:
        everything = self.states.all()
        reported = self._random.choice(everything)
        kind = self._random.choice(("again", "move", "move", "swing", "swing", "failover", "resend", "stop"))
        self._trace.note("controller: whim", kind, reported.partition)
        state = reported.state
        if kind == "again" and state.leader in self._known:
            self._command([self._change(reported, state.leader, state.isr)])
        elif kind == "move" and state.leader is not None:
            moved = self._elect(reported, avoid=state.leader)
            self._command([] if moved is None else [moved])
        elif kind == "swing" and state.leader is not None:
            moved = self._elect(reported, avoid=state.leader)
            self._command([] if moved is None else [moved])
            self._process.spawn(self._move_back(reported.partition, state.leader, self._random.uniform(0.1, 1.2)))
        elif kind == "failover":
            self._term()
        elif kind == "resend":
            self._command(everything)
        elif kind == "stop":
            self._stop_and_go_on(reported)

    async def _move_back(self, partition: TopicPartition, leader: BrokerId, seconds: float) -> None:
        """The former leader leads again, while requests of its former term may still wait."""
        await asyncio.sleep(seconds)
        reported = self.states.reported(partition)
        is_able = leader in self._known and leader not in self.shutting_down
        if self.whims.gap_mean and reported is not None and is_able and leader in reported.state.isr:
            self._command([self._change(reported, leader, reported.state.isr)])

    def _stop_and_go_on(self, reported: ReportedState) -> None:
        """A follower gets StopReplica, and later, by a new election, follows again."""
        followers = [
            number for number in reported.replicas if number != reported.state.leader and number in self._known
        ]
        if not followers or reported.state.leader not in self._known:
            return
        number = self._random.choice(followers)
        message = stop_replica(self._sender(), self._known[number].epoch, [reported])
        self._deliveries[number].send(Command(ApiKey.STOP_REPLICA, self.versions.stop_replica, message))
        if self._random.random() < 0.5:
            kept = tuple(member for member in reported.state.isr if member != number)
            reported = self._change(reported, reported.state.leader, kept)
        else:
            reported = self._change(reported, reported.state.leader, reported.state.isr)
        self._command([reported])

    def _term(self) -> None:
        """Another controller takes over, with all epochs unchanged; commands of the old one still arrive."""
        self._epoch = self.states.next_controller_epoch()
        for number in list(self._deliveries):
            self._deliver_to(number)
        everything = self.states.all()
        for number in self._known:
            self._tell_metadata_to(number, everything)
        self._command(everything)
        # As after a failover: leaders that are not live are replaced.
        self._command(
            [elected for reported in everything if reported.state.leader is None and (elected := self._elect(reported))]
        )

    def _create_all(self) -> None:
        made = []
        for partition, replicas in sorted(self.states.replicas.items()):
            made.append(self.states.create(partition, replicas[0], replicas, self._epoch))
            self.leaders[partition, 0] = replicas[0]
        self._command(made, is_new=True)

    # Requests of brokers.

    def altered(self, reported: ReportedState, isr: tuple[BrokerId, ...]) -> ReportedState:
        """An AlterPartition was granted."""
        state = reported.state._replace(isr=isr, controller_epoch=self._epoch)
        changed = self.states.change(reported, state)
        self._trace.note("controller: in sync", reported.partition, *isr)
        self.tell_metadata([changed])
        newcomers = [member for member in isr if member not in reported.state.isr]
        if newcomers and self._random.random() < self.whims.newcomer_chance:
            self._command([self._change(changed, newcomers[0], isr)])
        return changed

    def shut_down(self, number: int) -> list[TopicPartition]:
        """A controlled shutdown; returns the partitions that no other broker can lead."""
        self.shutting_down.add(number)
        changed, remaining = [], []
        for reported in self.states.all():
            if reported.state.leader != number:
                continue
            kept = tuple(member for member in reported.state.isr if member in self._known and member != number)
            able = [member for member in kept if member not in self.shutting_down]
            if able:
                changed.append(self._change(reported, self._random.choice(able), kept))
            else:
                remaining.append(reported.partition)
        self._command(changed)
        return remaining

    # Sending.

    def tell_metadata(self, reported: list[ReportedState]) -> None:
        for number in self._known:
            self._tell_metadata_to(number, reported)

    def _command(self, changed: list[ReportedState], *, is_new: bool = False) -> None:
        if not changed:
            return
        for number in self._known:
            concerned = [reported for reported in changed if number in reported.replicas]
            self._lead_and_follow(number, concerned, is_new=is_new)
            self._tell_metadata_to(number, changed)

    def _lead_and_follow(self, number: int, reported: list[ReportedState], *, is_new: bool = False) -> None:
        if reported:
            epoch, addresses = self._known[number].epoch, self._addresses()
            message = leader_and_isr(self._sender(), epoch, reported, self.states.ids, addresses, is_new=is_new)
            self._deliveries[number].send(Command(ApiKey.LEADER_AND_ISR, self.versions.leader_and_isr, message))

    def _tell_metadata_to(self, number: int, reported: list[ReportedState]) -> None:
        message = update_metadata(
            self._sender(), self._known[number].epoch, reported, self.states.ids, self._addresses(), self._listener
        )
        self._deliveries[number].send(Command(ApiKey.UPDATE_METADATA, self.versions.update_metadata, message))

    def _addresses(self) -> dict[int, Address]:
        """Of all live brokers, and of this controller, which brokers have to find."""
        own = {CONTROLLER_ID: CONTROLLER}
        return own | {number: broker.endpoints[0][1:3] for number, broker in sorted(self._known.items())}

    def _sender(self) -> Sender:
        return Sender(CONTROLLER_ID, self._epoch)

    def _deliver_to(self, number: int) -> None:
        self._serial += 1
        address = self._known[number].endpoints[0][1:3]
        name = f"controller-{self._seed}-{number}-{self._serial}"
        self._deliveries[number] = Delivery(self._network, self._process, address, self.roughness, name)

    def _next_whim(self) -> float:
        gap = self.whims.gap_mean
        return self._network.loop.time() + (self._random.expovariate(1 / gap) if gap else 0.0)
