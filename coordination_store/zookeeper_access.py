"""How ZooKeeper is reached, and whom the znodes belong to: TLS, a login, and access control lists.

The lists are those of Apache Kafka 3.9 with `zookeeper.set.acl=true`, by the path of a znode in its cluster's tree:

    /consumers itself                                       the world: everything
    below /config/users, /config/brokers, delegation tokens  the login: everything      the world: nothing
    /sordini/unknown_users                                   the login: everything      the world: nothing
    every other                                              the login: everything      the world: reading

"The login" is each identity that a session has proved (ZooKeeper's scheme `auth`). Lists are given to znodes that are
created; those of existing znodes stay.
"""

from __future__ import annotations

from typing import Any, Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from sordini.client.tls.contexts import Context
from sordini.replication.metadata_store.paths import OPEN_PATHS, SENSITIVE_PATHS
from sordini.system.named_tuple import NamedTuple


class DigestLogin(NamedTuple):
    """A user of ZooKeeper's scheme `digest`; the password is sent as it is."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"DigestLogin({self.user})"


class ZooKeeperAccess(NamedTuple):
    """How a session is secured."""

    tls: Context | None = None
    """None: plaintext."""
    login: DigestLogin | None = None
    sets_acl: bool = False
    """Whether znodes are made for this login only."""
    root: str = ""
    """The znode at the root of the cluster's tree below the session's own root, "" if they are the same."""

    def acl_of(self, path: str) -> list[Any]:
        """The list of a znode that is created, by its path in the session."""
        if not self.sets_acl:
            return list(OPEN_ACL_UNSAFE)
        inside = path.removeprefix(self.root) if path.startswith(f"{self.root}/") else path
        if inside in OPEN_PATHS:
            return list(OPEN_ACL_UNSAFE)
        if inside.startswith(SENSITIVE_PATHS):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


OPEN: Final = ZooKeeperAccess()
"""In plaintext, without a login, with znodes that everyone changes: Apache Kafka's default."""
