"""How many transactional ids and ongoing transactions one broker coordinates, and what is refused beyond.

Clients choose transactional ids, and each stays for days. What is loaded from the log is always kept. Pure.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.transactions.machine.events import AddPartitions, InitProducerId, Request
from sordini.broker.transactions.machine.state import Transaction, TransactionState

_ONGOING: Final = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})


class TransactionCounts:
    """The counts of one broker, and their limits."""

    def __init__(self, ids_max: int, ongoing_max: int) -> None:
        self._ids_max = ids_max
        self._ongoing_max = ongoing_max
        self.ids = 0
        self.ongoing = 0
        """Transactions that are ongoing, or prepared and not completed."""
        self._reported: set[str] = set()

    def changed(self, before: Transaction | None, after: Transaction | None) -> None:
        """A transactional id was added, changed or removed (None)."""
        self.ids += (after is not None) - (before is not None)
        self.ongoing += (after is not None and after.state in _ONGOING) - (
            before is not None and before.state in _ONGOING
        )
        if self._reported and self.ids < self._ids_max and self.ongoing < self._ongoing_max:
            self._reported.clear()

    def is_news(self, reason: str) -> bool:
        """Whether a refusal is to be logged: the first for its reason since the counts were below both limits."""
        is_first = reason not in self._reported
        self._reported.add(reason)
        return is_first

    def refusal(self, transaction: Transaction | None, request: Request) -> str | None:
        """Which limit does not admit a request; None where it is admitted."""
        if isinstance(request, InitProducerId) and transaction is None and self.ids >= self._ids_max:
            return f"sordini.transactional.ids.max={self._ids_max} is reached"
        begins = isinstance(request, AddPartitions) and transaction is not None and transaction.state.is_idle
        if begins and self.ongoing >= self._ongoing_max:
            return f"sordini.transactions.ongoing.max={self._ongoing_max} is reached"
        return None
