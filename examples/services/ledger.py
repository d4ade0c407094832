"""Books payments of a topic into a database: each is processed at least once, and counted once.

The offset is committed behind what is in the database, so a crash repeats payments; and a payment's id is written in
the same transaction as its amount, so that a repeated one changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from examples.services.database import Database, DatabaseError

PAYMENTS = "payments"
GROUP = "ledger"


class Ledger:
    def __init__(self, bootstrap_servers: str, database: Database) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.database = database

    def make_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            PAYMENTS,
            bootstrap_servers=self.bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    async def run(self) -> None:
        consumer = self.make_consumer()
        await consumer.start()
        try:
            while True:
                await self.handle(consumer, await consumer.getone())
        finally:
            await consumer.stop()

    async def handle(self, consumer: AIOKafkaConsumer, record: ConsumerRecord) -> None:
        await self.book(json.loads(record.value))
        await self.commit(consumer, record)

    async def book(self, payment: dict[str, Any]) -> None:
        """Repeats what may not have happened."""
        while True:
            try:
                await self.database.transaction(partial(self.apply, payment))
            except DatabaseError:
                await asyncio.sleep(0.2)
            else:
                return

    def apply(self, payment: dict[str, Any], table: Any) -> None:
        if payment["id"] not in table("booked"):
            table("booked")[payment["id"]] = True
            self.add(payment, table)

    def add(self, payment: dict[str, Any], table: Any) -> None:
        account = payment["account"]
        table("balances")[account] = table("balances").get(account, 0) + payment["amount"]

    async def commit(self, consumer: AIOKafkaConsumer, record: ConsumerRecord) -> None:
        """A commit that fails is no harm: the payment is read and recognised again."""
        try:
            await consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})
        except KafkaError:
            await asyncio.sleep(0.1)
