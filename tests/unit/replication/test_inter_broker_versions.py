"""Versions between brokers, against what Apache Kafka 2.7.2 and 3.9.1 send and answer."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.protocol_version import read_version
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import APIS
from sordini.replication.inter_broker_versions import OLDEST, InterBrokerVersions, versions_for

NAMES = [
    "leader_and_isr",
    "update_metadata",
    "stop_replica",
    "fetch",
    "offset_for_leader_epoch",
    "list_offsets",
    "write_txn_markers",
    "alter_partition_max",
    "alters_isr_in_store",
    "truncates_on_fetch",
    "uses_topic_ids",
    "allocates_producer_ids",
]
# One row per step at which anything changes, in the order of NAMES. Fetch to ListOffsets and the four rules are what
# Apache Kafka 3.9.1 answers to a request about each step, the others what its controller and leaders send.
STEPS = """
2.7-IV0  4 6 3 11 3 5 0 1  1 0 0 0
2.7-IV1  4 6 3 12 3 5 0 1  1 1 0 0
2.7-IV2  4 6 3 12 3 5 0 1  0 1 0 0
2.8-IV0  4 6 3 12 4 6 1 3  0 1 1 0
2.8-IV1  5 7 3 12 4 6 1 3  0 1 1 0
3.0-IV0  5 7 3 12 4 6 1 3  0 1 1 1
3.0-IV1  5 7 3 12 4 7 1 3  0 1 1 1
3.1-IV0  5 7 3 13 4 7 1 3  0 1 1 1
3.2-IV0  6 7 3 13 4 7 1 3  0 1 1 1
3.3-IV3  6 7 3 13 4 7 1 3  0 1 1 1
3.4-IV0  7 8 4 13 4 7 1 3  0 1 1 1
3.5-IV0  7 8 4 14 4 8 1 3  0 1 1 1
3.5-IV1  7 8 4 15 4 8 1 3  0 1 1 1
3.6-IV2  7 8 4 15 4 8 1 3  0 1 1 1
3.7-IV3  7 8 4 15 4 8 1 3  0 1 1 1
3.7-IV4  7 8 4 16 4 8 1 3  0 1 1 1
3.8-IV0  7 8 4 16 4 8 1 3  0 1 1 1
3.9-IV0  7 8 4 17 4 9 1 3  0 1 1 1
""".strip().splitlines()


def under(text: str) -> InterBrokerVersions:
    version = read_version(text)
    return versions_for(version.release, version.step)


@pytest.mark.parametrize("row", STEPS, ids=lambda row: row.split()[0])
def test_each_step_has_its_versions(row: str) -> None:
    step, *expected = row.split()
    versions = under(step)
    assert [int(getattr(versions, name)) for name in NAMES] == list(map(int, expected))
    assert versions.controlled_shutdown == 3


def test_a_release_means_its_last_step() -> None:
    assert under("2.7") == under("2.7.2") == under("2.7-IV2")
    assert under("3.9") == under("3.9.1") == under("3.9-IV0")


def test_settings_older_than_any_that_is_served_have_the_oldest_versions() -> None:
    assert under("0.10.2") == under("2.6") == under("2.7-IV0") == OLDEST


@pytest.mark.parametrize("row", STEPS, ids=lambda row: row.split()[0])
def test_every_version_that_is_sent_is_one_that_is_served(row: str) -> None:
    versions = under(row.split(maxsplit=1)[0])
    sent = {
        ApiKey.LEADER_AND_ISR: versions.leader_and_isr,
        ApiKey.UPDATE_METADATA: versions.update_metadata,
        ApiKey.STOP_REPLICA: versions.stop_replica,
        ApiKey.CONTROLLED_SHUTDOWN: versions.controlled_shutdown,
        ApiKey.FETCH: versions.fetch,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: versions.offset_for_leader_epoch,
        ApiKey.LIST_OFFSETS: versions.list_offsets,
        ApiKey.WRITE_TXN_MARKERS: versions.write_txn_markers,
        ApiKey.ALTER_PARTITION: versions.alter_partition_max,
    }
    for key, version in sent.items():
        assert APIS[key].min_version <= version <= APIS[key].max_version
