"""The nodes by which a controller is elected: /controller, which lives as long as its session, and /controller_epoch,
which counts the elections ever won.

    nobody has /controller -> multi(create /controller, set /controller_epoch under the version that was read)

No broker is elected in a tree that is not its cluster's (see `belonging`): the same multi checks /cluster/id.

The epoch's node is the guard of everything a controller writes: its version changes with every election.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final, NamedTuple

from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.controller.policy import DEFAULT_POLICY, Policy
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.cluster_identity import mismatch
from sordini.replication.ports import (
    BadVersion,
    Check,
    Clock,
    CoordinationError,
    Create,
    Delete,
    Log,
    NodeExists,
    NoNode,
    Session,
    Set,
    Stat,
    Watch,
)

EPOCHS_AHEAD: Final = 1_000
"""How far the next controller epoch is above one that a broker refused: above all elections since the backup from which
the store was restored.
"""
RAISES_MAX: Final = 8
"""How often one session raises the epoch for a broker that refuses it: then the reason is another."""


class ControllerTerm(NamedTuple):
    """A won election. `version` is that of /controller_epoch's node, the condition of every write."""

    epoch: int
    version: int


class ControllerHolder(Enum):
    """Whose /controller is."""

    NOBODY = "nobody"
    US = "us"
    ANOTHER = "another"


class ElectionImpossible(Exception):
    """No broker can be elected: the last controller's epoch cannot be read, or the tree is not this cluster's.

    The watch fires when either has changed.
    """


class ControllerElection:
    """What one broker reads and writes to be the controller, in one session."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        clock: Clock,
        log: Log,
        watch: Watch,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        """`watch` is called when there may be an election."""
        self._session = session
        self._broker_id = broker_id
        self._clock = clock
        self._log = log
        self._watch = watch
        self._cluster_id = policy.cluster_id
        self._in_our_tree = () if policy.cluster_id is None else (Check(paths.CLUSTER_ID),)
        """The condition of what is written here: the tree may go away after it was read."""
        self._highest = policy.epoch_min
        """The highest epoch that was seen here: brokers obey nothing lower, whatever the node says."""
        self._refused = -1
        """The last epoch of which a broker has refused a command."""
        self._raises = 0

    async def look(self) -> tuple[ControllerHolder, ControllerTerm]:
        """Who reigns, and the reign of the last election. Raises ElectionImpossible."""
        await self._check_tree()
        # In this order: while /controller is ours, the epoch read before it is ours as well.
        reign, stat = await asyncio.gather(
            self._last_reign(), self._session.exists(paths.CONTROLLER, watch=self._watch)
        )
        is_refused = reign.epoch == self._refused
        is_set_back, self._highest = reign.epoch < self._highest or is_refused, max(reign.epoch, self._highest)
        if stat is None:
            return ControllerHolder.NOBODY, reign
        if stat.ephemeral_owner != self._session.session_id:
            return ControllerHolder.ANOTHER, reign
        if is_set_back:
            # Somebody has set the epoch back. Another election brings it forward.
            if is_refused:
                self._highest += EPOCHS_AHEAD
            await self.give_up(reign)
            return ControllerHolder.NOBODY, reign
        return ControllerHolder.US, reign

    def refused(self, epoch: int) -> bool:
        """A broker has refused a command of this controller epoch: it has obeyed a higher one.

        Either another controller is elected by now, or the store was restored from an older backup, and another
        election has to raise the epoch. False where that has been tried often enough.
        """
        if epoch == self._refused or self._raises == RAISES_MAX:
            return False
        self._refused = epoch
        self._raises += 1
        return True

    async def stand(self, last: ControllerTerm) -> ControllerTerm | None:
        """Try to become the controller after that reign; None when somebody was faster."""
        mine = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        epoch = max(last.epoch, self._highest) + 1
        try:
            _, stat, *_ = await self._session.multi(
                [
                    Create(paths.CONTROLLER, mine, ephemeral=True),
                    Set(paths.CONTROLLER_EPOCH, b"%d" % epoch, last.version),
                    *self._in_our_tree,
                ]
            )
        except (NodeExists, BadVersion, NoNode):
            return None
        assert isinstance(stat, Stat)
        self._highest = epoch
        # The watch set before fired at our own creation; this one is for the end of the reign.
        await self._session.exists(paths.CONTROLLER, watch=self._watch)
        return ControllerTerm(epoch, stat.version)

    async def give_up(self, reign: ControllerTerm) -> None:
        """Remove /controller if the reign is still ours, so that another can be elected at once."""
        try:
            await self._session.multi([Check(paths.CONTROLLER_EPOCH, reign.version), Delete(paths.CONTROLLER)])
        except CoordinationError as error:
            self._log.info("left /controller to the end of the session", reason=str(error))

    async def _check_tree(self) -> None:
        """Raises ElectionImpossible in the tree of another cluster, or of none."""
        if self._cluster_id is None or not await mismatch(self._session, self._cluster_id):
            return
        # Watched before it is read again: it may have been restored in between.
        await self._session.exists(paths.CLUSTER_ID, watch=self._watch)
        reason = await mismatch(self._session, self._cluster_id)
        if reason:
            raise ElectionImpossible(
                f"the coordination store's tree is not that of cluster {self._cluster_id}: {reason}"
            )

    async def _last_reign(self) -> ControllerTerm:
        """That of the last epoch. The node is made, as epoch 0, when there is none."""
        try:
            data, stat = await self._session.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            try:
                await self._session.multi([Create(paths.CONTROLLER_EPOCH, b"0"), *self._in_our_tree])
            except NodeExists:
                return await self._last_reign()
            except NoNode:
                await self._check_tree()
                raise ElectionImpossible("the coordination store's tree is going away") from None
            return ControllerTerm(0, 0)
        epoch = znodes.decode_controller_epoch(data)
        if isinstance(epoch, Malformed):
            # Never guessed at: a lower epoch would make every broker deaf to this controller.
            now = await self._session.exists(paths.CONTROLLER_EPOCH, watch=self._watch)
            if now is None or now.version != stat.version:
                return await self._last_reign()
            raise ElectionImpossible(f"{epoch.path} holds no epoch: {epoch.reason}")
        return ControllerTerm(epoch, stat.version)
