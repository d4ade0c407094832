"""Topics as an earlier cluster left them in ZooKeeper: leader epochs that moved on, replicas on brokers that are gone.

No request to one broker makes such a state, so it is written before the broker starts.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.cluster.tree import Tree

GONE: Final = 7
"""A broker that has replicas and is never there; its fetches are sent by the test."""

LEADER_EPOCH: Final = 5
"""Of the partitions of EPOCHS."""

QUIET, OTHER, EPOCHS, ELSEWHERE = "quiet", "other", "epochs", "elsewhere"
SECRET, SEGMENTS, OLD = "secret", "segments", "old"


class Planted(NamedTuple):
    """One partition; its leader is the first replica."""

    replicas: tuple[int, ...] = (0,)
    leader_epoch: int = 0


HERE: Final = Planted((0, GONE))
TOPICS: Final[Mapping[str, Sequence[Planted]]] = {
    # Spread over both log directories, so that one of them is in each.
    QUIET: [HERE, HERE, HERE, HERE],
    OTHER: [HERE],
    EPOCHS: [HERE._replace(leader_epoch=LEADER_EPOCH)],
    ELSEWHERE: [Planted((GONE,))],
    SECRET: [HERE],
    SEGMENTS: [HERE],
    OLD: [HERE],
}
CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    QUIET: {"segment.bytes": "1000"},
    SEGMENTS: {"segment.bytes": "1000"},
    OLD: {"message.downconversion.enable": "false"},
}


def plant(
    tree: Tree, topics: Mapping[str, Sequence[Planted]] = TOPICS, configs: Mapping[str, Mapping[str, str]] = CONFIGS
) -> None:
    """Write the topics, before a broker has started there."""
    for topic, partitions in topics.items():
        for number, one in enumerate(partitions):
            leader = one.replicas[0]
            state = {
                "controller_epoch": 1,
                "leader": leader,
                "version": 1,
                "leader_epoch": one.leader_epoch,
                "isr": [leader],
            }
            tree.create(f"/brokers/topics/{topic}/partitions/{number}/state", state)
        assignment = {str(number): list(one.replicas) for number, one in enumerate(partitions)}
        topic_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        more = {"removing_replicas": {}, "topic_id": topic_id, "adding_replicas": {}, "version": 3}
        tree.put(f"/brokers/topics/{topic}", json.dumps({"partitions": assignment, **more}).encode())
    for topic, config in configs.items():
        tree.create(f"/config/topics/{topic}", {"version": 1, "config": dict(config)})
