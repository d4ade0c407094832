"""Mistakes of services that the simulation must find: each is a change of one of the example services.

Their names state the mistake. `seeds_max` is the maximum number of seeds until one finds it.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from functools import partial
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from examples.services import invoicer, ledger, outbox, totals
from examples.services.database import DatabaseError
from examples.services.invoicer import INVOICES, Invoicer
from examples.services.ledger import PAYMENTS, Ledger
from examples.services.outbox import Outbox
from examples.services.simulations import SIMULATIONS, Simulation
from examples.services.totals import BATCH_MAX, Sum, Totals


class Bug(NamedTuple):
    """A service with a mistake."""

    name: str
    service: str
    make: Any
    seeds_max: int = 200

    @property
    def simulation(self) -> Simulation:
        return SIMULATIONS[self.service]._replace(make=self.make)


# The ledger.


class CommitsBeforeProcessing(Ledger):
    async def handle(self, consumer, record):
        await self.commit(consumer, record)
        await self.book(json.loads(record.value))


class CommitsByItself(Ledger):
    """The consumer commits what was returned, every second; what was returned is not yet processed."""

    def make_consumer(self):
        return AIOKafkaConsumer(
            PAYMENTS,
            bootstrap_servers=self.bootstrap_servers,
            group_id=ledger.GROUP,
            enable_auto_commit=True,
            auto_commit_interval_ms=1_000,
            auto_offset_reset="earliest",
        )

    async def handle(self, consumer, record):
        await asyncio.sleep(0.3)  # Another service is asked.
        await self.book(json.loads(record.value))


class RecognisesNothing(Ledger):
    def apply(self, payment, table):
        self.add(payment, table)


class RecognisesInMemory(Ledger):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.booked = set()

    def apply(self, payment, table):
        if payment["id"] not in self.booked:
            self.booked.add(payment["id"])
            self.add(payment, table)


class CommitsTheOffsetItself(Ledger):
    async def commit(self, consumer, record):
        try:
            await consumer.commit({TopicPartition(record.topic, record.partition): record.offset})
        except KafkaError:
            await asyncio.sleep(0.1)


class StartsAtTheEnd(Ledger):
    def make_consumer(self):
        return AIOKafkaConsumer(
            PAYMENTS,
            bootstrap_servers=self.bootstrap_servers,
            group_id=ledger.GROUP,
            enable_auto_commit=False,
            auto_offset_reset="latest",
        )


class BlocksItsLoop(Ledger):
    async def book(self, payment):
        if payment["id"] % 10 == 9:
            time.sleep(12)  # noqa: ASYNC251 - the mistake.
        await super().book(payment)


class DropsWhatFails(Ledger):
    async def book(self, payment):
        try:
            await self.database.transaction(partial(self.apply, payment))
        except DatabaseError:
            return  # It is logged, and that is all.


class MarksThenBooks(Ledger):
    """Two transactions where one is needed."""

    async def book(self, payment):
        async def surely(change):
            while True:
                try:
                    return await self.database.transaction(change)
                except DatabaseError:
                    await asyncio.sleep(0.2)

        def mark(table):
            is_new = payment["id"] not in table("booked")
            table("booked")[payment["id"]] = True
            return is_new

        if await surely(mark):
            await surely(partial(self.add, payment))


class LeavesTasksBehind(Ledger):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tasks = set()

    async def handle(self, consumer, record):
        task = asyncio.create_task(self.book(json.loads(record.value)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        await self.commit(consumer, record)

    async def book(self, payment):
        await asyncio.sleep(payment["amount"] / 5)  # Another service is asked.
        await super().book(payment)


class CommitsWhatIsDoneFirst(Ledger):
    """Payments are booked side by side, and each commits its own offset, whatever is before it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tasks = set()

    async def handle(self, consumer, record):
        task = asyncio.create_task(super().handle(consumer, record))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        while len(self.tasks) > 3:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)

    async def book(self, payment):
        await asyncio.sleep(payment["amount"] / 2)
        await super().book(payment)


# The invoicer.


class CommitsBesideTheTransaction(Invoicer):
    """The consumer's commit is another request than the transaction's."""

    async def handle(self, consumer, partition, records):
        self.consumer = consumer
        await super().handle(consumer, partition, records)

    async def transact(self, producer, partition, records):
        async with producer.transaction():
            for record in records:
                await producer.send(INVOICES, self.invoice(record), key=record.key)
        await self.consumer.commit({partition: records[-1].offset + 1})


