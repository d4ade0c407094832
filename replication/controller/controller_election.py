"""The election of the controller: the ephemeral node /controller, and /controller_epoch, which counts the elections.

    no /controller -> multi(create /controller, set /controller_epoch under the version that was read)

No controller is elected in another cluster's tree (see `cluster_identity`): the same multi checks /cluster/id.

The version of the epoch's node changes with every election, and guards every write of a controller.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final

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
    Logger,
    NodeExists,
    NoNode,
    Session,
    Set,
    Stat,
    Watch,
)
from sordini.system.named_tuple import NamedTuple

CONTROLLER_EPOCH_RAISE: Final = 1_000
"""Added to a controller epoch that a broker refused, to exceed all elections since the backup of a restored store."""
RAISES_MAX: Final = 8
"""How often one session raises the epoch for a broker that refuses it; after that the cause must be another."""


class ControllerTerm(NamedTuple):
    """A term of an elected controller. `version` is that of the /controller_epoch node, which guards every write."""

    epoch: int
    version: int


class ControllerHolder(Enum):
    """Whose the /controller node is."""

    NONE = "none"
    THIS_BROKER = "this broker"
    OTHER_BROKER = "other broker"


class ElectionImpossible(Exception):
    """No broker can be elected: the controller epoch cannot be read, or the tree is another cluster's.

    The watch fires when either changes.
    """


class ControllerElection:
    """The nodes of the election, read and written by one broker in one session."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        clock: Clock,
        log: Logger,
        watch: Watch,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        """`watch` is called when an election may be due."""
        self._session = session
        self._broker_id = broker_id
        self._clock = clock
        self._log = log
        self._watch = watch
        self._cluster_id = policy.cluster_id
        self._in_our_tree = () if policy.cluster_id is None else (Check(paths.CLUSTER_ID),)
        """A condition of the writes here: the tree may disappear after it was read."""
        self._highest = policy.epoch_min
        """The highest epoch that this broker knows: brokers obey no lower one, whatever the node contains."""
        self._refused = -1
        """The last epoch of which a broker refused a command."""
        self._raises = 0

    async def read(self) -> tuple[ControllerHolder, ControllerTerm]:
        """The controller node's holder and the term of the last election. Raises ElectionImpossible."""
        await self._check_tree()
        # In this order: if /controller is ours, so is the epoch that was read before.
        term, stat = await asyncio.gather(self._last_term(), self._session.exists(paths.CONTROLLER, watch=self._watch))
        is_refused = term.epoch == self._refused
        is_lowered, self._highest = term.epoch < self._highest or is_refused, max(term.epoch, self._highest)
        if stat is None:
            return ControllerHolder.NONE, term
        if stat.ephemeral_owner != self._session.session_id:
            return ControllerHolder.OTHER_BROKER, term
        if is_lowered:
            # The epoch was lowered, or is too low. Another election raises it.
            if is_refused:
                self._highest += CONTROLLER_EPOCH_RAISE
            await self.resign(term)
            return ControllerHolder.NONE, term
        return ControllerHolder.THIS_BROKER, term

    def epoch_refused(self, epoch: int) -> bool:
        """A broker refused a command of this controller epoch, because it obeyed a higher one.

        Either another controller has been elected, or the store was restored from an older backup and another election
        has to raise the epoch. False after RAISES_MAX times.
        """
        if epoch == self._refused or self._raises == RAISES_MAX:
            return False
        self._refused = epoch
        self._raises += 1
        return True

    async def run_for(self, last: ControllerTerm) -> ControllerTerm | None:
        """Try to be elected for the next term; None when another broker was faster."""
        controller = znodes.encode_controller(self._broker_id, self._clock.now_ms())
        epoch = max(last.epoch, self._highest) + 1
        try:
            _, stat, *_ = await self._session.multi(
                [
                    Create(paths.CONTROLLER, controller, ephemeral=True),
                    Set(paths.CONTROLLER_EPOCH, b"%d" % epoch, last.version),
                    *self._in_our_tree,
                ]
            )
        except (NodeExists, BadVersion, NoNode):
            return None
        assert isinstance(stat, Stat)
        self._highest = epoch
        # The former watch fired at our own creation; this one is for the end of the term.
        await self._session.exists(paths.CONTROLLER, watch=self._watch)
        return ControllerTerm(epoch, stat.version)

    async def resign(self, term: ControllerTerm) -> None:
        """Delete /controller if the term is still the current one, so that another broker can be elected at once."""
        try:
            await self._session.multi([Check(paths.CONTROLLER_EPOCH, term.version), Delete(paths.CONTROLLER)])
        except CoordinationError as error:
            self._log.info("controller node not deleted, it ends with the session", reason=str(error))

    async def _check_tree(self) -> None:
        """Raises ElectionImpossible in a tree that is not this cluster's."""
        if self._cluster_id is None or not await mismatch(self._session, self._cluster_id):
            return
        # Watched before it is read again: it may have been restored in between.
        await self._session.exists(paths.CLUSTER_ID, watch=self._watch)
        reason = await mismatch(self._session, self._cluster_id)
        if reason:
            raise ElectionImpossible(
                f"the coordination store's tree is not that of cluster {self._cluster_id}: {reason}"
            )

    async def _last_term(self) -> ControllerTerm:
        """The term of the present epoch. Without a node, it is created with epoch 0."""
        try:
            data, stat = await self._session.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            try:
                await self._session.multi([Create(paths.CONTROLLER_EPOCH, b"0"), *self._in_our_tree])
            except NodeExists:
                return await self._last_term()
            except NoNode:
                await self._check_tree()
                raise ElectionImpossible("the coordination store's tree is being removed") from None
            return ControllerTerm(0, 0)
        epoch = znodes.decode_controller_epoch(data)
        if isinstance(epoch, Malformed):
            # Never guessed: with a lower epoch every broker would refuse this controller's commands.
            current = await self._session.exists(paths.CONTROLLER_EPOCH, watch=self._watch)
            if current is None or current.version != stat.version:
                return await self._last_term()
            raise ElectionImpossible(f"{epoch.path} contains no epoch: {epoch.reason}")
        return ControllerTerm(epoch, stat.version)
