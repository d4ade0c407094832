"""The laws of every state of a transactional id.

A transaction is what its client sends between two ends, whatever the coordinator takes for one.
"""

from __future__ import annotations

from tests.model.transactions.scopes import Scope
from tests.model.transactions.state import (
    ABORT,
    ABORTED,
    COMMIT,
    COMMITTED,
    NONE,
    ONGOING,
    OPEN,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TWICE,
    Line,
)

TORN = "a transaction is all or nothing"
ABORTED_READ = "nothing is committed of a transaction that its client was answered is aborted"
LOST = "everything is committed of a transaction that its client was answered is committed"
HANGING = "no transaction is ongoing that its client has ended"
FOREIGN = "offsets are committed by their own transaction"
DUPLICATE = "a record is appended once"
FAILED = "a producer without a successor gets no fatal error"
HARM = frozenset({TORN, ABORTED_READ, LOST, HANGING, FOREIGN, DUPLICATE})
ALL = HARM | {FAILED}


def broken_in(line: Line, scope: Scope, watched: frozenset[str]) -> str:
    """The first law that this line breaks of those watched, or an empty string."""
    laws = {
        DUPLICATE: lambda: any(TWICE in partition.fates for partition in line.data),
        FOREIGN: lambda: line.offsets.is_foreign,
        LOST: lambda: _any_transaction(line, scope, COMMIT, _is_lost),
        ABORTED_READ: lambda: _any_transaction(line, scope, ABORT, _is_committed),
        TORN: lambda: any(_is_torn(_fates(line, tag)) for tag in range(len(line.offsets.partition.fates))),
        HANGING: lambda: _is_hanging(line, scope),
        FAILED: lambda: not scope.has_successor and any(client.is_failed for client in line.clients),
    }
    return next((law for law, is_broken in laws.items() if law in watched and is_broken()), "")


def _fates(line: Line, tag: int) -> list[int]:
    return [*(partition.fates[tag] for partition in line.data), line.offsets.partition.fates[tag]]


def _any_transaction(line: Line, scope: Scope, outcome: int, is_wrong) -> bool:
    return any(
        is_wrong(line, scope, me * scope.transactions + transaction)
        for me, client in enumerate(line.clients)
        for transaction, answer in enumerate(client.answers)
        if answer == outcome
    )


def _is_lost(line: Line, scope: Scope, tag: int) -> bool:
    """Whether a write of a committed transaction is not committed, and no marker is still to be written for it."""
    fates = _fates(line, tag) if scope.has_offsets else _fates(line, tag)[:-1]
    entry = line.entry
    coming = entry.pending if entry.state == PREPARE_COMMIT and entry.tag == tag else 0
    return any(fate != COMMITTED and not coming >> place & 1 for place, fate in enumerate(fates))


def _is_committed(line: Line, scope: Scope, tag: int) -> bool:
    return COMMITTED in _fates(line, tag)


def _is_torn(fates: list[int]) -> bool:
    return COMMITTED in fates and ABORTED in fates


def _is_hanging(line: Line, scope: Scope) -> bool:
    """A transaction begun by one that is over, of a client that has begun none since; or an open record that no marker will end."""
    entry = line.entry
    if entry.state == ONGOING:
        client = line.clients[entry.tag // scope.transactions]
        has_ended = client.answers[entry.tag % scope.transactions] != NONE
        return has_ended and client.at % len(scope.program) == 0 and not client.is_failed
    coming = entry.pending if entry.state in (PREPARE_COMMIT, PREPARE_ABORT) else 0
    return any(OPEN in partition.fates and not coming >> place & 1 for place, partition in enumerate(line.data))
