"""How the cluster's controller is to act, by the configuration of the broker in whose process it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sordini.replication.cluster_model import DEFAULT_CLUSTER_SETTINGS, ClusterSettings

UNCLEAN_KEY = "unclean.leader.election.enable"
FIRST_BALANCE_S = 5.0
"""From the election to the first look at who leads what; Apache Kafka's figure."""


class LeaderRebalance(NamedTuple):
    """When leaderships are evened out (see `leaders`)."""

    interval_s: float = 300.0
    percentage: int = 10


def _by_topic_alone(settings: Mapping[str, str]) -> bool:
    return settings.get(UNCLEAN_KEY, "false").lower() == "true"


class Policy(NamedTuple):
    """What the controller is told at its start, and whom it asks."""

    cluster_settings: ClusterSettings = DEFAULT_CLUSTER_SETTINGS
    balance: LeaderRebalance | None = None
    """None: leaderships are evened out only when somebody asks for it."""
    allows_unclean: Callable[[Mapping[str, str]], bool] = _by_topic_alone
    """Whether a topic with these settings of its own may be led by a replica that is not in sync."""
    cluster_id: str | None = None
    """The cluster whose tree a controller may be elected in. None: any."""
    epoch_min: int = 0
    """The highest controller epoch that this broker has obeyed: an election wins one above it."""


DEFAULT_POLICY = Policy()
