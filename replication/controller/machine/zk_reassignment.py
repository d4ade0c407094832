"""Moves that a tool asks for by writing /admin/reassign_partitions (`kafka-reassign-partitions --zookeeper`).

The node is a list of partitions and their targets. What is granted begins like any other move; what cannot be, or is
so already, is struck off. A partition is struck off, too, when its move has ended or another one took its place, and
with the last of them the node goes: by that the tool knows that all is done. A tool may add to it meanwhile, so it is
written on the version that was read, and read again whenever it changes.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from dataclasses import replace

from sordini.replication.controller.machine import admin_validation, reassignment
from sordini.replication.controller.machine.events import (
    Done,
    Outcome,
    RemainingZkReassignments,
    Write,
    ZkReassignmentsRead,
)
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Delete, Set


def look(transition: Transition, event: ZkReassignmentsRead) -> None:
    """Begin what is in the node and not under way yet."""
    transition.zk_reassignments = event.noted
    if event.noted is not None:
        reassignment.begin(transition, event.noted.targets)


def tick_off(transition: Transition) -> None:
    """Strike off what is over. Not in a step that writes: what becomes of that is not known yet."""
    noted = transition.zk_reassignments
    if noted is None or transition.has_writes:
        return
    cluster, _ = transition.finish()
    left = {
        one: target
        for one, target in noted.targets.items()
        if admin_validation.is_reassigning(cluster, one) and admin_validation.is_reassigning_to(cluster, one, target)
    }
    if not left:
        transition.zk_reassignments = None
        transition.write(Write(Delete(paths.REASSIGN_PARTITIONS, noted.version)))
    elif len(left) < len(noted.targets):
        kept = replace(noted, targets=left)
        operation = Set(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(left), noted.version)
        transition.write(Write(operation, RemainingZkReassignments(kept)))


def wrote(transition: Transition, purpose: RemainingZkReassignments, outcome: Outcome) -> None:
    """Learn what the node holds now. When somebody else wrote it, it is about to be read again."""
    transition.zk_reassignments = replace(purpose.noted, version=outcome.version) if isinstance(outcome, Done) else None
