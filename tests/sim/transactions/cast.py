"""The transactional ids of one run with their readers, and what is asked when the faults are over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.history import History
from tests.sim.transactions.client import Coordinator
from tests.sim.transactions.history import CoordinatorState, TransactionHistory
from tests.sim.transactions.producer import TRANSACTION, ProducerDeps, TransactionalId, TransactionRules
from tests.sim.transactions.reader import CommittedReader, OffsetsReader

IDS = 3
SETTLE_S = 12.0
"""More than the longest timeout of a transaction, and what its abort takes."""
LATE_S = 0.5
"""What a request that arrives late still changes is written by then."""
TIMEOUT_S = 2.0
BACKOFF_S = 0.2


class Cast:
    """The last of the transactional ids fails at the end of the load, without a successor: its transaction times out."""

    def __init__(
        self,
        network: ClientNetwork,
        addresses: list[Address],
        topics: Mapping[TopicPartition, TopicId],
        history: History,
        seed: int,
    ) -> None:
        self.history = TransactionHistory()
        self._network = network
        self._addresses = addresses
        source = random.Random(f"transactions {seed}")
        deps = ProducerDeps(network, addresses, dict(topics), history, self.history, seed)
        self.ids = [TransactionalId(f"tx{index}", deps, _rules(source)) for index in range(IDS)]
        where = network, addresses
        self._readers = [
            CommittedReader(f"committed{index}", *where, partition, self.history, source.choice((9, 10, 11, 12)), seed)
            for index, partition in enumerate(sorted(topics))
        ]
        self._offsets = [
            OffsetsReader(f"offsets-{one.name}", *where, one.group_id, min(topics), self.history, seed)
            for one in self.ids
        ]

    def work(self, until: float, give_up: float) -> list[Coroutine[Any, Any, None]]:
        """What runs under load: producers until `until`, readers until the producers have ended."""
        producers = [one.run(until, give_up) for one in self.ids[:-1]]
        return [*producers, self.ids[-1].run(until, until), *self._read(until)]

    def work_in_quiet(self, until: float, give_up: float) -> list[Coroutine[Any, Any, None]]:
        for one in self.ids:
            one.calm_down()
        producers = [one.run(until, give_up) for one in self.ids[:-1]]
        return [*producers, *self._read(until)]

    def _read(self, until: float) -> list[Coroutine[Any, Any, None]]:
        return [*(reader.run(until) for reader in self._readers), *(reader.run(until) for reader in self._offsets)]

    async def settle(self, calm_from: float) -> list[str]:
        """Wait until every transaction has ended, and read everything."""
        loop = self._network.loop
        await asyncio.sleep(max(self.history.last_late + LATE_S - loop.time(), 0.0))
        give_up = loop.time() + SETTLE_S
        findings = [
            f"I14 {one.name} had no transaction ended in the quiet time"
            for one in self.ids[:-1]
            if one.last_ended < calm_from
        ]
        unread = [reader for reader in self._readers if not await reader.read_all(give_up)]
        findings += [f"T5 the last stable offset of {one.partition} does not reach the log's end" for one in unread]
        busy = [one for one in self.ids if not await self._describe(one.name, give_up)]
        findings += [f"T5 {one.name} is not idle, or was not described" for one in busy]
        unknown = [offsets for offsets in self._offsets if not await offsets.read(give_up)]
        findings += ["T8 committed offsets could not be read in the end" for _ in unknown]
        return findings

    async def _describe(self, transactional_id: str, give_up: float) -> bool:
        """Whether its coordinator describes it as idle before `give_up`. One that was never given an epoch may be unknown."""
        has_epoch = any(epoch.transactional_id == transactional_id for epoch in self.history.epochs)
        coordinator = Coordinator(self._network, self._addresses, transactional_id, TRANSACTION, "admin")
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while self._network.loop.time() < give_up:
            try:
                connection = await Connection.open(self._network, await coordinator.find(), "admin")
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        answer = await connection.request(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
                finally:
                    connection.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(BACKOFF_S)
                continue
            found = answer.transaction_states[0]
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and not has_epoch:
                return True
            if not found.error_code and found.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort"):
                state = found.transaction_state, found.producer_id, found.producer_epoch
                self.history.states.append(CoordinatorState(transactional_id, *state))
                return True
            await asyncio.sleep(BACKOFF_S)
        return False

    def tally(self) -> dict[str, int]:
        transactions = self.history.transactions
        return {
            "transactions committed": sum(one.outcome == "committed" for one in transactions),
            "transactions aborted": sum(one.outcome == "aborted" for one in transactions),
            "transactions of unknown outcome": sum(one.outcome == "unknown" for one in transactions),
            "committed records polled": sum(len(poll.seen) for poll in self.history.polls),
            "requests given up in flight": self.history.abandoned,
            "producers fenced": self.history.fenced,
        }


def _rules(source: random.Random) -> TransactionRules:
    return TransactionRules(
        timeout_ms=source.choice((1_500, 3_000, 5_000)),
        incarnation_mean_s=source.choice((1.5, 4.0)),
        gap_mean_s=source.choice((0.02, 0.15)),
        produce_version=source.choice((3, 7, 9, 11)),
        add_version=source.choice((0, 1, 2, 3)),
        end_version=source.choice((0, 1, 2, 3, 4)),
        offsets_version=source.choice((0, 2, 3, 4)),
    )
