"""Who is logged in. Pure: the time and the random ids come in.

A session ends after it was idle for IDLE_S, at the latest LIFETIME_S after the login, when its visitor logs out, or
when SESSIONS_MAX others were used later, or SESSIONS_OF_USER_MAX of its user. Its connections to the cluster end with
it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from sordini.console.readers.changes import ChangeLog
from sordini.console.readers.group_lags import LagHistories
from sordini.console.settings import CHECKPOINTS_MAX

IDLE_S: Final = 30 * 60.0
LIFETIME_S: Final = 12 * 3600.0
SESSIONS_MAX: Final = 100
SESSIONS_OF_USER_MAX: Final = 20
"""Of one user of the cluster, whose logins end no session of another one."""
STREAMS_MAX: Final = 6
"""Live streams and downloads of one session; a browser has one for each open page."""


class Closable(Protocol):
    """What is closed with a session."""

    def close(self) -> None: ...


@dataclass
class Session:
    """One logged-in visitor."""

    key: str = field(repr=False)
    principal: str
    """Under which the visitor is known in the log."""
    password: str | None = field(repr=False)
    """With which it logs in to the cluster; None: as the console's own file says."""
    began_s: float
    used_s: float
    streams: int = 0
    notices: list[str] = field(default_factory=list)
    """What the next page says once."""
    is_open: bool = True
    changes: ChangeLog = field(default_factory=ChangeLog, repr=False)
    lags: LagHistories = field(default_factory=LagHistories, repr=False)
    checkpoints: LagHistories = field(default_factory=lambda: LagHistories(CHECKPOINTS_MAX), repr=False)
    closables: list[Closable] = field(default_factory=list, repr=False)

    def close(self) -> None:
        self.is_open = False
        for one in self.closables:
            one.close()
        self.closables.clear()


class Sessions:
    """All of them, by the key in the cookie."""

    def __init__(self, new_key: Callable[[], str]) -> None:
        """`new_key` returns fresh random text that cannot be guessed."""
        self._new_key = new_key
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, principal: str, password: str | None, now_s: float) -> Session:
        """A new session; the key is new with each login."""
        if password is not None:
            own = [one for one in self._sessions.values() if one.principal == principal]
            for oldest in own[: max(len(own) - SESSIONS_OF_USER_MAX + 1, 0)]:
                self.end(oldest)
        session = Session(self._new_key(), principal, password, now_s, now_s)
        self._sessions[session.key] = session
        while len(self._sessions) > SESSIONS_MAX:
            _, oldest = self._sessions.popitem(last=False)
            oldest.close()
        return session

    def find(self, key: str, now_s: float) -> Session | None:
        """The session of a cookie, which is in use again; None if there is none, or it is over."""
        session = self._sessions.get(key)
        if session is None:
            return None
        if _is_over(session, now_s):
            self.end(session)
            return None
        session.used_s = now_s
        self._sessions.move_to_end(key)
        return session

    def end(self, session: Session) -> None:
        """Log out. May be called again."""
        self._sessions.pop(session.key, None)
        session.close()

    def end_idle(self, now_s: float) -> None:
        """End those that are over, with their connections: no request of theirs may arrive any more."""
        for session in [one for one in self._sessions.values() if _is_over(one, now_s)]:
            self.end(session)

    def close(self) -> None:
        for session in list(self._sessions.values()):
            self.end(session)


def _is_over(session: Session, now_s: float) -> bool:
    return now_s - session.used_s > IDLE_S or now_s - session.began_s > LIFETIME_S
