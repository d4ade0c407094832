"""SCRAM credentials of users, as the coordination store has them, and their changes.

They are settings of users, `/config/users/<name>`, one for each mechanism; the name is escaped as Apache Kafka escapes
it. They are read at the start, with each change notification, and in each new session: notifications may have been
deleted meanwhile. A login of a user without a credential is answered with a made-up one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from sordini.broker.security.sasl.cluster_secret import shared_secret
from sordini.broker.security.sasl.made_up_credentials import Shape, made_up_credential, shape_of
from sordini.broker.security.sasl.scram_credential import HASHES, ScramCredential, read_credential
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import Logger, NoNode, Session

USERS: Final = "users/"
DEFAULT_USER: Final = "<default>"
_DIRECTORY: Final = "/config/users"


def user_entity(name: str) -> str:
    """A user as config change notifications name it."""
    return USERS + quote(name, safe="")


class ScramUsers:
    """The credentials of all users."""

    def __init__(self, log: Logger, secret: bytes) -> None:
        """`secret` is random; it becomes the cluster's if no broker has stored one."""
        self._log = log
        self._secret = secret
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        self._shapes: dict[str, Counter[Shape]] = {mechanism: Counter() for mechanism in HASHES}
        """Of the credentials of each mechanism."""

    async def load_secret(self, session: Session) -> None:
        """Read the secret of made-up credentials, or store the one that is here. Raises CoordinationError."""
        self._secret = await shared_secret(session, self._secret, self._log)

    async def load(self, session: Session) -> None:
        """Read all users, and forget those that are gone. Raises CoordinationError."""
        before = dict(self._credentials)
        try:
            names = await session.children(_DIRECTORY)
        except NoNode:
            names = []
        for name in names:
            settings = await read_config(session, USERS + name)
            if isinstance(settings, Malformed):
                self._log.error("unreadable settings of a user", path=settings.path, reason=settings.reason)
                settings = {}
            self.changed(USERS + name, settings)
        present = set(map(unquote, names))
        for user, credentials in before.items():
            # A user that was made again meanwhile has other credentials by now.
            if user not in present and self._credentials.get(user) is credentials:
                self._replace(user, {})

    def changed(self, entity_path: str, settings: Mapping[str, str]) -> None:
        """A user's settings are these now. Other entities are passed over."""
        escaped = entity_path.removeprefix(USERS)
        if escaped in (entity_path, DEFAULT_USER) or "/" in escaped:
            return
        user = unquote(escaped)
        found: dict[str, ScramCredential] = {}
        for mechanism in HASHES.keys() & settings.keys():
            try:
                found[mechanism] = read_credential(mechanism, settings[mechanism])
            except ValueError as error:
                self._log.error("unreadable credential of a user", user=user, reason=str(error))
        self._replace(user, found)

    def _replace(self, user: str, credentials: dict[str, ScramCredential]) -> None:
        for mechanism, credential in self._credentials.pop(user, {}).items():
            shapes, shape = self._shapes[mechanism], shape_of(credential)
            shapes[shape] -= 1
            if not shapes[shape]:
                del shapes[shape]
        for mechanism, credential in credentials.items():
            self._shapes[mechanism][shape_of(credential)] += 1
        if credentials:
            self._credentials[user] = credentials

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """A user's credential for a mechanism; None if there is none."""
        return self._credentials.get(user, {}).get(mechanism)

    def answered_with(self, mechanism: str, user: str) -> tuple[ScramCredential, bool]:
        """What a login is answered with, and whether the user exists; both cost the same."""
        made_up = made_up_credential(mechanism, user, self._secret, self._shapes[mechanism])
        known = self.credential(mechanism, user)
        return (made_up, False) if known is None else (known, True)

    def all(self) -> Mapping[str, Mapping[str, ScramCredential]]:
        """By user and mechanism."""
        return self._credentials
