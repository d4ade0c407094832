"""Fetching from the closest replica (KIP-392): leaders refer consumers to a replica in the consumer's rack.

Off unless `replica.selector.class` is set. `replication/replica_selector.py` chooses the replica; this module gives it
the live brokers of each rack, by the listeners on which they can be reached.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.network.ports import Peer
from sordini.broker.requests.call import Call
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.types import BrokerId, Offset
from sordini.replication.leader import Leader
from sordini.replication.replica_selector import preferred_read_replica


class RackAwareReplicaSelector:
    """Chooses the preferred read replica for fetches; the name is that of Apache Kafka's selector."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._same_rack: dict[tuple[str, str, str], frozenset[BrokerId]] = {}
        self._epoch = -1

    def __call__(self, call: Call) -> Callable[[Leader, int], BrokerId | None]:
        """The choice for the client of a fetch, by the rack that the fetch names."""
        request: FetchRequest = call.body
        same_rack = self.reachable_in(request.rack_id, call.peer)
        return lambda leader, fetch_offset: preferred_read_replica(leader, Offset(fetch_offset), same_rack)

    def reachable_in(self, rack: str, peer: Peer) -> frozenset[BrokerId]:
        """The live brokers of a rack that a peer can connect to."""
        metadata = self._metadata
        if self._epoch != metadata.epoch:
            self._epoch = metadata.epoch
            self._same_rack.clear()
        key = rack, peer.listener, peer.endpoint_name
        found = self._same_rack.get(key)
        if found is None:
            brokers = [one for one in metadata.brokers.values() if one.rack == rack]
            found = frozenset(one.broker_id for one in brokers if metadata.address_of(one, peer) is not None)
            if brokers:  # A name of a rack that is none is only a client's.
                self._same_rack[key] = found
        return found
