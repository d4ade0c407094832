"""Three brokers on virtual time and simulated sockets: what one record of a producer costs each of them.

Broker 1 leads behind the production server, channels and handlers; brokers 2 and 3 follow with the production fetchers
and connections. Each is a `LoopProcess`, so whatever runs knows whose it is. `CallCounter` counts the Python calls of the
package by process, and those of its ports; the loop's own are left out, because production runs on uvloop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from sordini.broker.cluster.peers.broker_client import BrokerClients
from sordini.broker.cluster.store_contact import NO_DOUBT
from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.server import SocketServer
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.prepared.produce import ProduceDeps, ProducePreparer
from sordini.broker.records.produce_handler import ProduceHandler, RecordChecks
from sordini.broker.records.schemas.schema_check import SchemaCheck
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.verification import TransactionGate
from sordini.client.async_connection import AsyncConnection
from sordini.client.connection import ClientConnection
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.fetcher_manager import ReplicaFetcherManager
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.partition_deps import Peers
from sordini.replication.replica_set import ReplicaSet, ReplicaSetDeps
from sordini.testing.brokers.loop_processes import LoopProcess, current_process
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from sordini.testing.simulation.simulated_network import SimNetwork
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse
from tests.support.fake_ports import ListLog, WarmCache
from tests.support.inline_record_jobs import RecordsHere
from tests.support.partitions import SETTINGS, logs_on
from tests.support.profiled import BESIDE, is_ours, profiled
from tests.support.replica_pair import LeaderSide, topic_id_of, unlimited

LEADER, SECOND, THIRD = ALL = tuple(BrokerId(number) for number in (1, 2, 3))
NAME = TopicPartition("orders", 0)
ADDRESS = ("leader.example", 9092)
SMOOTH = LinkRules(delay_mean=0.0003, delay_least=0.0002, tail_chance=0.0, short_chance=0.0)
PRODUCE_VERSION = 11


class NoCoordinator:
    """A `TransactionVerifier` where nothing has to be verified: no producer here has transactions."""

    def ask(self, question: object) -> None:
        raise AssertionError(f"not expected: {question}")


class CallCounter:
    """Python calls by process, of functions of the package and of the ports that these call."""

    def __init__(self) -> None:
        self.calls: dict[str, Counter[str]] = {}

    def total(self, process: LoopProcess) -> int:
        return self.calls.get(process.name, Counter()).total()

    def counting(self) -> AbstractContextManager[None]:
        return profiled(self._on_event)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        caller = frame.f_back
        is_port = caller is not None and is_ours(caller.f_code) and frame.f_code.co_filename.startswith(BESIDE)
        if is_port or is_ours(frame.f_code):
            process = current_process()
            if process is not None:
                self.calls.setdefault(process.name, Counter())[frame.f_code.co_qualname] += 1


class ReplicatedPartition:
    """A partition, or some, with three replicas, all in sync, and a producer's connection to the leader of all."""

    def __init__(self, loop: SimLoop, partitions: int = 1) -> None:
        self.names = [NAME._replace(partition=index) for index in range(partitions)]
        self.loop = loop
        self.clock = SimClock(loop)
        self.network = SimNetwork(loop, Trace(loop), 0, SMOOTH)
        self.processes = {broker_id: LoopProcess(f"broker {broker_id}", loop) for broker_id in ALL}
        self.replicas: dict[BrokerId, ReplicaSet] = {}
        self.log = ListLog()

    async def start(self) -> None:
        await self.processes[LEADER].spawn(self._start_leader())
        for broker_id in (SECOND, THIRD):
            await self.processes[broker_id].spawn(self._start_follower(broker_id))
        await elapse(0.1)

    async def _start_leader(self) -> None:
        side = self.side = LeaderSide(LEADER, self.clock)
        loop, later = asyncio.get_running_loop(), side.dispatcher.respond_later
        jobs = JobQueue(RecordsHere(), lambda: 2, lambda: 2**20, side.log)
        gate = TransactionGate(NoCoordinator(), lambda: True)
        schemas = SchemaCheck(
            "_schemas",
            MetadataCache("cluster"),
            BrokerClients(self.network, lambda _: None),
            self.clock.monotonic_ms,
            side.log,
            jobs,
        )
        checks = RecordChecks(jobs, schemas)
        produce = ProduceHandler(side.leaders, self.clock, later, loop.call_later, gate, checks)
        side.dispatcher.add([produce.route()])
        prepared = ProduceDeps(self.clock.now_ms, loop.call_later, gate.admits_at_once, NO_DOUBT, side.leaders)
        side.dispatcher.prepared.preparers[ApiKey.PRODUCE] = ProducePreparer(prepared)
        server = SocketServer(
            self.network, side.dispatcher, self.clock, WarmCache(), side.log, NetworkLimits(), ConnectionLimits()
        )
        server.bind([Listener("PLAINTEXT", *ADDRESS)])
        server.start()
        self.server = loop.create_task(server.run())
        self.replicas[LEADER] = side.replicas
        self._assign(side.replicas)

    async def _start_follower(self, broker_id: BrokerId) -> None:
        links = BrokerClients(self.network, lambda _: ADDRESS)
        versions = versions_for((3, 9), 0)
        deps = FetcherDeps(broker_id, lambda: 4711, versions, FetchSettings(), unlimited(), self.clock, self.log)
        spawn = asyncio.get_running_loop().create_task
        set_deps = ReplicaSetDeps(
            settings_of=lambda _: SETTINGS,
            exists=lambda _topic, _index: True,
            name_of=self.side.topics.get,
            now_ms=self.clock.now_ms,
            monotonic_ms=self.clock.monotonic_ms,
            log=self.log,
            peers=Peers(),
            fetchers=ReplicaFetcherManager(deps, links, spawn),
        )
        self.replicas[broker_id] = ReplicaSet(broker_id, logs_on(ForgetfulDisk()), set_deps)
        self._assign(self.replicas[broker_id])

    def _assign(self, replicas: ReplicaSet) -> None:
        self.side.topics[topic_id_of(NAME.topic)] = NAME.topic
        state = PartitionState(LEADER, LeaderEpoch(0), ALL, 1)
        for name in self.names:
            info = PartitionInfo(name, topic_id_of(NAME.topic), ALL, state, 0, is_new=True)
            replicas.become_leader_or_follower(info)

    async def connect(self) -> AsyncConnection:
        """A client's connection; the client belongs to no process."""
        return AsyncConnection(await self.network.connect(ADDRESS), ClientConnection("client", 2**20))

    async def settled(self) -> None:
        """Every replica has everything, and the followers' next fetches wait in the purgatory."""
        async with asyncio.timeout(5):
            for name in self.names:
                logs = [self.replicas[broker_id].partition(*name).log for broker_id in ALL]
                waiting = self.replicas[LEADER].partition(*name).log_end_waiters.purgatory
                while len({log.log_end_offset for log in logs}) > 1 or len(waiting) < 2:
                    await elapse(0.0005)

    async def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        await elapse(0.01)


def produce(batch: bytes, index: int = 0) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=memoryview(bytearray(batch)))]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=NAME.topic, partition_data=rows)]
    )
