"""Keys to partitions, batches of a mirror's own records, and whether a target has transactions."""

from __future__ import annotations

from typing import Any, cast

import pytest
from kafka.partitioner.default import murmur2  # type: ignore[import-untyped]

from sordini.client.addresses import Address
from sordini.client.cluster import Link
from sordini.client.cluster_core import Session
from sordini.client.pipelined_connection import PipelinedConnection
from sordini.client.versions import ServedVersions
from sordini.mirror.cluster import Cluster
from sordini.mirror.formats import KeyValue
from sordini.mirror.internal_topics import batches_of, partition_of
from sordini.mirror.sessions import has_transactions
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.records.batch import read_header, read_records
from sordini.protocol.types import TopicPartition


@pytest.mark.parametrize("length", range(12))
def test_a_key_is_in_the_partition_of_java_s_default_partitioner(length: int) -> None:
    for seed in range(20):
        key = bytes((seed * 37 + index * 11) % 256 for index in range(length))
        for partitions in (1, 25):
            assert partition_of(key, partitions) == (murmur2(key) & 0x7FFF_FFFF) % partitions


def test_records_are_one_batch_for_each_partition_in_their_order() -> None:
    records = [KeyValue(b"%d" % number, b"v%d" % number) for number in range(30)]
    found = batches_of("t", 3, records)
    assert found.keys() == {TopicPartition("t", number) for number in range(3)}
    for partition, (count, batch) in found.items():
        own = [(record.key, record.value) for record in records if partition_of(record.key, 3) == partition.partition]
        assert count == len(own)
        assert [(one.key, one.value) for one in read_records(batch, read_header(batch))] == own


class OneBroker:
    """A cluster whose only broker serves these requests."""

    def __init__(self, *keys: ApiKey) -> None:
        self._versions = ServedVersions(dict.fromkeys(keys, (0, 3)))

    async def any_broker(self) -> Link:
        session = Session(self._versions, float("inf"))
        return Link(Address("broker", 9092), cast("PipelinedConnection", None), session, None)


@pytest.mark.parametrize("missing", [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, None])
async def test_a_target_has_transactions_if_it_serves_all_that_they_need(missing: ApiKey | None) -> None:
    keys = {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN} - {missing}
    target: Any = OneBroker(*keys)
    assert await has_transactions(cast("Cluster", target)) is (missing is None)
