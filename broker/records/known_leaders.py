"""The leaders of partitions that are led elsewhere, in responses to Produce and Fetch (KIP-951).

A client that is refused with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH connects to the leader that is named beside
the error, and needs no Metadata request for it. As at Apache Kafka, a partition with a replica here has the leader that
the replica knows, and any other one that of the controller's metadata; the address is that of the listener, or of the
rule (`sordini.advertised.listeners.rules`), by which the client has connected.

Leaders are named when a response that has such an error is encoded (`Call.amend`); other responses have no work for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from sordini.broker.network.ports import Peer
from sordini.broker.requests.call import Call
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import LeaderIdAndEpoch, NodeEndpoint
from sordini.protocol.messages.fetch import FetchResponse
from sordini.protocol.messages.produce import ProduceResponse
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.replica_set import ReplicaSet
from sordini.system.named_tuple import NamedTuple

PRODUCE_SINCE: Final = 10
FETCH_SINCE: Final = 16
"""The first versions whose responses name leaders."""
PRODUCE_CODES: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})
FETCH_CODES: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class KnownLeaders(NamedTuple):
    """The replicas of this broker, and the leaders of all other partitions."""

    replicas: ReplicaSet
    metadata: MetadataCache

    def name_in_produce(self, call: Call) -> None:
        """Let the response to a Produce name the leaders of partitions that were refused because of them."""
        if call.version >= PRODUCE_SINCE:
            _amend(call, lambda response: self._with_produce_leaders(response, call.peer))

    def name_in_fetch(self, call: Call) -> None:
        """As above, to a Fetch."""
        if call.version >= FETCH_SINCE:
            _amend(call, lambda response: self._with_fetch_leaders(response, call.peer))

    def name_in_shares(self, response: Any, peer: Peer) -> None:
        """As above, in a response to ShareFetch or ShareAcknowledge that is not sent yet."""
        rows = (
            ("", topic.topic_id, row.partition_index, row)
            for topic in response.responses
            for row in topic.partitions
            if row.error_code in FETCH_CODES or getattr(row, "acknowledge_error_code", 0) in FETCH_CODES
        )
        response.node_endpoints = self._named(rows, peer)

    def _with_produce_leaders(self, response: ProduceResponse, peer: Peer) -> ProduceResponse:
        rows = (
            (topic.name, topic.topic_id, row.index, row)
            for topic in response.responses
            for row in topic.partition_responses
            if row.error_code in PRODUCE_CODES
        )
        response.node_endpoints = self._named(rows, peer)
        return response

    def _with_fetch_leaders(self, response: FetchResponse, peer: Peer) -> FetchResponse:
        rows = (
            (topic.topic, topic.topic_id, row.partition_index, row)
            for topic in response.responses
            for row in topic.partitions
            if row.error_code in FETCH_CODES
        )
        response.node_endpoints = self._named(rows, peer)
        return response

    def _named(self, rows: Iterable[tuple[str, bytes, int, Any]], peer: Peer) -> list[NodeEndpoint]:
        """Name the leader in each row; returns the addresses of all of them that the peer can reach."""
        endpoints: dict[BrokerId, NodeEndpoint] = {}
        for topic, topic_id, index, row in rows:
            leader = self._leader(topic or self.metadata.name_of(TopicId(topic_id)) or "", index)
            if leader is None:
                continue
            row.current_leader = leader
            broker_id = BrokerId(leader.leader_id)
            if (endpoint := self._endpoint(broker_id, peer)) is not None:
                endpoints[broker_id] = endpoint
        return list(endpoints.values())

    def _leader(self, topic: str, index: int) -> LeaderIdAndEpoch | None:
        partition = self.replicas.get(topic, index)
        if partition is not None and partition.known_leader is not None:
            broker_id, leader_epoch = partition.known_leader
            return LeaderIdAndEpoch(leader_id=broker_id, leader_epoch=leader_epoch)
        known = self.metadata.topics.get(topic)
        found = None if known is None else known.partitions.get(index)
        if found is None:
            return None
        return LeaderIdAndEpoch(leader_id=found.leader, leader_epoch=found.leader_epoch)

    def _endpoint(self, broker_id: BrokerId, peer: Peer) -> NodeEndpoint | None:
        """None for a broker that is not live, or has no listener as the peer's."""
        broker = self.metadata.brokers.get(broker_id)
        address = None if broker is None else self.metadata.address_of(broker, peer)
        if broker is None or address is None:
            return None
        host, port = address
        return NodeEndpoint(node_id=broker_id, host=host, port=port, rack=broker.rack)


def _amend(call: Call, change: Callable[[Any], Any]) -> None:
    """Change the response after what amends it already, which adds the rows that were refused before."""
    before = call.amend
    call.amend = change if before is None else lambda response: change(before(response))
