"""What visitors see of the registry: all the same by the console's own login, or each by the visitor's.

With logins of visitors, what is known of schemas is kept for each session, since the registry decides who reads them.
"""

from __future__ import annotations

from sordini.admin.schema_registry.access import RegistryAccess, basic
from sordini.console.records.registered_schemas import RegisteredSchemas
from sordini.console.security.sessions import Session


class RegistryLogins:
    """The registry, as each session reaches it."""

    def __init__(self, access: RegistryAccess, *, as_visitors: bool) -> None:
        self._access = access
        self._of_all = None if as_visitors else RegisteredSchemas(access)

    def of(self, session: Session) -> RegisteredSchemas:
        """What a session knows of the registry; it ends with it."""
        if self._of_all is not None:
            return self._of_all
        for one in session.closables:
            if isinstance(one, RegisteredSchemas):
                return one
        made = RegisteredSchemas(self._access._replace(authorization=_login(session)))
        session.closables.append(made)
        return made


def _login(session: Session) -> str | None:
    try:
        return None if session.password is None else basic(session.principal, session.password)
    except ValueError:  # A name that HTTP has no way to send: the registry says that there is no login.
        return None
