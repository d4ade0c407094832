"""Partitions on a disk in memory, as a broker holds them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.leader import Term
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import NO_PEERS, PartitionSettings, Peers
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, writable

ME = BrokerId(1)
OTHER = BrokerId(2)
TOPIC_ID = TopicId(bytes(range(16)))
OTHER_TOPIC_ID = TopicId(bytes(range(16, 32)))
CLUSTER_ID = "0123456789abcdefghijkl"
NAME = TopicPartition("orders", 0)

RULES = ProduceRules(
    message_bytes_max=1_000_000,
    key_required=False,
    log_append_time=False,
    timestamp_before_ms_max=2**63 - 1,
    timestamp_after_ms_max=2**63 - 1,
    codec=None,
    codec_level=None,
    check_compressed=False,
    expanded_bytes_max=1_000_000,
)
SETTINGS = PartitionSettings(log=LogConfig(), rules=RULES, min_insync_replicas=1, down_conversion=True)


def logs_on(
    disk: ForgetfulDisk,
    *directories: str,
    config_of: Callable[[TopicPartition], LogConfig] = lambda _: LogConfig(),
) -> LogManager:
    """The logs of broker 1, opened."""
    logs = LogManager(disk, directories or ("/logs",), Identity(ME, CLUSTER_ID), config_of, random.Random(1))
    logs.open(0)
    return logs


def a_partition(
    *,
    in_sync: Sequence[BrokerId] = (ME,),
    replicas: int = 1,
    epoch: int = 0,
    settings: PartitionSettings = SETTINGS,
    peers: Peers = NO_PEERS,
) -> Partition:
    """A partition with an empty log, led by broker 1."""
    log = logs_on(ForgetfulDisk()).create(NAME, TOPIC_ID, settings.log)
    partition = Partition(NAME, TOPIC_ID, log, settings, peers)
    partition.become_leader(
        ME, Term(LeaderEpoch(epoch), tuple(in_sync), tuple(BrokerId(number) for number in range(1, replicas + 1))), 0
    )
    return partition


def checked(batch: bytes | None = None) -> CheckedBatches:
    """A batch of three records, or the one given, as the produce handler hands it on."""
    return check_produced(writable(a_batch() if batch is None else batch), RULES, 0, produce_version=9)
