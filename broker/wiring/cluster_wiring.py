"""A broker's ties to its cluster, put together in one place: its membership, the controller it may be, its farewell."""

from __future__ import annotations

from typing import NamedTuple

from sordini.broker.configuration.receiver import load_layers
from sordini.broker.coordination.current_session import CurrentSession
from sordini.broker.membership.membership import Membership, MembershipHooks
from sordini.broker.membership.peer_clocks import WRITE_MS_MAX, PeerClocks
from sordini.broker.membership.tree_guard import TreeGuard
from sordini.broker.peers.command_channel import CommandChannel
from sordini.broker.peers.controlled_shutdown import ControlledShutdown, ControlledShutdownLimits
from sordini.broker.wiring.assembly import BrokerParts, Surroundings
from sordini.broker.wiring.startup import policy_of, warn_of_unknown_topics
from sordini.replication.cluster_model import Broker
from sordini.replication.controller.controller import Controller
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Check, CoordinationStore, Session


class Ties(NamedTuple):
    """What binds a broker to others; nothing of it runs yet."""

    membership: Membership
    channel: CommandChannel
    leaving: ControlledShutdown
    clocks: PeerClocks


def tie(
    around: Surroundings, session: CurrentSession, store: CoordinationStore, parts: BrokerParts, me: Broker
) -> Ties:
    """Put the ties together."""
    config, peering = around.config, parts.inter_broker
    channel = CommandChannel(
        me.broker_id,
        parts.receiver.receive,
        peering.wire,
        peering.dial,
        peering.listener,
        around.spawn,
        around.log,
    )
    clocks = PeerClocks(session, me.broker_id, around.log)
    guard = TreeGuard(
        around.identity.cluster_id,
        me.broker_id,
        lambda: any(True for _ in parts.replicas),
        around.contact,
        around.clock,
        around.log,
    )
    hooks = _hooks(around, parts, me, channel, clocks)
    membership = Membership(store, session, hooks, around.contact, guard, around.log)
    leaving = ControlledShutdown(
        me.broker_id,
        lambda: membership.broker_epoch,
        session,
        peering.dial,
        peering.serve_locally,
        ControlledShutdownLimits(
            peering.listener,
            config.controlled_shutdown_max_retries,
            config.controlled_shutdown_retry_backoff_ms,
            config.controller_socket_timeout_ms,
        ),
        around.log,
    )
    return Ties(membership, channel, leaving, clocks)


def _hooks(
    around: Surroundings, parts: BrokerParts, me: Broker, channel: CommandChannel, clocks: PeerClocks
) -> MembershipHooks:
    config, clock, log = around.config, around.clock, around.log

    async def register(session: Session) -> int:
        timeout_ms = config.zookeeper_session_timeout_ms
        tree = (Check(paths.CLUSTER_ID),)
        registration = Registration(session, me, clock, log, session_timeout_ms=timeout_ms, conditions=tree)
        broker_epoch = await registration.register()
        clocks.write_ms = WRITE_MS_MAX if registration.write_ms is None else registration.write_ms
        return broker_epoch

    def broker_epoch_changed(broker_epoch: int) -> None:
        parts.receiver.broker_epoch = broker_epoch

    async def reload_settings() -> None:
        await load_layers(around.session, me.broker_id, around.dynamic, log)
        await warn_of_unknown_topics(parts.logs, around.session, log)
        await parts.topic_configs.reload()
        parts.replicas.reconfigure()

    def new_controller(session: Session) -> Controller:
        ids = topic_ids(around.randomness.getrandbits)
        policy = policy_of(around.dynamic)._replace(
            cluster_id=around.identity.cluster_id, epoch_min=parts.receiver.controller_epoch
        )
        controller = Controller(session, me.broker_id, channel, clock, log, topic_ids=ids, policy=policy)
        parts.admin.partitions.controller = controller
        return controller

    return MembershipHooks(register, broker_epoch_changed, reload_settings, new_controller)
