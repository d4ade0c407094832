"""A broker as a member of its cluster: its membership, the controller it may become, its controlled shutdown."""

from __future__ import annotations

from collections.abc import Iterable

from sordini.broker.administration.config_receiver import load_layers
from sordini.broker.cluster.membership import Membership, MembershipHooks
from sordini.broker.cluster.peer_clocks import WRITE_MS_MAX, PeerClocks
from sordini.broker.cluster.peers.command_channel import CommandChannel
from sordini.broker.cluster.peers.controlled_shutdown import ControlledShutdown, ControlledShutdownLimits
from sordini.broker.cluster.tree_guard import TreeGuard
from sordini.broker.topics.metadata_cache import RuleAddresses
from sordini.broker.wiring.deps import BrokerDeps
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.startup import policy_of, warn_of_unknown_topics
from sordini.coordination_store.current_session import CurrentSession
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker
from sordini.replication.controller.controller import Controller
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Check, CoordinationStore, Session
from sordini.system.named_tuple import NamedTuple


class ClusterParts(NamedTuple):
    """What makes a broker a member of its cluster; nothing of it runs yet."""

    membership: Membership
    channel: CommandChannel
    leaving: ControlledShutdown
    clocks: PeerClocks


def wire_cluster(
    deps: BrokerDeps, session: CurrentSession, store: CoordinationStore, parts: BrokerParts, broker: Broker
) -> ClusterParts:
    """Build it; `broker` is what this broker registers."""
    config, runtime, transport = deps.config, deps.runtime, parts.inter_broker.transport
    contact, log = deps.cluster.contact, runtime.log
    channel = CommandChannel(
        broker.broker_id,
        parts.receiver.receive,
        transport.wire,
        transport.dial,
        transport.listener,
        runtime.spawn,
        log,
    )
    clocks = PeerClocks(session, broker.broker_id, log)
    if broker.rule_endpoints:  # Without rules, no connection is answered by one.
        clocks.on_read = lambda others: parts.metadata.set_rule_addresses(rule_addresses([*others, broker]))
        clocks.on_read([])
    guard = TreeGuard(
        deps.cluster.identity.cluster_id,
        broker.broker_id,
        lambda: any(True for _ in parts.replicas),
        contact,
        runtime.clock,
        log,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
    )
    membership = Membership(store, session, _hooks(deps, parts, broker, channel, clocks), contact, guard, log)
    leaving = ControlledShutdown(
        broker.broker_id,
        lambda: membership.broker_epoch,
        session,
        transport.dial,
        transport.serve_locally,
        ControlledShutdownLimits(
            transport.listener,
            config.controlled_shutdown_max_retries,
            config.controlled_shutdown_retry_backoff_ms,
            config.controller_socket_timeout_ms,
        ),
        log,
    )
    return ClusterParts(membership, channel, leaving, clocks)


def rule_addresses(brokers: Iterable[Broker]) -> dict[BrokerId, RuleAddresses]:
    """The addresses by rule of brokers, by broker and by the rule's name."""
    return {
        broker.broker_id: {end.listener: (end.host, end.port) for end in broker.rule_endpoints} for broker in brokers
    }


def _hooks(
    deps: BrokerDeps, parts: BrokerParts, broker: Broker, channel: CommandChannel, clocks: PeerClocks
) -> MembershipHooks:
    config, clock, log = deps.config, deps.runtime.clock, deps.runtime.log

    async def register(session: Session) -> int:
        timeout_ms = config.zookeeper_session_timeout_ms
        tree = (Check(paths.CLUSTER_ID),)
        registration = Registration(session, broker, clock, log, session_timeout_ms=timeout_ms, conditions=tree)
        broker_epoch = await registration.register()
        clocks.write_ms = WRITE_MS_MAX if registration.write_ms is None else registration.write_ms
        return broker_epoch

    def broker_epoch_changed(broker_epoch: int) -> None:
        parts.receiver.broker_epoch = broker_epoch

    async def reload_settings() -> None:
        await load_layers(deps.cluster.session, broker.broker_id, deps.dynamic, log)
        await warn_of_unknown_topics(parts.logs, deps.cluster.session, log)
        await parts.topic_configs.reload()
        parts.replicas.reconfigure()
        await parts.security.load_users(deps.cluster.session)
        await parts.quotas.load(deps.cluster.session)
        await parts.group_configs.load(deps.cluster.session)
        await parts.client_metrics.load(deps.cluster.session)

    def new_controller(session: Session) -> Controller:
        ids = topic_ids(deps.runtime.randomness.getrandbits)
        policy = policy_of(deps.dynamic)._replace(
            cluster_id=deps.cluster.identity.cluster_id, epoch_min=parts.receiver.controller_epoch
        )
        controller = Controller(session, broker.broker_id, channel, clock, log, topic_ids=ids, policy=policy)
        parts.admin.partitions.controller = controller
        return controller

    return MembershipHooks(register, broker_epoch_changed, reload_settings, new_controller)
