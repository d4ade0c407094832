"""The journal over Apache Kafka: the fence of a former writer is the broker's own check of producer epochs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.registry.journal.term import Outcome, Term
from tests.outside.java import ApacheKafkaProcess
from tests.registry.journal.numbering import NumberingRegistry, settings
from tests.registry.journal.test_journal import running, until

ONE_REPLICA = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
}


async def _sent_again(registry: NumberingRegistry, term: Term) -> Outcome:
    """A further batch of a term, as if its writer did not know that it is over."""
    former = Term(term.producer_id, term.producer_epoch)
    former.begin()
    batch = build_batch(
        [Record(0, 1, b"key", b'{"schema":"late","id":2}')],
        producer_id=term.producer_id,
        producer_epoch=term.producer_epoch,
        base_sequence=2,
    )
    return await registry.journal._writing._send(former, batch)


@pytest.mark.slow
async def test_a_former_writer_is_fenced_by_apache_kafka_as_well(zookeeper: str, tmp_path: Path) -> None:
    broker = ApacheKafkaProcess(tmp_path, f"{zookeeper}/registry", ONE_REPLICA)
    await asyncio.to_thread(broker.start)
    try:
        first, second = (NumberingRegistry(broker.bootstrap, settings(port)) for port in (8081, 8082))
        async with running(first), running(second):
            await until(lambda: first.journal.is_writer or second.journal.is_writer)
            former, other = (first, second) if first.journal.is_writer else (second, first)
            assert await former.register("a") == 1
            term = former.journal._writing.term
            assert term is not None
            await other.journal._writing.take_over()
            assert await _sent_again(former, term) is Outcome.FENCED
            await until(lambda: former.journal.is_writer)
            assert await former.register("b") == 2
            await other.journal.wait_until_current()
            assert other.ids == {"a": 1, "b": 2}
            assert former.records == other.records
    finally:
        await asyncio.to_thread(broker.stop)
