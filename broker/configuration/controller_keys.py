"""The keys of the controller: how it evens out who leads what."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, integer, long, setting


@dataclasses.dataclass(frozen=True)
class ControllerSettings:
    """What a broker does while it is the controller. Defaults are Apache Kafka's."""

    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        boolean,
        True,
        "Whether the controller gives brokers back what they are preferred to lead.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        long(1),
        300,
        "How often it looks; for the first time five seconds after its election.",
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        integer(0),
        10,
        "Share of the partitions that prefer a broker which others may lead before they are given back.",
    )
