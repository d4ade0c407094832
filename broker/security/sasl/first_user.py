"""The user that a secured broker makes at its first start, with a password that only its files have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from sordini.broker.security.sasl.scram_credential import (
    DEFAULT_ITERATIONS,
    DEFAULT_SALT_BYTES,
    HASHES,
    credential_of,
    salted,
)
from sordini.broker.security.sasl.users import ScramUsers, user_entity
from sordini.replication.metadata_store.configs import change_config
from sordini.replication.ports import Session
from sordini.system.named_tuple import NamedTuple


class FirstUser(NamedTuple):
    """A user to make."""

    name: str
    password: str
    made_in: str
    """The id of the cluster in which it was made before; empty: in none."""
    on_made: Callable[[str], None]
    """Called with the id of the cluster once it is there."""

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r})"


async def make_first_user(user: FirstUser, cluster_id: str, users: ScramUsers, session: Session) -> None:
    """Make the user, once in each cluster, unless it is there already. Raises CoordinationError."""
    if user.made_in == cluster_id:
        return
    if not users.all().get(user.name):
        credentials = _credentials(user.password)
        await change_config(session, user_entity(user.name), lambda found: {**found, **credentials})
        await users.load(session)
    user.on_made(cluster_id)


def _credentials(password: str) -> Mapping[str, str]:
    """By mechanism; some milliseconds of hashing, before the broker serves."""
    made = {}
    for mechanism in HASHES:
        salt = os.urandom(DEFAULT_SALT_BYTES)
        salted_password = salted(mechanism, password, salt, DEFAULT_ITERATIONS)
        made[mechanism] = credential_of(mechanism, salted_password, salt, DEFAULT_ITERATIONS).text
    return made
