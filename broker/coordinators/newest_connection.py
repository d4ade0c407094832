"""Which requests of a transactional producer come too late: those on an older connection than the newest that it used.

A client that gets no answer closes its connection, opens another one and sends the request again. The first request
may still arrive, when its transaction is over. Below KIP-890 part 2 the transactions of a producer have one epoch, so
nothing in that request tells which transaction it was for. Its connection does: an abandoned connection is older than
the one on which the client went on.

Every broker numbers the connections that it accepts, from 0: a connection's number is the count of those before it.
The coordinator remembers for each key the newest connection of a request that it served, and serves no older one: it
closes the older connection without an answer. A client that lives opens a new connection then, and sends again.

The floor is the lowest connection that is admitted for a key of which nothing is remembered. It is the count of
accepted connections when the coordinator's partition is loaded: whatever was forgotten was older than that.

Pure. One object for each loaded partition of a coordinator. `docs/delayed-requests.md` has the schedules, and what was
explored.
"""

from __future__ import annotations

from typing import Final

CAPACITY_DEFAULT: Final = 100_000
"""Keys. More than the live producers of a partition of `__transaction_state`, at about 150 bytes each."""


class NewestConnections:
    """The newest connection of each key, a producer with its current producer id and epoch.

    To be asked after the checks of producer id and epoch: a request of another epoch must not raise what is remembered.

    Invariant: no connection is admitted that is older than one admitted before for that key, unless the key was
    forgotten or began a new epoch in between. It holds for evicted keys, too, because an eviction raises the floor.
    """

    __slots__ = ("_newest", "capacity", "floor")

    def __init__(self, floor: int = 0, capacity: int = CAPACITY_DEFAULT) -> None:
        """`floor` is the count of connections that the broker had accepted when the partition was loaded."""
        assert floor >= 0
        assert capacity > 0
        self.floor = floor
        self.capacity = capacity
        self._newest: dict[str, int] = {}
        """By key. A key is put at the end when its connection changes: the first ones are mostly the oldest."""

    def __len__(self) -> int:
        """The number of keys that are remembered."""
        return len(self._newest)

    def admit(self, key: str, connection: int, *, is_init: bool = False) -> bool:
        """Whether a request of this key on this connection may be served; if so, the connection is remembered.

        If not, the connection is to be closed without an answer (an error code could reach a client that is right).

        `is_init` is for an InitProducerId that gives a new producer epoch, at the moment when the epoch is in force:
        requests sent before are fenced by their epoch, so any connection may begin. An InitProducerId that is answered
        with the epoch as it is (the retry of KIP-360) is a request like the others.
        """
        newest = self._newest.get(key)
        if connection == newest:
            return True
        if not is_init and connection < (self.floor if newest is None else newest):
            return False
        if newest is not None:
            del self._newest[key]
        elif len(self._newest) >= self.capacity:
            self._evict()
        self._newest[key] = connection
        return True

    def is_older(self, key: str, connection: int) -> bool:
        """Whether a connection is older than what is remembered of a key; the floor does not count."""
        newest = self._newest.get(key)
        return newest is not None and connection < newest

    def forget(self, key: str) -> None:
        """Drop what is remembered of a key whose producer id or epoch is not valid any more, or that expired."""
        self._newest.pop(key, None)

    def _evict(self) -> None:
        key = next(iter(self._newest))
        self.floor = max(self.floor, self._newest.pop(key))
