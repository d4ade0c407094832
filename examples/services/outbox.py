"""Publishes the rows of an outbox table: all of them, and those of a key in their order; one may come twice.

An error of the producer ends the service: its supervisor starts it again, with a producer that knows nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from examples.services.database import Database, DatabaseError

EVENTS = "events"
ROWS_MAX = 5
POLL_S = 0.5


class Row(NamedTuple):
    """An event that was written in one transaction with the change that it describes."""

    number: int
    key: str
    text: str


class Outbox:
    def __init__(self, bootstrap_servers: str, database: Database) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.database = database

    def make_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, enable_idempotence=True)

    async def run(self) -> None:
        producer = self.make_producer()
        await producer.start()
        try:
            await self.publish_for_ever(producer)
        finally:
            await producer.stop()

    async def publish_for_ever(self, producer: AIOKafkaProducer) -> None:
        while True:
            try:
                rows = await self.database.transaction(self.unpublished)
                for row in rows:
                    await self.publish(producer, row)
            except DatabaseError:
                await asyncio.sleep(POLL_S)
            else:
                await asyncio.sleep(0 if rows else POLL_S)

    def unpublished(self, table: Any) -> Sequence[Row]:
        return [table("outbox")[number] for number in sorted(table("outbox"))][:ROWS_MAX]

    async def publish(self, producer: AIOKafkaProducer, row: Row) -> None:
        await self.send(producer, row)
        await self.database.transaction(partial(self.remove, row))

    async def send(self, producer: AIOKafkaProducer, row: Row) -> None:
        await producer.send_and_wait(EVENTS, row.text.encode(), row.key.encode())

    def remove(self, row: Row, table: Any) -> None:
        table("outbox").pop(row.number, None)
