"""The connections of the transactional producers of one partition: which of their requests come too late.

Below an InitProducerId that gave a new epoch no request can be late: what was sent before is fenced by its epoch. So
the next request may come on any connection: aiokafka sends InitProducerId on a newer connection than the rest. Only a
repeated InitProducerId without an epoch has nothing that fences it, so the newest connection of those is remembered
apart.

A producer of transaction.version 2 has an epoch for each transaction, so a late request is refused by that, and none is
by its connection. What is left is InitProducerId without an epoch. Pure.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.coordinators.newest_connection import NewestConnections
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine.events import InitProducerId, Request
from sordini.broker.transactions.machine.state import Transaction

LOWEST: Final = 0
"""The first connection of a broker: older than every other."""


def is_by_epoch(transaction: Transaction, request: Request) -> bool:
    """Whether the producer's transactions have different epochs, so that its connections do not matter."""
    if isinstance(request, InitProducerId):
        return request.expected is not None and transaction.raises_epoch
    return request.client_version >= RAISES_EPOCH


class ProducerConnections:
    """By transactional id."""

    def __init__(self, floor: int) -> None:
        """`floor` is the count of connections that the broker had accepted when the partition was loaded."""
        self._requests = NewestConnections(floor)
        self._inits = NewestConnections()

    def admit(self, transactional_id: str, connection: int) -> bool:
        """Whether a request of the present producer may be served; if not, its connection is to be closed."""
        return self._requests.admit(transactional_id, connection)

    def is_late_init(self, transactional_id: str, connection: int) -> bool:
        """Whether an InitProducerId comes on an older connection than the present producer's requests."""
        return self._inits.is_older(transactional_id, connection) or self._requests.is_older(
            transactional_id, connection
        )

    def began(self, transactional_id: str, connection: int) -> None:
        """The epoch that an InitProducerId on this connection gave is in force."""
        self._inits.admit(transactional_id, connection, is_init=True)
        self._requests.admit(transactional_id, LOWEST, is_init=True)

    def forget(self, transactional_id: str) -> None:
        """The producer was fenced by the coordinator, or its transactional id has expired."""
        self._inits.forget(transactional_id)
        self._requests.forget(transactional_id)
