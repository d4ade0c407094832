"""What a simulated member can know for certain of when its broker heard it, and how it tried to be heard.

Both are for judging an expulsion: who was heard, or kept trying while the broker did not run, is not to be forgotten.
"""

from __future__ import annotations

from tests.sim.client import Connection
from tests.sim.group_history import Expelled, GroupHistory
from tests.support.virtual_loop import SimLoop

UNDISTURBED_S = 0.5
"""An answer that is not held up comes sooner."""
NEVER = float("inf")


class BrokerContact:
    """One member's, for as long as it has one id."""

    def __init__(self, loop: SimLoop, history: GroupHistory) -> None:
        self._loop = loop
        self._history = history
        self._answered_by = 0.0
        self._tried = 0.0
        self._longest_silence_s = 0.0
        self._written = NEVER

    def tries(self) -> None:
        """A connection is asked for, or a request is sent."""
        now = self._loop.time()
        self._longest_silence_s = max(self._longest_silence_s, now - max(self._tried, self._answered_by))
        self._tried = now

    def is_answered(self, began: float) -> None:
        """What was sent then has been answered."""
        if began > self._answered_by:
            self._answered_by = began
            self._longest_silence_s = self._tried - began

    def is_answered_after_waiting(self, connection: Connection, began: float) -> None:
        """A request that waited was answered: its session began then, if nothing held the answer up."""
        now = self._loop.time()
        held_up_until = max(connection.socket.inward.stalled_until, connection.asleep_until)
        paused = any(pause.ended >= began for pause in self._history.pauses)
        is_prompt = now > held_up_until + UNDISTURBED_S and not paused
        self.is_answered(max(began, now - UNDISTURBED_S) if is_prompt else began)

    def is_written(self) -> None:
        """A generation with this id is known to be written down from now on."""
        self._written = min(self._written, self._loop.time())

    def has_new_id(self) -> None:
        self._written = NEVER

    def is_expelled(self, connection: Connection, group_id: str, member_id: str, began: float) -> None:
        """What was sent then was answered with UNKNOWN_MEMBER_ID."""
        spoke, now = max(began, connection.socket.outward.stalled_until), self._loop.time()
        expelled = Expelled(group_id, member_id, self._answered_by, spoke, now, self._written, self._longest_silence_s)
        self._history.expelled.append(expelled)
