"""Reading from the closest replica (KIP-392): leaders send consumers to a copy in the consumer's own rack.

Off unless `replica.selector.class` is set. Who is chosen is `replication/replica_selector.py`'s business; here is what that must
know of the cluster: which brokers live, in which racks, and on which listeners they can be reached.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.dispatch import Call
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.types import BrokerId, Offset
from sordini.replication.leader import Leader
from sordini.replication.replica_selector import preferred_read_replica


class RackAwareReplicaSelector:
    """What each fetch prefers."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._near: dict[tuple[str, str], frozenset[BrokerId]] = {}
        self._epoch = -1

    def __call__(self, call: Call) -> Callable[[Leader, int], BrokerId | None]:
        """Where the reader of a fetch, who stands in the rack that it names, had better read."""
        request: FetchRequest = call.body
        near = self._brokers_in(request.rack_id, call.peer.listener)
        return lambda leader, fetch_offset: preferred_read_replica(leader, Offset(fetch_offset), near)

    def _brokers_in(self, rack: str, listener: str) -> frozenset[BrokerId]:
        """The living brokers of a rack that a client of this listener can reach."""
        metadata = self._metadata
        if self._epoch != metadata.epoch:
            self._epoch = metadata.epoch
            by_place: dict[tuple[str, str], set[BrokerId]] = {}
            for broker in metadata.brokers.values():
                for name in broker.endpoints if broker.rack is not None else ():
                    by_place.setdefault((broker.rack or "", name), set()).add(broker.broker_id)
            self._near = {place: frozenset(brokers) for place, brokers in by_place.items()}
        return self._near.get((rack, listener), frozenset())