class ForgetsToRewind(Invoicer):
    """After an aborted transaction the next records are read, not the same again."""

    async def failed(self, consumer, partition):
        await self.close_producer(partition)
        self.producers[partition] = self.make_producer(partition)
        await self.producers[partition].start()


class ForgetsToAbort(Invoicer):
    """Whatever goes wrong is logged, and the transaction stays open."""

    async def handle(self, consumer, partition, records):
        try:
            await super().handle(consumer, partition, records)
        except Exception:  # noqa: BLE001 - the mistake.
            await self.failed(consumer, partition)

    async def transact(self, producer, partition, records):
        await producer.begin_transaction()
        for record in records:
            await producer.send(INVOICES, self.invoice(record), key=record.key)
        await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, invoicer.GROUP)
        await producer.commit_transaction()

    async def failed(self, consumer, partition):
        await asyncio.sleep(0.2)
        await self.rewind(consumer, partition)


class NamesItselfByInstance(Invoicer):
    """A partition's next owner does not fence the former one."""

    def transactional_id(self, partition):
        return f"{self.own_name}-{partition.partition}"

    def __init__(self, bootstrap_servers):
        super().__init__(bootstrap_servers)
        self.own_name = f"invoicer-{random.randrange(10**9)}"


class SendsTheOffsetItself(Invoicer):
    async def transact(self, producer, partition, records):
        async with producer.transaction():
            for record in records:
                await producer.send(INVOICES, self.invoice(record), key=record.key)
            await producer.send_offsets_to_transaction({partition: records[-1].offset}, invoicer.GROUP)


class RepeatsWhenFenced(Invoicer):
    """A fenced producer is fenced for ever, whatever is tried with it."""

    async def transact(self, producer, partition, records):
        while True:
            try:
                await super().transact(producer, partition, records)
            except Exception:  # noqa: BLE001 - the mistake.
                await asyncio.sleep(1)
            else:
                return


class BelievesTheConsumer(Invoicer):
    """Its position after a rebalance may be older than its own last transaction."""

    async def handle(self, consumer, partition, records):
        self.next_offsets[partition] = 0
        await super().handle(consumer, partition, records)


# The totals.


class ReadsUncommitted(Totals):
    def make_consumer(self):
        return AIOKafkaConsumer(
            totals.INVOICES,
            bootstrap_servers=self.bootstrap_servers,
            group_id=totals.GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )


class AddsToWhatIsThere(Totals):
    """What is there may have been written by another owner of the partition, of the same invoices."""

    def replace(self, where, before, after, table):
        there = table("sums").get(where, Sum(0, 0))
        table("sums")[where] = Sum(there.total + after.total - before.total, after.offset)
        return True


class GoesBack(Totals):
    """A batch that has been added up already leads the offset back."""

    def added(self, before, records):
        return super().added(before, records)._replace(offset=records[-1].offset + 1)


