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
from sordini.replication.controller.machine.events import Done, MovesNoted, NotesKept, Outcome, Write
from sordini.replication.controller.machine.transition import Turn
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Delete, Set


def look(turn: Turn, event: MovesNoted) -> None:
    """Begin what is in the node and not under way yet."""
    turn.noted_moves = event.noted
    if event.noted is not None:
        reassignment.begin(turn, event.noted.targets)


def tick_off(turn: Turn) -> None:
    """Strike off what is over. Not in a step that writes: what becomes of that is not known yet."""
    noted = turn.noted_moves
    if noted is None or turn.has_written:
        return
    cluster, _ = turn.finish()
    left = {
        one: target
        for one, target in noted.targets.items()
        if admin_validation.is_moving(cluster, one) and admin_validation.is_under_way(cluster, one, target)
    }
    if not left:
        turn.noted_moves = None
        turn.write(Write(Delete(paths.REASSIGN_PARTITIONS, noted.version)))
    elif len(left) < len(noted.targets):
        kept = replace(noted, targets=left)
        operation = Set(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(left), noted.version)
        turn.write(Write(operation, NotesKept(kept)))


def wrote(turn: Turn, purpose: NotesKept, outcome: Outcome) -> None:
    """Learn what the node holds now. When somebody else wrote it, it is about to be read again."""
    turn.noted_moves = replace(purpose.noted, version=outcome.version) if isinstance(outcome, Done) else None
