"""The keys of the controller: preferred leader election."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, integer, long, setting


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ControllerSettings:
    """What a broker does while it is the controller. Defaults are Apache Kafka's."""

    auto_leader_rebalance_enable: bool = setting(
        "auto.leader.rebalance.enable",
        boolean,
        True,
        "Whether the controller elects preferred leaders periodically.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        "leader.imbalance.check.interval.seconds",
        long(1),
        300,
        "How often the leader imbalance is checked; first five seconds after the controller's election.",
    )
    leader_imbalance_per_broker_percentage: int = setting(
        "leader.imbalance.per.broker.percentage",
        integer(0),
        10,
        "Percentage of a broker's preferred partitions led by others above which preferred leaders are elected.",
    )
