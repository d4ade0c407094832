"""Adds up the invoices of each partition, in memory, and writes the sums together with the offset they reach.

The offset is in the database and nowhere else. A sum is written only over the one it was made of, so that of two
owners of a partition one fails and reads again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from examples.services.database import Database, DatabaseError

INVOICES = "invoices"
GROUP = "totals"
BATCH_MAX = 10


class Sum(NamedTuple):
    """Of the invoices of a partition before an offset."""

    total: int
    offset: int


class Totals:
    def __init__(self, bootstrap_servers: str, database: Database) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.database = database
        self.sums: dict[TopicPartition, Sum] = {}

    def make_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            INVOICES,
            bootstrap_servers=self.bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )

    async def run(self) -> None:
        consumer = self.make_consumer()
        await consumer.start()
        try:
            while True:
                batches = await consumer.getmany(timeout_ms=500, max_records=BATCH_MAX)
                self.forget_revoked(consumer)
                for where, records in batches.items():
                    await self.handle(consumer, where, records)
        finally:
            await consumer.stop()

    async def handle(
        self, consumer: AIOKafkaConsumer, where: TopicPartition, records: Sequence[ConsumerRecord]
    ) -> None:
        if where not in self.sums:
            await self.load(consumer, where)
            return
        before = self.sums[where]
        try:
            is_written = await self.write(where, before, self.added(before, records))
        except DatabaseError:
            is_written = False
        if not is_written:
            await self.load(consumer, where)

    def added(self, before: Sum, records: Sequence[ConsumerRecord]) -> Sum:
        # After a rebalance that leaves the partition here, the consumer begins at the start again.
        new = [record for record in records if record.offset >= before.offset]
        total = before.total + sum(json.loads(record.value)["total"] for record in new)
        return Sum(total, max(before.offset, records[-1].offset + 1))

    async def write(self, where: TopicPartition, before: Sum, after: Sum) -> bool:
        """Replace a sum; False when it is no longer there."""
        is_written = await self.database.transaction(partial(self.replace, where, before, after))
        if is_written:
            self.sums[where] = after
        return is_written

    def replace(self, where: TopicPartition, before: Sum, after: Sum, table: Any) -> bool:
        if table("sums").get(where, Sum(0, 0)) != before:
            return False
        table("sums")[where] = after
        return True

    async def load(self, consumer: AIOKafkaConsumer, where: TopicPartition) -> None:
        """Read the sum, and continue at its offset."""
        while True:
            try:
                found = await self.database.transaction(lambda table: table("sums").get(where, Sum(0, 0)))
                consumer.seek(where, found.offset)
            except DatabaseError:
                await asyncio.sleep(0.2)
            except KafkaError:  # It was revoked.
                return
            else:
                self.sums[where] = found
                return

    def forget_revoked(self, consumer: AIOKafkaConsumer) -> None:
        for where in [one for one in self.sums if one not in consumer.assignment()]:
            del self.sums[where]