class WritesFullBatchesOnly(Totals):
    """The last invoices wait for others for ever."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept = {}

    async def handle(self, consumer, where, records):
        if where not in self.sums:
            self.kept.pop(where, None)
            await self.load(consumer, where)
            return
        kept = self.kept.setdefault(where, [])
        kept += records
        if len(kept) >= BATCH_MAX // 2:
            del self.kept[where]
            await super().handle(consumer, where, kept)


class NeverResumes(Totals):
    """A partition whose sum could not be written is paused."""

    async def handle(self, consumer, where, records):
        if where in self.sums:
            before = self.sums[where]
            try:
                await self.write(where, before, self.added(before, records))
            except DatabaseError:
                consumer.pause(where)
                del self.sums[where]
            return
        await self.load(consumer, where)


class WritesTheOffsetElsewhere(Totals):
    """The sum is in the database and the offset in Kafka."""

    def make_consumer(self):
        self.consumer = super().make_consumer()
        return self.consumer

    async def write(self, where, before, after):
        is_written = await super().write(where, before, after)
        if is_written:
            await self.consumer.commit({where: after.offset})
        return is_written

    async def load(self, consumer, where):
        await super().load(consumer, where)
        if where in self.sums:
            committed = await consumer.committed(where) or 0
            consumer.seek(where, committed)
            self.sums[where] = Sum(self.sums[where].total, committed)

    def replace(self, where, before, after, table):
        table("sums")[where] = after
        return True


# The outbox.


class SendsAndForgets(Outbox):
    """What is collected for a batch is lost with the process."""

    def make_producer(self):
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, enable_idempotence=True, linger_ms=500)

    async def send(self, producer, row):
        await producer.send(outbox.EVENTS, row.text.encode(), row.key.encode())


class IsContentWithTheLeader(Outbox):
    """What only the leader has goes with the leader."""

    def make_producer(self):
        return AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, acks=1)


class RemovesBeforeItSends(Outbox):
    async def publish(self, producer, row):
        await self.database.transaction(partial(self.remove, row))
        await self.send(producer, row)


class SkipsWhatFails(Outbox):
    """What comes behind a failed row of the same key overtakes it."""

    async def publish_for_ever(self, producer):
        while True:
            try:
                rows = await self.database.transaction(self.unpublished)
            except DatabaseError:
                rows = []
            for row in rows:
                try:
                    async with asyncio.timeout(1.0):
                        await self.publish(producer, row)
                except (TimeoutError, DatabaseError):
                    continue
            await asyncio.sleep(outbox.POLL_S)


class LosesItsTask(Outbox):
    """The task that publishes ends with an exception that nothing awaits, and the service waits on."""

    async def publish_for_ever(self, producer):
        task = asyncio.create_task(self.publish_once_more(producer))
        await asyncio.Event().wait()
        del task

    async def publish_once_more(self, producer):
        while True:
            for row in await self.database.transaction(self.unpublished):
                await self.publish(producer, row)
            await asyncio.sleep(outbox.POLL_S)


BUGS: tuple[Bug, ...] = (
    Bug("the offset is committed before the record is processed", "ledger", CommitsBeforeProcessing),
    Bug("offsets are committed automatically while records are processed", "ledger", CommitsByItself),
    Bug("a repeated record is not recognised", "ledger", RecognisesNothing),
    Bug("repeated records are recognised in memory only", "ledger", RecognisesInMemory),
    Bug("the committed offset is the record's own", "ledger", CommitsTheOffsetItself),
    Bug("a group without offsets begins at the end", "ledger", StartsAtTheEnd),
    Bug("the loop is blocked", "ledger", BlocksItsLoop),
    Bug("a record that cannot be processed is dropped", "ledger", DropsWhatFails),
    Bug("a record is marked and processed in two transactions", "ledger", MarksThenBooks),
    Bug("records are processed in tasks that nothing awaits", "ledger", LeavesTasksBehind),
    Bug("an offset is committed while records before it are processed", "ledger", CommitsWhatIsDoneFirst),
    Bug("offsets are committed beside the transaction", "invoicer", CommitsBesideTheTransaction),
    Bug("the consumer is not rewound after an abort", "invoicer", ForgetsToRewind),
    Bug("a failed transaction is not aborted", "invoicer", ForgetsToAbort),
    Bug("the transactional id is the instance's", "invoicer", NamesItselfByInstance),
    Bug("the offset in the transaction is the record's own", "invoicer", SendsTheOffsetItself),
    Bug("a fenced producer is used again", "invoicer", RepeatsWhenFenced),
    Bug("a position after a rebalance is older than the last transaction", "invoicer", BelievesTheConsumer),
    Bug("aborted records are read", "totals", ReadsUncommitted),
    Bug("two owners of a partition add to one sum", "totals", AddsToWhatIsThere),
    Bug("an offset in the database goes back", "totals", GoesBack),
    Bug("the last records are never flushed", "totals", WritesFullBatchesOnly),
    Bug("a paused partition is not resumed", "totals", NeverResumes),
    Bug("a result and its offset are written to two places", "totals", WritesTheOffsetElsewhere),
    Bug("a send is not awaited", "outbox", SendsAndForgets),
    Bug("acks=1", "outbox", IsContentWithTheLeader),
    Bug("a row is removed before it is sent", "outbox", RemovesBeforeItSends),
    Bug("rows behind a failed one are sent", "outbox", SkipsWhatFails),
    Bug("a task ends with an exception that nothing awaits", "outbox", LosesItsTask),
)
