"""Reassignments that a tool requests in /admin/reassign_partitions (`kafka-reassign-partitions --zookeeper`).

The node lists partitions and their targets. A valid one begins like any other reassignment; one that is invalid or
complete already is removed from the node. A partition is also removed when its reassignment completes or is replaced.
With the last partition the node is deleted, which tells the tool that all are complete. A tool may add partitions
meanwhile, so the node is written under the version that was read, and read again whenever it changes.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from sordini.replication.controller.machine import admin_validation, reassignment
from sordini.replication.controller.machine.events import (
    Done,
    Outcome,
    RemainingZkReassignments,
    StoreWrite,
    ZkReassignmentsRead,
)
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Delete, Set


def node_read(transition: ControllerTransition, event: ZkReassignmentsRead) -> None:
    """Begin the reassignments in the node that are not ongoing."""
    transition.zk_reassignments = event.node
    if event.node is not None:
        reassignment.begin(transition, event.node.targets)


def remove_completed(transition: ControllerTransition) -> None:
    """Remove what is complete from the node. A step that writes does nothing: its outcome is not known yet."""
    node = transition.zk_reassignments
    if node is None or transition.has_writes:
        return
    cluster, _ = transition.finish()
    left = {
        one: target
        for one, target in node.targets.items()
        if admin_validation.is_reassigning(cluster, one) and admin_validation.is_reassigning_to(cluster, one, target)
    }
    if not left:
        transition.zk_reassignments = None
        transition.write(StoreWrite(Delete(paths.REASSIGN_PARTITIONS, node.version)))
    elif len(left) < len(node.targets):
        kept = node._replace(targets=left)
        operation = Set(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(left), node.version)
        transition.write(StoreWrite(operation, RemainingZkReassignments(kept)))


def wrote(transition: ControllerTransition, purpose: RemainingZkReassignments, outcome: Outcome) -> None:
    """Apply the node's new content. After another writer's change it is about to be read again."""
    transition.zk_reassignments = purpose.node._replace(version=outcome.version) if isinstance(outcome, Done) else None
