"""With flush.messages=M, no more than M - 1 records that count as committed can be lost with the power."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import LeaderEpoch
from sordini.replication.leader import Term
from sordini.replication.partition import Partition
from sordini.replication.purgatory import DelayedOperation
from sordini.storage.log_config import LogConfig
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.partitions import ME, NAME, SETTINGS, TOPIC_ID, checked, logs_on

RECORDS = 3
"""In every batch of `checked`."""


def synced_every(messages: int, disk: ForgetfulDisk | None = None) -> Partition:
    config = LogConfig(flush_messages=messages, segment_bytes=2_000)
    log = logs_on(disk or ForgetfulDisk()).create(NAME, TOPIC_ID, config)
    partition = Partition(NAME, TOPIC_ID, log, SETTINGS._replace(log=config))
    partition.become_leader(ME, Term(LeaderEpoch(0), (ME,), (ME,)), 0)
    return partition


def readable(partition: Partition) -> int:
    return partition.readable_end(committed_only=False)


def disk_of(partition: Partition) -> ForgetfulDisk:
    disk = partition.log.log_dir.disk
    assert isinstance(disk, ForgetfulDisk)
    return disk


def found_after_a_power_cut(partition: Partition, seed: int) -> int:
    """How many records there are after a restart; not even the partition's name may have come to the disk."""
    logs = logs_on(disk_of(partition).power_lost(seed), config_of=lambda _: partition.settings.log)
    log = logs.get(NAME)
    return 0 if log is None else log.log_end_offset


async def test_a_record_is_not_readable_before_the_disk_has_it_where_each_is_to_be_synced() -> None:
    partition = synced_every(1)
    woken: list[bool] = []
    DelayedOperation(1, [partition], lambda: woken.append(True))
    partition.append(checked(), 0, all_replicas=True)
    partition.notify_purgatory()
    assert (readable(partition), partition.log.high_watermark, woken) == (0, 0, [])
    assert partition.read(0, 10_000, whole_first=True, committed_only=False) is None
    await partition.log.flush_if_due()
    assert (readable(partition), partition.log.high_watermark, woken) == (3, 3, [True])


async def test_the_append_that_reaches_the_number_waits_and_those_before_it_do_not() -> None:
    partition = synced_every(2 * RECORDS)
    partition.append(checked(), 0, all_replicas=True)
    assert readable(partition) == 3
    partition.append(checked(), 0, all_replicas=True)
    assert readable(partition) == 3
    partition.append(checked(), 0, all_replicas=True)
    assert readable(partition) == 3
    await partition.log.flush_if_due()
    assert readable(partition) == 9
    partition.append(checked(), 0, all_replicas=True)
    assert readable(partition) == 12


async def test_producers_that_come_while_a_sync_runs_share_the_next_one() -> None:
    partition = synced_every(1)
    disk = disk_of(partition)
    gate = asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    disk.before_offload = hold
    waiting: list[asyncio.Task[None]] = []
    for _ in range(16):
        partition.append(checked(), 0, all_replicas=False)
        waiting.append(asyncio.ensure_future(partition.log.flush_if_due()))
        await asyncio.sleep(0)
    before = len(disk.log)
    gate.set()
    await asyncio.gather(*waiting)
    synced = [path for kind, path in disk.log[before:] if kind == "sync" and path.endswith(".log")]
    assert len(synced) == 2, "the first one's, and one for the fifteen that waited for it"
    assert readable(partition) == partition.log.recovery_point == 16 * RECORDS


async def test_a_stream_of_producers_pays_two_syncs_a_round_and_not_one_each() -> None:
    partition = synced_every(1)
    disk = disk_of(partition)

    async def slowly() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    disk.before_offload = slowly

    async def producer() -> None:
        for _ in range(5):
            partition.append(checked(), 0, all_replicas=False)
            await partition.log.flush_if_due()

    before = len(disk.log)
    await asyncio.gather(*(producer() for _ in range(8)))
    synced = [path for kind, path in disk.log[before:] if kind == "sync" and path.endswith(".log")]
    assert readable(partition) == 40 * RECORDS
    assert len(synced) <= 12


async def test_a_record_appended_while_another_is_synced_waits_for_the_next_sync() -> None:
    partition = synced_every(1)
    partition.append(checked(), 0, all_replicas=False)

    async def append_one_more() -> None:
        disk_of(partition).before_offload = None
        partition.append(checked(), 0, all_replicas=False)

    disk_of(partition).before_offload = append_one_more
    await partition.log.flush_if_due()
    assert readable(partition) == RECORDS
    await partition.log.flush_if_due()
    assert readable(partition) == 2 * RECORDS


async def test_a_new_term_does_not_commit_what_is_not_on_the_disk() -> None:
    partition = synced_every(1)
    partition.append(checked(), 0, all_replicas=False)
    partition.resign()
    partition.become_leader(ME, Term(LeaderEpoch(1), (ME,), (ME,)), 0)
    assert readable(partition) == 0


async def test_a_sync_that_failed_leaves_the_records_uncommitted_and_the_next_tick_takes_them() -> None:
    disk = ForgetfulDisk()
    logs = logs_on(disk)
    config = LogConfig(flush_messages=1)
    partition = Partition(NAME, TOPIC_ID, logs.create(NAME, TOPIC_ID, config), SETTINGS._replace(log=config))
    partition.become_leader(ME, Term(LeaderEpoch(0), (ME,), (ME,)), 0)
    partition.append(checked(), 0, all_replicas=True)
    flush = asyncio.ensure_future(partition.log.flush_if_due())
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert readable(partition) == 0
    await logs.tick(0)
    assert readable(partition) == RECORDS


async def test_records_that_no_longer_need_the_disk_count_at_once() -> None:
    partition = synced_every(1)
    partition.append(checked(), 0, all_replicas=True)
    partition.log.config = LogConfig()
    partition.flushed()
    assert readable(partition) == RECORDS


async def test_what_is_found_after_a_kill_is_synced_before_it_counts_again() -> None:
    partition = synced_every(1)
    partition.append(checked(), 0, all_replicas=True)
    found = disk_of(partition).killed()
    logs = logs_on(found, config_of=lambda _: partition.settings.log)
    log = logs.get(NAME)
    assert log is not None
    again = Partition(NAME, TOPIC_ID, log, partition.settings)
    again.become_leader(ME, Term(LeaderEpoch(1), (ME,), (ME,)), 0)
    assert readable(again) == RECORDS
    for seed in range(20):
        assert found_after_a_power_cut(again, seed) == RECORDS


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.lists(st.sampled_from(["append", "append", "flush", "roll"]), max_size=25),
    st.integers(0, 10**6),
)
async def test_a_power_cut_takes_fewer_committed_records_than_the_number(
    messages: int, steps: list[str], seed: int
) -> None:
    partition = synced_every(messages)
    chance = random.Random(seed)
    for step in steps:
        if step == "append":
            partition.append(checked(), 0, all_replicas=True)
            if chance.random() < 0.5:
                await partition.log.flush_if_due()
        elif step == "flush":
            await partition.log.flush()
        else:
            partition.log.roll(0)
        assert readable(partition) <= partition.log.log_end_offset
    assert readable(partition) - found_after_a_power_cut(partition, seed) < messages
