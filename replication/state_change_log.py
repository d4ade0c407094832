"""The log lines of state changes: `ISR expanded`, `ISR shrunk`, and `became leader` and `became follower`.

Role changes have one line per partition, or one per leader where a command changes many.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.leader import Leader
from sordini.replication.ports import Logger

LINES_MAX: Final = 20
"""Role changes of one command that have their own lines; more are counted, in one line for each leader."""


class RoleLog:
    """The role changes since the last `write`."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._changes: list[tuple[str, TopicPartition, dict[str, object]]] = []

    def became_leader(self, name: TopicPartition, leader_epoch: int, isr: tuple[BrokerId, ...]) -> None:
        self._changes.append(("became leader", name, {"leader_epoch": leader_epoch, "isr": list(isr)}))

    def became_follower(self, name: TopicPartition, leader_epoch: int, leader: BrokerId) -> None:
        self._changes.append(("became follower", name, {"leader": leader, "leader_epoch": leader_epoch}))

    def write(self) -> None:
        """Write the lines; due at the end of each command."""
        changes, self._changes = self._changes, []
        if len(changes) <= LINES_MAX:
            for event, name, fields in changes:
                self._log.info(event, partition=str(name), **fields)
            return
        leaders: dict[tuple[str, object], list[TopicPartition]] = {}
        for event, name, fields in changes:
            leaders.setdefault((event, fields.get("leader")), []).append(name)
        for (event, leader), names in leaders.items():
            more = {} if leader is None else {"leader": leader}
            self._log.info(event, partitions=len(names), first=str(names[0]), **more)


def log_isr_change(log: Logger, name: TopicPartition, leader: Leader, old_isr: tuple[BrokerId, ...]) -> None:
    """Log that the in-sync set in force is not `old_isr` any more."""
    changes = {
        "joined": [member for member in leader.isr if member not in old_isr],
        "left": [member for member in old_isr if member not in leader.isr],
    }
    log.info(
        "ISR expanded" if changes["joined"] else "ISR shrunk",
        partition=str(name),
        isr=list(leader.isr),
        **{change: members for change, members in changes.items() if members},
        partition_epoch=leader.partition_epoch,
        leader_epoch=leader.leader_epoch,
    )
