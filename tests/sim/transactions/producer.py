"""A transactional id, and the producers that use it one after the other, sometimes at the same time.

A producer fails in the middle of a transaction, and its successor's InitProducerId ends what is open. Or it does not
fail but continues beside its successor, until a fence stops it. Or it pauses for longer than its transaction may take.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from sordini.testing.simulation.virtual_loop import SimClock
from tests.sim.client import ClientNetwork
from tests.sim.cluster.leaders import Leaders
from tests.sim.history import History, Send
from tests.sim.transactions import requests
from tests.sim.transactions.client import Client, Coordinator, Request, TimeIsOver
from tests.sim.transactions.history import OFFSETS, ProducerEpoch, Transaction, TransactionHistory, UnknownId
from tests.sim.transactions.requests import Identity, error_of

GROUP, TRANSACTION = 0, 1
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
CALM_INCARNATION_S = 60.0
CLOCK_RESOLUTION_S = 1e-6
"""A shorter wait may end before the clock has moved, and so never reach its end."""
ABORTABLE = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE)


@dataclasses.dataclass(frozen=True, slots=True)
class TransactionRules:
    """What kind of producer this is. Times in seconds."""

    timeout_ms: int = 3_000
    incarnation_mean_s: float = 2.5
    successor_chance: float = 0.5
    """When an incarnation's time is over: it continues beside its successor. Else it fails."""
    abort_chance: float = 0.25
    offsets_chance: float = 0.5
    pause_chance: float = 0.04
    """Of each step of a transaction: a pause of about the transaction's timeout."""
    give_up_chance: float = 0.06
    abandon_chance: float = 0.04
    """Of each Produce: it is given up for good, the transaction aborted, and the epoch raised (KIP-360)."""
    gap_mean_s: float = 0.05
    steps_max: int = 4
    produce_version: int = 9
    add_version: int = 3
    end_version: int = 3
    offsets_version: int = 3


class _Fenced(Exception):
    """Another producer has this transactional id now, or the coordinator aborted the transaction by its timeout."""


class _Abortable(Exception):
    """The transaction can only be aborted."""


