"""How share partitions are led: their registry, the sessions of members, and what both need."""

from __future__ import annotations

from functools import lru_cache

from sordini.broker.configuration.share_group_configs import ShareLimits as GroupLimits
from sordini.broker.coordinators.ports import Ports
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.requests.call import Route
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.share_state.ports import LeaderStates
from sordini.broker.shares.in_flight_handler import ShareInFlightHandler
from sordini.broker.shares.led_share_partition import ShareDeps
from sordini.broker.shares.machine.sessions import ShareSessions
from sordini.broker.shares.machine.share_partition import ShareLimits
from sordini.broker.shares.member_sessions import MemberSessions
from sordini.broker.shares.ports import ShareSettings
from sordini.broker.shares.share_acknowledge_handler import ShareAcknowledgeHandler
from sordini.broker.shares.share_fetch_handler import ShareFetchHandler
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.broker.shares.start_lookup import OffsetResets
from sordini.broker.wiring.dead_letters import DeadLetterDeps, DeadLetterParts, wire_dead_letters
from sordini.broker.wiring.deps import BrokerDeps
from sordini.system.named_tuple import NamedTuple


class ShareParts(NamedTuple):
    """What serves the members of share groups on the leaders of their partitions."""

    partitions: SharePartitions
    sessions: MemberSessions
    dead_letters: DeadLetterParts


def wire_shares(
    deps: BrokerDeps,
    leaders: KnownLeaders,
    persister: LeaderStates,
    letters: DeadLetterDeps,
    jobs: JobQueue,
    slices: SliceScheduler,
    ports: Ports,
) -> ShareParts:
    """Build both; share partitions end with the leadership of their partitions."""
    runtime, dynamic, limits = deps.runtime, deps.dynamic, letters.groups
    dead_letters = wire_dead_letters(deps.cluster.identity.broker_id, letters, leaders, jobs, ports)
    starts = OffsetResets(lambda group_id: limits.of(group_id).offset_reset, jobs, runtime.clock, runtime.spawn)
    share_deps = ShareDeps(
        persister,
        lambda group_id: _settings(limits.of(group_id)),
        starts,
        runtime.clock,
        runtime.call_later,
        dead_letters.writer,
    )
    partitions = SharePartitions(leaders, share_deps, slices)
    leaders.replicas.leadership_listeners.append(partitions)

    def sessions_max() -> int:
        return dynamic.config.group_share_max_share_sessions

    return ShareParts(partitions, MemberSessions(ShareSessions(), partitions, sessions_max, slices), dead_letters)


def share_routes(deps: BrokerDeps, shares: ShareParts) -> list[Route]:
    """What members and operators request of leaders."""
    return [
        ShareFetchHandler(shares.sessions, shares.partitions, deps.runtime.call_later).route(),
        ShareAcknowledgeHandler(shares.sessions, shares.partitions).route(),
        ShareInFlightHandler(shares.partitions, deps.runtime.clock).route(),
    ]


@lru_cache
def _settings(group: GroupLimits) -> ShareSettings:
    """Groups of equal settings share theirs."""
    limits = ShareLimits(
        group.delivery_count_limit,
        group.partition_record_locks_max,
        group.record_lock_duration_ms,
        group.dead_letter_topic is not None,
    )
    return ShareSettings(limits, group.is_read_committed, group.allows_renewal)
