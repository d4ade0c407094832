"""What each seed of the simulated cluster stands for.

Seeds go round through protocol settings, kinds of faults, and one or two replicas that must have a record. Four of
eight seeds have transactional producers (tests/sim/transactions), in place of some of the others; eight of sixteen have
consumer groups (groups.py), with transactions or without.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.inter_broker_versions import InterBrokerVersions, versions_for
from tests.sim.cluster import groups
from tests.sim.cluster.faults import GENTLE, KILLING, PULLING_THE_PLUG, Fault
from tests.sim.cluster.leaderships import STATE_PARTITIONS
from tests.sim.transactions.history import OFFSETS, STATE_TOPIC

BROKERS = tuple(BrokerId(number) for number in (1, 2, 3))
PROTOCOLS = ("3.9-IV0", "3.9-IV0", "2.7-IV2", "2.7-IV0", "2.8-IV1", "3.5-IV1", "2.7-IV1", "3.0-IV1")
"""In-sync sets by the controller and in the store; truncation on fetch and by OffsetForLeaderEpoch; with ids, without."""
SECURED = (3, 13)
LARGE_INDEX = {"segment.index.bytes": "1048576"}


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterScenario:
    """What one seed stands for."""

    seed: int
    seconds: float
    faults: Sequence[Fault]
    protocol: str
    topic_configs: dict[str, dict[str, str]]
    replicas: dict[TopicPartition, tuple[BrokerId, ...]]
    settings: dict[str, str]
    is_secured: bool = False
    """Whether there are TLS, logins and access control, and a guest who may do nothing."""
    has_groups: bool = False
    """Whether there are members of consumer groups."""
    reads_anywhere: bool = False
    """Whether consumers read from leaders and followers alike, all in versions in which followers serve them."""

    @property
    def has_transactions(self) -> bool:
        return any(partition.topic == STATE_TOPIC for partition in self.replicas)

    @property
    def versions(self) -> InterBrokerVersions:
        release, _, step = self.protocol.partition("-IV")
        return versions_for(tuple(map(int, release.split("."))), int(step))


def cluster_scenario(seed: int) -> ClusterScenario:
    """Four of eight seeds have transactions, and eight of sixteen groups. Two of sixteen are secured: one of each kind."""
    plan = _scenario(seed, has_transactions=seed // 4 % 2 == 1, has_groups=seed // 8 % 2 == 1)
    return dataclasses.replace(plan, is_secured=seed % 16 in SECURED)


def without_transactions(seed: int) -> ClusterScenario:
    """The same without transactional producers: bugs of replication are looked for in these."""
    return _scenario(seed, has_transactions=False)


def with_groups(seed: int) -> ClusterScenario:
    """The same with consumer groups and without transactional producers: bugs of groups are looked for in these."""
    return _scenario(seed, has_transactions=False, has_groups=True)


def _scenario(seed: int, *, has_transactions: bool, has_groups: bool = False) -> ClusterScenario:
    source = random.Random(f"cluster scenario {seed}")
    faults = (KILLING, GENTLE, PULLING_THE_PLUG, KILLING)[seed % 4]
    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for partition in (TopicPartition("alpha", 0), TopicPartition("alpha", 1), TopicPartition("beta", 0)):
        order = list(BROKERS)
        source.shuffle(order)
        replicas[partition] = tuple(order)
    configs = {
        topic: {
            "min.insync.replicas": str(source.choice((1, 2))),
            "segment.bytes": str(source.choice((4_000, 15_000, 1_000_000))),
            "index.interval.bytes": source.choice(("0", "1000", "4096")),
        }
        for topic in ("alpha", "beta")
    }
    if faults is PULLING_THE_PLUG:
        for config in configs.values():
            config["flush.messages"] = "1"
    protocol = source.choice(PROTOCOLS)
    internal = [TopicPartition(STATE_TOPIC, index) for index in range(STATE_PARTITIONS)] if has_transactions else []
    if has_transactions or has_groups:
        _add_internal_topics(seed, [*internal, OFFSETS], replicas, configs)
    return ClusterScenario(
        seed=seed,
        seconds=source.uniform(5.0, 9.0),
        faults=faults,
        protocol=protocol,
        topic_configs=configs,
        replicas=replicas,
        settings={
            "inter.broker.protocol.version": protocol,
            "log.index.size.max.bytes": source.choice(("120", "2048")),
            "num.replica.fetchers": str(source.choice((1, 1, 2))),
            "replica.fetch.max.bytes": source.choice(("400", "1500", "1048576")),
            "replica.lag.time.max.ms": str(source.choice((500, 1_000, 2_500))),
            **(groups.SETTINGS if has_groups else {}),
        },
        has_groups=has_groups,
    )


def _add_internal_topics(
    seed: int,
    partitions: Sequence[TopicPartition],
    replicas: dict[TopicPartition, tuple[BrokerId, ...]],
    configs: dict[str, dict[str, str]],
) -> None:
    """The coordinators' topics. Segments and indexes are too large to be compacted: replicas are compared byte for byte."""
    source = random.Random(f"internal topics {seed}")
    for partition in partitions:
        order = list(BROKERS)
        source.shuffle(order)
        replicas[partition] = tuple(order)
    flushes = {"flush.messages": "1"} if "flush.messages" in configs["alpha"] else {}
    for topic in dict.fromkeys(partition.topic for partition in partitions):
        min_isr = str(source.choice((1, 2)))
        configs[topic] = {"cleanup.policy": "compact", "min.insync.replicas": min_isr, **LARGE_INDEX, **flushes}
