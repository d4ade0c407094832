"""Makes an invoice of each order, exactly once: the invoice and the order's offset are in one transaction.

Each partition of orders has a producer with a transactional id of its own. So the partition's next owner, by starting
its producer, ends what a former owner has begun and refuses what it would still do; only then it reads the offset.
From then on the offset is known here: after a rebalance that leaves the partition where it is, the consumer begins
again at the one it had received before the last transaction ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

ORDERS = "orders"
INVOICES = "invoices"
GROUP = "invoicer"


class Invoicer:
    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self.next_offsets: dict[TopicPartition, int] = {}

    def make_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=self.bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )

    def make_producer(self, partition: TopicPartition) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            transactional_id=self.transactional_id(partition),
            transaction_timeout_ms=15_000,
        )

    def transactional_id(self, partition: TopicPartition) -> str:
        return f"invoicer-{partition.topic}-{partition.partition}"

    async def run(self) -> None:
        consumer = self.make_consumer()
        await consumer.start()
        try:
            while True:
                batches = await consumer.getmany(timeout_ms=500)
                await self.forget_revoked(consumer)
                for partition, records in batches.items():
                    await self.handle(consumer, partition, records)
        finally:
            await consumer.stop()
            for partition in list(self.producers):
                await self.close_producer(partition)

    async def handle(
        self, consumer: AIOKafkaConsumer, partition: TopicPartition, records: Sequence[ConsumerRecord]
    ) -> None:
        if partition not in self.producers:
            await self.take_over(consumer, partition)
            return
        new = [record for record in records if record.offset >= self.next_offsets[partition]]
        try:
            if new:
                await self.transact(self.producers[partition], partition, new)
                self.next_offsets[partition] = new[-1].offset + 1
        except KafkaError:
            # It may be fenced, or in a state that only a new one leaves; the next batch begins at the offset.
            await self.failed(consumer, partition)

    async def take_over(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
        """Fence the former owner, and read from what it has committed."""
        producer = self.make_producer(partition)
        await producer.start()
        self.producers[partition] = producer
        await self.rewind(consumer, partition)

    async def rewind(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
        try:
            committed = await consumer.committed(partition) or 0
            consumer.seek(partition, committed)
            self.next_offsets[partition] = committed
        except KafkaError:  # It was revoked meanwhile.
            await self.close_producer(partition)

    async def transact(
        self, producer: AIOKafkaProducer, partition: TopicPartition, records: Sequence[ConsumerRecord]
    ) -> None:
        async with producer.transaction():
            for record in records:
                await producer.send(INVOICES, self.invoice(record), key=record.key)
            await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, GROUP)

    def invoice(self, record: ConsumerRecord) -> bytes:
        order = json.loads(record.value)
        return json.dumps({"order": order["id"], "total": order["price"] * 2}).encode()

    async def failed(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
        await self.close_producer(partition)
        await asyncio.sleep(0.2)
        try:
            consumer.seek(partition, 0)  # Whatever is read next is dropped when the partition is taken over.
        except KafkaError:
            return

    async def forget_revoked(self, consumer: AIOKafkaConsumer) -> None:
        for partition in [one for one in self.producers if one not in consumer.assignment()]:
            await self.close_producer(partition)

    async def close_producer(self, partition: TopicPartition) -> None:
        producer = self.producers.pop(partition, None)
        if producer is not None:
            await producer.stop()
