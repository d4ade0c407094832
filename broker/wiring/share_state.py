"""How the states of share partitions are kept and reached: coordinator, requests to others, and the way to either."""

from __future__ import annotations

from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import Ports
from sordini.broker.share_state.coordinator import ShareCoordinator
from sordini.broker.share_state.persister import CoordinatedStates
from sordini.broker.share_state.remote_states import RemoteStates
from sordini.broker.share_state.state_topic import share_state_topic_spec
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.inter_broker import InterBroker
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple


class ShareStateParts(NamedTuple):
    """What keeps and reaches stored states."""

    topic: InternalTopic
    coordinator: ShareCoordinator
    persister: CoordinatedStates
    remote: RemoteStates


def wire_share_states(
    deps: BrokerDeps, topics: TopicAdmin, metadata: MetadataCache, inter_broker: InterBroker, ports: Ports
) -> ShareStateParts:
    """Build all; a connection is made when there is a question for its broker."""
    config, broker_id = deps.config, deps.cluster.identity.broker_id
    topic = InternalTopic(share_state_topic_spec(config), config, topics, metadata, ports.spawn, ports.log)

    def has_partition(topic_id: TopicId, partition: int) -> bool:
        name = metadata.name_of(topic_id)
        return name is not None and metadata.exists(name, partition)

    def is_known(topic_id: TopicId) -> bool:
        return metadata.name_of(topic_id) is not None

    coordinator = ShareCoordinator(config, topic, ports, has_partition, is_known)
    timeout_ms = config.request_timeout_ms
    remote = RemoteStates(broker_id, inter_broker.links, ports.spawn, ports.log, timeout_ms)
    persister = CoordinatedStates(broker_id, topic, metadata, coordinator, remote, ports, timeout_ms)
    return ShareStateParts(topic, coordinator, persister, remote)
