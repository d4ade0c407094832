"""ISR changes as before protocol 2.7-IV2: written to the coordination store by the leader.

A leader reads its partition's state node and, if that still names it with its leader epoch, sets the node under the
version that its proposal was made on. Nothing is granted while the store cannot be reached, and a write whose answer
was lost is read again before anything is decided. The controller does not watch these nodes: a node in
/isr_change_notification names the partitions, and the controller sends their state to all brokers.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.broker.cluster.peers.pending_isr_changes import IsrChange, PendingIsrChanges
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Malformed
from sordini.replication.leader import NEVER_MS
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import (
    BadVersion,
    Clock,
    CoordinationError,
    IsrGrant,
    IsrRefusal,
    Logger,
    NoNode,
    Session,
    Spawn,
)

RETRY_PAUSE_MS: Final = 1_000
"""Between two attempts while the store does not answer."""
CONCURRENT_WRITES_MAX: Final = 64
"""How many partitions' nodes are written at the same time."""
NOTIFICATION_CHECK_MS: Final = 2_500
"""At most one notification is written in this time; Apache Kafka's, as are the next two."""
NOTIFICATION_QUIET_MS: Final = 5_000
"""A notification waits until nothing changed for this long..."""
NOTIFICATION_WAIT_MAX_MS: Final = 60_000
"""...but not when the last one is this long ago."""
NOTIFICATION_PARTITIONS_MAX: Final = 1_000
"""Of one notification: a node holds a megabyte at most."""


class IsrInStore(PendingIsrChanges):
    """ISR changes by conditional writes."""

    def __init__(self, broker_id: BrokerId, session: Session, clock: Clock, spawn: Spawn, log: Logger) -> None:
        super().__init__(spawn, RETRY_PAUSE_MS, CONCURRENT_WRITES_MAX)
        self._broker_id = broker_id
        self._session = session
        self._log = log
        self._notifications = _ChangeNotifications(session, clock, spawn)
        self._is_failing = False

    async def _request(self, changes: list[IsrChange]) -> bool:
        """Try to carry changes out; whether there is a verdict on each, or it was dropped."""
        return all(await asyncio.gather(*map(self._settle, changes)))

    async def _settle(self, change: IsrChange) -> bool:
        """Try to carry one change out; whether there is a verdict, or the proposal was dropped."""
        name = change.topic_partition
        try:
            verdict = await self._verdict(change)
        except CoordinationError as failure:
            if not self._is_failing:
                self._is_failing = True
                self._log.warning("ISR change not written, retrying", partition=str(name), reason=str(failure))
            return not self._is_pending(change)
        self._is_failing = False
        if self._take(change):
            if isinstance(verdict, IsrRefusal):
                self._log.info("ISR change refused", partition=str(name), isr=change.proposal.isr, why=verdict.value)
            change.answered(verdict)
        return True

    async def _verdict(self, change: IsrChange) -> IsrGrant | IsrRefusal:
        """Read, compare, write. Raises CoordinationError when the outcome is not known."""
        path, proposal = paths.state(change.topic_partition), change.proposal
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            return IsrRefusal.STALE  # The topic is deleted.
        state = znodes.decode_state(change.topic_partition, data)
        if isinstance(state, Malformed):
            self._log.error("state node cannot be read", path=state.path, reason=state.reason)
            return IsrRefusal.STALE
        if state.leader != self._broker_id or state.leader_epoch != proposal.leader_epoch:
            return IsrRefusal.STALE
        version = stat.version
        if version == proposal.partition_epoch:
            changed = state._replace(isr=proposal.isr, recovering=False)
            try:
                version = (await self._session.set(path, znodes.encode_state(changed), version)).version
            except (BadVersion, NoNode):
                return IsrRefusal.STALE
        elif set(state.isr) != set(proposal.isr):
            return IsrRefusal.STALE
        # Otherwise it is this proposal, from a write whose answer was lost.
        self._notifications.add(change.topic_partition)
        return IsrGrant(state.leader_epoch, proposal.isr, version)


class _ChangeNotifications:
    """Notifies the controller of the partitions that changed, many at a time."""

    def __init__(self, session: Session, clock: Clock, spawn: Spawn) -> None:
        self._session = session
        self._clock = clock
        self._spawn = spawn
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = NEVER_MS
        self._notified_ms = NEVER_MS
        self._is_running = False

    def add(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        self._changed_ms = self._clock.monotonic_ms()
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._changed:
                await asyncio.sleep(NOTIFICATION_CHECK_MS / 1000)
                now_ms = self._clock.monotonic_ms()
                if (
                    now_ms - self._changed_ms >= NOTIFICATION_QUIET_MS
                    or now_ms - self._notified_ms >= NOTIFICATION_WAIT_MAX_MS
                ):
                    await self._notify()
        finally:
            self._is_running = False

    async def _notify(self) -> None:
        notified = list(self._changed)[:NOTIFICATION_PARTITIONS_MAX]
        for topic_partition in notified:
            del self._changed[topic_partition]
        try:
            await self._session.create(paths.ISR_CHANGE_PREFIX, znodes.encode_isr_change(notified), sequential=True)
        except CoordinationError:
            # Perhaps it was written: a second notification does no harm. The next round tries again.
            self._changed = dict.fromkeys(notified) | self._changed
        else:
            self._notified_ms = self._clock.monotonic_ms()
