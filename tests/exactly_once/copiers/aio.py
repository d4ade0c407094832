"""The copier with aiokafka, which sends no group metadata: one partition and one transactional id for each copier.

A coordinator that is gone is asked for ever (aiokafka issue 1145): `Stop.is_wanted` ends the program then.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import TopicPartition

from tests.exactly_once.copiers.orders import (
    PIECE_MAX,
    POLL_S,
    TRANSACTION_TIMEOUT_MS,
    Journal,
    Orders,
    Stop,
    output,
    run,
)


class Copier:
    """One consumer and its producer, which is started first: that ends what its predecessor has left open."""

    def __init__(self, orders: Orders, journal: Journal) -> None:
        self._orders = orders
        self._journal = journal
        self._partition = TopicPartition(orders.source, orders.partition)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=orders.bootstrap,
            transactional_id=orders.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            metadata_max_age_ms=2_000,
        )
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=orders.bootstrap,
            group_id=orders.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metadata_max_age_ms=2_000,
        )

    async def __aenter__(self) -> Self:
        await self._producer.start()
        self._consumer.assign([self._partition])
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()
        await self._producer.stop()

    async def next_piece(self) -> list[Any]:
        found = await self._consumer.getmany(timeout_ms=int(POLL_S * 1_000), max_records=PIECE_MAX)
        return list(found.get(self._partition, []))

    async def copy(self, piece: list[Any]) -> None:
        """One transaction; what it could not do is read again. Raises KafkaError where the client cannot go on."""
        name = self._journal.begin()
        try:
            await self._send(name, piece)
            if not self._journal.is_to_be_aborted:
                await self._producer.commit_transaction()
                self._journal.ended(name, "committed")
                return
        except ProducerFenced:
            raise
        except KafkaError:
            pass  # To be aborted; where the client cannot do that either, the abort raises.
        await self._producer.abort_transaction()
        self._journal.ended(name, "aborted")
        self._consumer.seek(self._partition, await self._consumer.committed(self._partition) or 0)

    async def _send(self, name: str, piece: list[Any]) -> None:
        await self._producer.begin_transaction()
        values = [output(record.value, name, len(piece)) for record in piece]
        sent = [await self._producer.send(self._orders.sink, one, partition=self._orders.partition) for one in values]
        await asyncio.gather(*sent)
        await self._producer.send_offsets_to_transaction({self._partition: piece[-1].offset + 1}, self._orders.group)


async def copying(orders: Orders, journal: Journal, stop: Stop) -> None:
    async with Copier(orders, journal) as copier:
        while not stop.is_wanted():
            if piece := await copier.next_piece():
                await copier.copy(piece)


def copy(orders: Orders, journal: Journal, stop: Stop) -> None:
    asyncio.run(copying(orders, journal, stop))


if __name__ == "__main__":
    run(copy)
