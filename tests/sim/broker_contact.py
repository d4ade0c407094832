"""When the broker certainly received a request of a simulated member, and how the member tried to reach it.

The checker of expulsions needs both: a member whose requests arrived, or that kept trying while the broker was down,
must not be removed.
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.sim.client import Connection
from tests.sim.group_history import Expelled, GroupHistory

UNDISTURBED_S = 0.5
"""An answer that is not held up comes sooner."""
NEVER = float("inf")


class BrokerContact:
    """The contact of one member, as long as it keeps its member id."""

    def __init__(self, loop: SimLoop, history: GroupHistory) -> None:
        self._loop = loop
        self._history = history
        self.last_contact = 0.0
        """When the last request was sent that the coordinator answered as one of a member."""
        self._tried = 0.0
        self._longest_silence_s = 0.0
        self._written = NEVER

    def tries(self) -> None:
        """A connection is opened, or a request is sent."""
        now = self._loop.time()
        self._longest_silence_s = max(self._longest_silence_s, now - max(self._tried, self.last_contact))
        self._tried = now

    def is_answered(self, began: float) -> None:
        """The request sent at `began` was answered."""
        if began > self.last_contact:
            self.last_contact = began
            self._longest_silence_s = self._tried - began

    def heartbeat_is_answered(self, group_id: str, code: ErrorCode, began: float) -> None:
        """A classic member's Heartbeat, sent at `began`, was answered.

        While the coordinator loads the group it answers NONE to each, also to those of members that it has expelled
        before: that is no contact. So does Apache Kafka, and in a group of KIP-848, too.
        """
        is_known = code == ErrorCode.NONE and not self._history.may_be_loading(group_id, began)
        if is_known or code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.is_answered(began)

    def is_answered_after_waiting(self, connection: Connection, began: float) -> None:
        """A delayed request was answered: the session starts at that time, unless the answer was held up."""
        now = self._loop.time()
        held_up_until = max(connection.socket.wire.inward.stalled_until, connection.asleep_until)
        paused = any(pause.ended >= began for pause in self._history.pauses)
        is_prompt = now > held_up_until + UNDISTURBED_S and not paused
        self.is_answered(max(began, now - UNDISTURBED_S) if is_prompt else began)

    def is_written(self) -> None:
        """A generation with this member id is committed from now on."""
        self._written = min(self._written, self._loop.time())

    def has_new_id(self) -> None:
        self._written = NEVER

    def is_expelled(self, connection: Connection, group_id: str, member_id: str, began: float) -> None:
        """The request sent at `began` was answered with UNKNOWN_MEMBER_ID."""
        spoke, now = max(began, connection.socket.wire.outward.stalled_until), self._loop.time()
        expelled = Expelled(group_id, member_id, self.last_contact, spoke, now, self._written, self._longest_silence_s)
        self._history.expelled.append(expelled)