class _Surprise(Exception):
    """An answer that no fault explains; it is in the history."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProducerDeps:
    """What all producers of a run share."""

    network: ClientNetwork
    addresses: list[Address]
    topics: dict[TopicPartition, TopicId]
    history: History
    transactions: TransactionHistory
    seed: int


class TransactionalId:
    """Runs producers of one transactional id. `group_id` is the group for which they commit offsets."""

    def __init__(self, name: str, deps: ProducerDeps, rules: TransactionRules) -> None:
        self.name = name
        self.group_id = f"group-{name}"
        self.last_ended = 0.0
        """When a transaction of a known outcome ended."""
        self.numbers = 0
        self.incarnations = 0
        self._deps = deps
        self._rules = rules
        self._random = random.Random(f"{name} {deps.seed}")

    def calm_down(self) -> None:
        """From now on no pauses, no requests given up, and hardly a successor: transactions succeed."""
        self._rules = dataclasses.replace(
            self._rules, pause_chance=0.0, give_up_chance=0.0, abandon_chance=0.0, incarnation_mean_s=CALM_INCARNATION_S
        )

    async def run(self, until: float, give_up: float) -> None:
        """Begin transactions until one time, and end them until another."""
        loop, tasks = self._deps.network.loop, list[asyncio.Task[None]]()
        try:
            while until - loop.time() > CLOCK_RESOLUTION_S:
                self.incarnations += 1
                task = asyncio.create_task(_Incarnation(self, self._deps, self._rules).run(until, give_up))
                tasks.append(task)
                seconds = self._random.expovariate(1 / self._rules.incarnation_mean_s)
                await asyncio.wait([task], timeout=min(seconds, max(until - loop.time(), 0.0)))
                if not task.done() and loop.time() < until and self._random.random() > self._rules.successor_chance:
                    task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=max(give_up - loop.time(), 0.0))
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                raise error


class _Incarnation:
    """One process of a producer."""

    def __init__(self, owner: TransactionalId, deps: ProducerDeps, rules: TransactionRules) -> None:
        self._owner = owner
        self._deps = deps
        self._rules = rules
        self._loop = deps.network.loop
        self._clock = SimClock(deps.network.loop)
        name = f"{owner.name}.{owner.incarnations}"
        self._name = name
        self._random = random.Random(f"{name} {deps.seed}")
        self._client = Client(name, deps.network, deps.transactions, self._random, rules.give_up_chance)
        self._leaders = {
            partition: Leaders(deps.network, deps.addresses, partition, f"{name} {deps.seed}")
            for partition in sorted(deps.topics)
        }
        where = deps.network, deps.addresses
        self._coordinator = Coordinator(*where, owner.name, TRANSACTION, f"{name} {deps.seed}")
        self._group_coordinator = Coordinator(*where, owner.group_id, GROUP, f"{name} {deps.seed}")
        self._who = Identity(owner.name)
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self, until: float, give_up: float) -> None:
        self._client.give_up_at = give_up
        try:
            await self._init()
            while self._loop.time() < until:
                await self._transact()
                await asyncio.sleep(self._random.expovariate(1 / self._rules.gap_mean_s))
        except (_Fenced, _Surprise):
            self._deps.transactions.fenced += 1
            await asyncio.sleep(self._random.uniform(0.0, 0.2))
        except TimeIsOver:
            pass
        finally:
            self._client.close()

    async def _init(self) -> None:
        request = Request(ApiKey.INIT_PRODUCER_ID, 4, requests.init(self._who, self._rules.timeout_ms))
        answer = await self._client.ask(self._coordinator, request)
        self._check(answer, "InitProducerId")
        self._who = Identity(self._owner.name, answer.producer_id, answer.producer_epoch)
        self._sequences.clear()
        self._note("epoch", answer.producer_id, answer.producer_epoch)
        self._deps.transactions.epochs.append(ProducerEpoch(*self._who, self._loop.time()))

    async def _transact(self) -> None:
        self._owner.numbers += 1
        transaction = Transaction(
            self._owner.name, self._owner.numbers, self._who.producer_id, self._who.epoch, self._loop.time()
        )
        self._deps.transactions.transactions.append(transaction)
        try:
            try:
                await self._write(transaction)
            except _Abortable:
                await self._end(transaction, commits=False)
                await self._init()  # With the present epoch: of what was refused no sequence is known any more.
            else:
                await self._end(transaction, commits=self._random.random() > self._rules.abort_chance)
        finally:
            transaction.ended = self._loop.time()
            self._note("transaction", transaction.name, transaction.outcome)

    async def _write(self, transaction: Transaction) -> None:
        steps = self._random.randint(1, self._rules.steps_max)
        added: set[TopicPartition] = set()
        for step in range(steps):
            partition = self._random.choice(sorted(self._deps.topics))
            if partition not in added:
                message = requests.add_partition(self._who, partition)
                await self._ask(self._coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, self._rules.add_version, message)
                added.add(partition)
            await self._produce(transaction, partition, step)
            await self._pause()
        if self._random.random() < self._rules.offsets_chance:
            await self._commit_offset(transaction)
            await self._pause()

    async def _produce(self, transaction: Transaction, partition: TopicPartition, step: int) -> None:
        values = [f"{transaction.name}-{step}-{index}" for index in range(self._random.randint(1, 2))]
        self._deps.history.attempted.update(values)
        began, sequence = self._loop.time(), self._sequences.get(partition, 0)
        transaction.sent.setdefault(partition, {}).update(dict.fromkeys(values, began))
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(index, now_ms, b"", value.encode()) for index, value in enumerate(values)],
            producer_id=self._who.producer_id,
            producer_epoch=self._who.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        message = requests.produce(self._who, partition, batch)
        if self._random.random() < self._rules.abandon_chance:
            request = Request(ApiKey.PRODUCE, self._rules.produce_version, message)
            await self._client.send_and_give_up(self._leaders[partition], request)
            raise _Abortable("given up")
        answer = await self._ask(self._leaders[partition], ApiKey.PRODUCE, self._rules.produce_version, message)
        self._sequences[partition] = sequence + len(values)
        transaction.acknowledged.update(values)
        offset = answer.responses[0].partition_responses[0].base_offset
        self._note("produced", partition, values[0], offset)
        who = self._who.producer_id, self._who.epoch, sequence
        send = Send(self._owner.name, partition, tuple(values), began, self._loop.time(), "ok", offset, *who)
        self._deps.history.sends.append(send)

    async def _commit_offset(self, transaction: Transaction) -> None:
        await self._ask(
            self._coordinator,
            ApiKey.ADD_OFFSETS_TO_TXN,
            self._rules.add_version,
            requests.add_offsets(self._who, self._owner.group_id),
        )
        note = f"note:{transaction.name}"
        transaction.sent[OFFSETS] = {note: self._loop.time()}
        source = min(self._deps.topics)
        message = requests.commit_offset(self._who, self._owner.group_id, source, transaction.number, note)
        await self._ask(self._group_coordinator, ApiKey.TXN_OFFSET_COMMIT, self._rules.offsets_version, message)
        transaction.acknowledged.add(note)

    async def _end(self, transaction: Transaction, *, commits: bool) -> None:
        transaction.commits, transaction.end_sent = commits, self._loop.time()
        self._note("ends", transaction.name, commits)
        message = requests.end(self._who, commits=commits)
        await self._ask(self._coordinator, ApiKey.END_TXN, self._rules.end_version, message, is_end=True)
        transaction.outcome = "committed" if commits else "aborted"
        self._owner.last_ended = self._loop.time()

    async def _pause(self) -> None:
        if self._random.random() < self._rules.pause_chance:
            await asyncio.sleep(self._rules.timeout_ms / 1_000 * self._random.uniform(0.7, 1.3))

    async def _ask(
        self, finder: Leaders | Coordinator, api_key: ApiKey, version: int, message: object, *, is_end: bool = False
    ) -> Any:
        answer = await self._client.ask(finder, Request(api_key, version, message))
        self._check(answer, api_key.name, is_end=is_end)
        return answer

    def _check(self, answer: object, what: str, *, is_end: bool = False) -> None:
        code = error_of(answer)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return
        self._note("refused", what, code.name)
        if code in FENCED:
            raise _Fenced(code.name)
        if code in ABORTABLE and not is_end:
            raise _Abortable(code.name)
        at = self._loop.time()
        if code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            self._deps.transactions.unknown_ids.append(UnknownId(f"{self._name}'s {what}", self._owner.name, at))
        else:
            self._deps.transactions.strange.append(f"{self._name}'s {what} was answered {code.name} at {at:.3f}")
        raise _Surprise(code.name)

    def _note(self, *fields: object) -> None:
        self._deps.network.trace.note(self._name, *fields)
