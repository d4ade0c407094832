"""All laws, and the judgement of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from tests.cluster.chaos import laws, outage_laws, replica_laws, security_laws, transaction_laws
from tests.cluster.chaos.events import ABORTED, COMMITTED, OK, History
from tests.cluster.security import WAYS

LAWS: Final[dict[str, Callable[[History], Iterator[str]]]] = {
    "I1": laws.lost_writes,
    "I2": laws.duplicates,
    "I3": laws.inconsistent_offsets,
    "I4": laws.disorder,
    "I5": laws.unwanted_reads,
    "I6": transaction_laws.torn_transactions,
    "I7": laws.skipped_polls,
    "I8": replica_laws.high_watermarks,
    "I9": replica_laws.divergence,
    "I10": replica_laws.epochs,
    "I11": laws.phantoms,
    "I12": replica_laws.groups,
    "I13": replica_laws.recovery,
    "I14": replica_laws.liveness,
    "I14 of transactions": transaction_laws.idle_producers,
    "I15": outage_laws.availability,
    "I16": transaction_laws.unequal_copies,
    "I17": transaction_laws.hanging_transactions,
    "I18": security_laws.unauthorized_requests,
    "seen": replica_laws.seen_wrong,
}
ACKNOWLEDGED_PER_MINUTE_MIN: Final = 20_000
"""A run in which less was written proves less: 200,000 in ten minutes."""
LINES_MAX: Final = 50
"""Of each law: a broken law is usually broken often."""


def what_is_missing(history: History, faults: int, minutes: float, *, secured: bool = False) -> list[str]:
    """Why a run says nothing, though no law may be broken: it did not do what its plan says, or was not read."""
    refusals = security_laws.refusals(history)
    wanted = int(ACKNOWLEDGED_PER_MINUTE_MIN * minutes)
    acknowledged, done = {one.tp for one in history.written if one.result == OK}, history.acknowledged_count
    found = {
        f"{len(history.faults)} faults of {faults}": len(history.faults) >= faults,
        f"{done:,} writes acknowledged of {wanted:,} at least": done >= wanted,
        "no transaction of each outcome": {COMMITTED, ABORTED} <= {one.outcome for one in history.transactions},
        "no copy": any(one.target for one in transaction_laws.copies(history)),
        "no late request": bool(history.lates),
        "not every partition was asked for its last stable offset": acknowledged <= {one.tp for one in history.stables},
        "not every partition that was written to was read in the end": acknowledged <= history.last.keys(),
        "not every partition that was written to was found in files": acknowledged <= {one.tp for one in history.dumps},
    }
    if secured:
        found |= {f"no request was refused {way}": refusals[way] > 0 for way in WAYS}
    return [f"incomplete: {what}" for what, is_well in found.items() if not is_well]


def violations(history: History) -> list[str]:
    """Every breach as a line, its law first; of one law so many at most."""
    return [line for law in LAWS.values() for line in islice(law(history), LINES_MAX)]
