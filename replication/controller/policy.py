"""The controller's settings, from the configuration of its broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.replication.cluster_model import DEFAULT_CLUSTER_SETTINGS, ClusterSettings
from sordini.system.named_tuple import NamedTuple

UNCLEAN_KEY = "unclean.leader.election.enable"
FIRST_REBALANCE_S = 5.0
"""From the controller's election to the first leader rebalance; Apache Kafka's value."""


class LeaderRebalance(NamedTuple):
    """The automatic leader rebalance (see `machine/leader_rebalance.py`)."""

    interval_s: float = 300.0
    percentage: int = 10


def _by_topic_alone(settings: Mapping[str, str]) -> bool:
    return settings.get(UNCLEAN_KEY, "false").lower() == "true"


class Policy(NamedTuple):
    """The settings of a controller."""

    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS
    rebalance: LeaderRebalance | None = None
    """None: no automatic rebalance."""
    allows_unclean: Callable[[Mapping[str, str]], bool] = _by_topic_alone
    """Whether a topic with these settings of its own allows unclean elections."""
    cluster_id: str | None = None
    """The cluster whose tree a controller may be elected in. None: any."""
    epoch_min: int = 0
    """The highest controller epoch that this broker has obeyed: an elected controller gets a higher one."""


DEFAULT_POLICY = Policy()
